"""Manifests: how they are read, what is remembered of them, and what a second apply changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import apps_v1, core_v1
from bayplan.cluster.manifests.apply import LAST_APPLIED, ManifestError, apply_manifests, last_applied, read_manifests
from bayplan.cluster.manifests.apply_patch import merge_apply_patch, strategic_apply_patch
from bayplan.testing.cluster import LiveCluster, running_cluster

DEPLOYMENT, POD, SERVICE = "io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.Service"


def write(directory: Path, text: str, name: str = "m.yaml") -> Path:
    file = directory / name
    file.write_text(text)
    return file


def config_map(name: str, **data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class TestReading:
    def test_documents_lists_and_directories_are_taken_apart(self, tmp_path: Path) -> None:
        items = json.dumps([config_map("b"), {"apiVersion": "v1", "kind": "List", "items": [config_map("c")]}])
        write(
            tmp_path,
            f"{json.dumps(config_map('a'))}\n---\n---\n{{apiVersion: v1, kind: List, items: {items}}}\n",
            "1.yaml",
        )
        write(tmp_path, json.dumps(config_map("d")), "2.json")
        write(tmp_path, "not: read", "notes.txt")
        assert [obj["metadata"]["name"] for _, obj in read_manifests([tmp_path])] == ["a", "b", "c", "d"]

    def test_dates_stay_text_and_keys_become_text(self, tmp_path: Path) -> None:
        file = write(
            tmp_path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {2: x, true: y, day: 2026-01-02}\n"
        )
        ((_, found),) = read_manifests([file])
        assert found["data"] == {"2": "x", "true": "y", "day": "2026-01-02"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: [", "not valid YAML"),
            ("- a", "document 1: expected an object"),
            ("apiVersion: v1", "document 1: kind is missing"),
            ("kind: Pod", "document 1: apiVersion is missing"),
            (
                "{apiVersion: v1, kind: Pod}\n---\n{apiVersion: v1, kind: List, items: [{kind: Pod}]}",
                r"document 2: items\[0\]: apiVersion",
            ),
            ("{apiVersion: v1, kind: Pod, metadata: x}", "Pod: metadata has to be an object"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(ManifestError, match=message) as refused:
            read_manifests([write(tmp_path, text)])
        assert "m.yaml" in str(refused.value)

    def test_a_directory_without_manifests_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ManifestError, match=r"no \.yaml"):
            read_manifests([tmp_path])


def test_the_annotation_is_what_kubectl_writes() -> None:
    obj = config_map("a", k="<x> & ü")
    obj["metadata"]["annotations"] = {LAST_APPLIED: "old", "note": "n"}
    assert last_applied(obj) == (
        '{"apiVersion":"v1","data":{"k":"\\u003cx\\u003e \\u0026 ü"},"kind":"ConfigMap","metadata":{"annotations":{"note":"n"},"name":"a"}}\n'
    )
    assert '"metadata":{"annotations":{},"name":"b"}' in last_applied(config_map("b"))


class TestPatch:
    def test_members_that_were_applied_before_and_are_no_longer_go(self) -> None:
        before, now = {"data": {"a": "1", "b": "2"}, "immutable": True}, {"data": {"a": "3"}}
        expected = {"data": {"a": "3", "b": None}, "immutable": None}
        assert strategic_apply_patch(before, now, "io.k8s.api.core.v1.ConfigMap") == expected
        assert merge_apply_patch(before, now) == expected

    def test_items_are_merged_by_key_and_removed_by_key(self) -> None:
        before = {"spec": {"containers": [{"name": "a", "image": "1", "tty": True}, {"name": "b"}]}}
        now = {"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "2"}]}}
        assert strategic_apply_patch(before, now, POD)["spec"] == {
            "containers": [{"name": "c"}, {"name": "a", "image": "2", "tty": None}, {"$patch": "delete", "name": "b"}],
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        }

    def test_plain_lists_that_are_merged_lose_what_was_applied_before(self) -> None:
        before, now = {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b"]}}
        assert strategic_apply_patch(before, now, POD)["metadata"] == {
            "finalizers": ["b"],
            "$setElementOrder/finalizers": ["b"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
        }

    def test_other_lists_are_taken_whole(self) -> None:
        before, now = {"spec": {"externalIPs": ["a"]}}, {"spec": {"externalIPs": ["b"]}}
        assert strategic_apply_patch(before, now, SERVICE) == now

    def test_unions_keep_only_what_is_named(self) -> None:
        now = {"spec": {"strategy": {"type": "Recreate"}}}
        assert strategic_apply_patch({}, now, DEPLOYMENT)["spec"]["strategy"] == {
            "type": "Recreate",
            "$retainKeys": ["type"],
        }

    def test_kinds_without_schema_take_lists_whole(self) -> None:
        assert merge_apply_patch({"a": [1], "b": {"c": 1}}, {"a": [2], "b": {}}) == {"a": [2], "b": {"c": None}}


WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {team: shop, tier: front}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "app:1", env: [{name: A, value: "1"}, {name: B, value: "2"}]}
      - {name: side, image: "side:1"}
"""


def test_a_second_apply_removes_what_it_no_longer_names_and_keeps_what_others_wrote(tmp_path: Path) -> None:
    async def scenario(cluster: LiveCluster) -> None:
        assert await apply_manifests(cluster.client, read_manifests([write(tmp_path, WEB)])) == 1
        theirs = {"spec": {"replicas": 3}, "metadata": {"labels": {"theirs": "yes"}}}
        await cluster.client.patch(apps_v1.Deployment, "web", "default", theirs)
        text = WEB.replace("team: shop, ", "").replace('{name: A, value: "1"}, ', "")
        text = text.replace('      - {name: side, image: "side:1"}\n', "") + "  strategy: {type: Recreate}\n"
        await apply_manifests(cluster.client, read_manifests([write(tmp_path, text)]))
        found = await cluster.client.get(apps_v1.Deployment, "web", "default")
        assert found.metadata.labels == {"tier": "front", "theirs": "yes"}
        assert found.spec.replicas == 3
        (container,) = found.spec.template.spec.containers
        assert [(one.name, one.value) for one in container.env] == [("B", "2")]
        assert (found.spec.strategy.type, found.spec.strategy.rolling_update) == ("Recreate", None)
        before = found.metadata.generation
        await apply_manifests(cluster.client, read_manifests([write(tmp_path, text)]))
        assert (await cluster.client.get(apps_v1.Deployment, "web", "default")).metadata.generation == before
        assert json.loads(found.metadata.annotations[LAST_APPLIED])["metadata"] == {
            "annotations": {},
            "labels": {"tier": "front"},
            "name": "web",
            "namespace": "default",
        }

    async def run() -> None:
        async with running_cluster(nodes=0) as cluster:
            await scenario(cluster)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {}}", "Pod x: .*spec.containers: Required value"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, dta: {}}", 'ConfigMap x: .*unknown field "dta"'),
        (
            "{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}",
            "Thing x: this server has no Thing in example.com/v1",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: nowhere}}",
            'ConfigMap x: .*"nowhere" not found',
        ),
    ],
)
def test_what_the_server_refuses_is_named_with_file_and_object(tmp_path: Path, text: str, message: str) -> None:
    async def run() -> None:
        async with running_cluster(nodes=0) as cluster:
            with pytest.raises(ManifestError, match=f"m.yaml: {message}"):
                await apply_manifests(cluster.client, read_manifests([write(tmp_path, text)]))

    asyncio.run(run())


def test_objects_that_others_need_come_first_and_what_is_there_already_is_taken_over(tmp_path: Path) -> None:
    text = """
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {serviceAccountName: mine, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: mine, namespace: shop}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop, labels: {a: b}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {generateName: made-, namespace: shop}}
"""

    async def run() -> None:
        async with running_cluster(nodes=1) as cluster:
            assert await apply_manifests(cluster.client, read_manifests([write(tmp_path, text)])) == 5
            account = await cluster.client.get(core_v1.ServiceAccount, "default", "shop")
            assert account.metadata.labels == {"a": "b"}
            names = {one.metadata.name for one in (await cluster.client.list(core_v1.ConfigMap, "shop")).items}
            assert any(name.startswith("made-") for name in names)

    asyncio.run(run())
