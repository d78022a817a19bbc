"""Clusters from files, directories, dumps and standard input."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.codec import to_tree
from bayplan.simulation.readers.reading import read
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, SnapshotError, to_bytes
from bayplan.testing.builders import node, pod
from tests.simulation.objects import copy_of, running

NODE = {"apiVersion": "v1", "kind": "Node", **to_tree(node("a"))}
POD = {"apiVersion": "v1", "kind": "Pod", **to_tree(pod("p"))}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}


def names(copy: ClusterSnapshot) -> dict[str, list[str]]:
    return {kind: [one.metadata.name for one in found] for kind, found in copy.objects.items()}


def write(path: Path, *objects: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n---\n".join(json.dumps(one) for one in objects))
    return path


def test_a_copy(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(to_bytes(copy_of(node("a"))))
    assert names(read(tmp_path / "c")) == {"Node": ["a"]}


def test_a_list_as_kubectl_get_prints_it(tmp_path: Path) -> None:
    file = write(tmp_path / "all.json", {"apiVersion": "v1", "kind": "List", "items": [NODE, POD, SECRET]})
    assert names(read(file)) == {"Node": ["a"], "Pod": ["p"]}


def test_several_documents_of_yaml(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\n# nothing\n---\n" + json.dumps(POD))
    assert names(read(file)) == {"Namespace": ["x"], "Pod": ["p"]}


def test_what_users_leave_out_is_filled_in(tmp_path: Path) -> None:
    file = write(
        tmp_path / "m.json", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    )
    found = read(file).of("Pod")[0]
    assert (found.metadata.namespace, found.spec.scheduler_name) == ("default", "default-scheduler")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(json.dumps(NODE).encode())

    monkeypatch.setattr("sys.stdin", Input)
    assert names(read("-")) == {"Node": ["a"]}


def test_a_directory_with_directories(tmp_path: Path) -> None:
    write(tmp_path / "a.json", NODE)
    write(tmp_path / "deep" / "er" / "p.yaml", POD)
    assert names(read(tmp_path)) == {"Node": ["a"], "Pod": ["p"]}


def test_a_broken_manifest_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a.json", NODE)
    (tmp_path / "b.yaml").write_text("a: [")
    with pytest.raises(SnapshotError, match=r"b\.yaml: not valid YAML"):
        read(tmp_path)


def test_a_must_gather(tmp_path: Path) -> None:
    root = tmp_path / "must-gather" / "quay-io-image"
    write(root / "cluster-scoped-resources" / "core" / "nodes" / "a.yaml", NODE)
    items = {"apiVersion": "v1", "kind": "PodList", "items": [to_tree(pod("p", namespace="x"))]}
    write(root / "namespaces" / "x" / "core" / "pods.yaml", items)
    write(root / "namespaces" / "x" / "pods" / "p" / "p.yaml", {**POD, "metadata": {"name": "p", "namespace": "x"}})
    (root / "namespaces" / "x" / "core" / "broken.yaml").write_text("kind: Pod\na: [")
    (root / "namespaces" / "x" / "core" / "log.json").write_text("no object at all")
    copy = read(tmp_path / "must-gather")
    assert names(copy) == {"Node": ["a"], "Pod": ["p"]}
    assert [one.what.rpartition("/")[2] for one in copy.left_out] == ["broken.yaml"]


def test_a_cluster_info_dump_in_a_directory(tmp_path: Path) -> None:
    write(tmp_path / "nodes.json", {"kind": "NodeList", "apiVersion": "v1", "items": [to_tree(node("a"))]})
    write(tmp_path / "default" / "pods.json", {"kind": "PodList", "apiVersion": "v1", "items": [to_tree(pod("p"))]})
    (tmp_path / "default" / "p").mkdir()
    (tmp_path / "default" / "p" / "logs.txt").write_text("{")
    assert names(read(tmp_path)) == {"Node": ["a"], "Pod": ["p"]}


def test_a_cluster_info_dump_on_one_stream(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    nodes = json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [to_tree(node("a"))]}, indent=4)
    pods = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [to_tree(running("p", "a"))]}, indent=4)
    logs = '==== START logs for container c of pod default/p ====\n{"no": object\n==== END logs for container c of pod default/p ====\n'
    file.write_text(f"{nodes}\n{pods}\n{logs}")
    assert names(read(file)) == {"Node": ["a"], "Pod": ["p"]}


def test_a_file_that_is_none_of_these(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SnapshotError, match="neither a cluster copy nor YAML or JSON"):
        read(tmp_path / "x")
    with pytest.raises(SnapshotError, match="No such file"):
        read(tmp_path / "y")


def test_an_object_with_a_wrong_field_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "p.json", {**POD, "spec": {"containers": "none"}})
    with pytest.raises(SnapshotError, match=r"Pod p: .*containers"):
        read(file)
