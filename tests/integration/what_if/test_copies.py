"""From a live cluster to a file and back to a live cluster, by the command line and kubectl's own eyes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from kubernetes import client, config

from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import node, pod
from tests.integration.conftest import BAYPLAN, start, stop
from tests.simulation.objects import copy_of, running


def core(kubeconfig: Path) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


def uids(api: client.CoreV1Api) -> dict[str, str]:
    return {one.metadata.name: one.metadata.uid for one in api.list_namespaced_pod("shop").items}


def test_a_copy_is_started_copied_again_and_asked_about(tmp_path: Path) -> None:
    first, second, kubeconfig = tmp_path / "first", tmp_path / "second", tmp_path / "kubeconfig"
    there = [running(f"p{number}", "a", namespace="shop", cpu="1") for number in range(2)]
    first.write_bytes(to_bytes(copy_of(node("a"), node("b"), *there, pod("new", namespace="shop", cpu="3"))))
    process = start("--from", str(first), "--port", "0", "--kubeconfig", str(kubeconfig))
    try:
        api = core(kubeconfig)
        found = uids(api)
        assert {name: found[name] for name in ("p0", "p1")} == {"p0": "uid-p0", "p1": "uid-p1"}
        assert {one.metadata.name for one in api.list_node().items} == {"a", "b"}
        arguments = ("snapshot", "--kubeconfig", str(kubeconfig), "-o", str(second), "--format", "json")
        done = subprocess.run([BAYPLAN, *arguments], capture_output=True, text=True, timeout=30, check=True)
        assert json.loads(done.stdout)["counts"]["Pod"] == 3
        asked = ("explain", "shop/p0", "--fix", "--kubeconfig", str(kubeconfig), "-o", "json")
        done = subprocess.run([BAYPLAN, *asked], capture_output=True, text=True, timeout=30, check=True)
        assert json.loads(done.stdout)["placedOn"] in ("a", "b")
    finally:
        stop(process)
    answer = subprocess.run(
        [BAYPLAN, "capacity", "--cluster", str(second), "--like", "shop/p0", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert json.loads(answer.stdout)["fits"] <= 6


def test_a_copy_with_a_data_directory_is_there_again_after_a_restart(tmp_path: Path) -> None:
    file, data = tmp_path / "copy", tmp_path / "data"
    file.write_bytes(to_bytes(copy_of(node("a"), running("p", "a", namespace="shop"))))
    arguments = ("--from", str(file), "--port", "0", "--data-dir", str(data))
    process = start(*arguments)
    try:
        core(data / "kubeconfig").create_namespaced_pod("shop", _another())
    finally:
        stop(process)
    process = start(*arguments)
    try:
        assert set(uids(core(data / "kubeconfig"))) == {"p", "another"}
    finally:
        stop(process)


def _another() -> client.V1Pod:
    containers = [client.V1Container(name="c", image="x")]
    return client.V1Pod(metadata=client.V1ObjectMeta(name="another"), spec=client.V1PodSpec(containers=containers))


def test_a_copy_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [BAYPLAN, "up", "--from", str(tmp_path / "none"), "--port", "0", "--kubeconfig", str(tmp_path / "k")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, "none: No such file" in done.stderr) == (2, True)
