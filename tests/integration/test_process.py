"""`bayplan up` as a process: restarts, kills, second instances, wrong surroundings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from kubernetes import client, config, watch

from tests.integration.conftest import BAYPLAN, LiveCluster, start, stop


def refused(*arguments: str) -> str:
    """A start that must fail with exit code 1; returns the message."""
    done = subprocess.run([BAYPLAN, "up", *arguments], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def core(kubeconfig: Path) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


def config_map(name: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"a": "b"})


def test_a_restart_keeps_everything_and_the_kubeconfig_stays_valid(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path), "--port", "0", "--nodes", "2")
    process = start(*arguments)
    try:
        before = core(tmp_path / "kubeconfig").create_namespaced_config_map("default", config_map("kept"))
        token = (tmp_path / "pki" / "admin-token").read_text()
        authority = (tmp_path / "pki" / "ca.crt").read_text()
    finally:
        code, seconds = stop(process)
    assert code == 0
    assert seconds < 2
    process = start(*arguments)
    try:
        after = core(tmp_path / "kubeconfig").read_namespaced_config_map("kept", "default")
        assert after.metadata.uid == before.metadata.uid
        assert after.metadata.resource_version == before.metadata.resource_version
        assert {node.metadata.name for node in core(tmp_path / "kubeconfig").list_node().items} == {"node-1", "node-2"}
    finally:
        stop(process)
    assert (tmp_path / "pki" / "admin-token").read_text() == token
    assert (tmp_path / "pki" / "ca.crt").read_text() == authority


def test_a_cluster_is_ready_when_its_nodes_are(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "700")
    try:
        nodes = core(tmp_path / "kubeconfig").list_node(limit=1000).items
        ready = [
            one for one in nodes for each in one.status.conditions if (each.type, each.status) == ("Ready", "True")
        ]
        assert len(ready) == 700
    finally:
        code, _ = stop(process)
    assert code == 0


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path), "--port", "0", "--nodes", "0")
    process = start(*arguments)
    api = core(tmp_path / "kubeconfig")
    names = [
        api.create_namespaced_config_map("default", config_map(f"c-{number}")).metadata.name for number in range(50)
    ]
    os.kill(process.pid, signal.SIGKILL)
    stop(process)
    process = start(*arguments)
    try:
        found = {one.metadata.name for one in core(tmp_path / "kubeconfig").list_namespaced_config_map("default").items}
        assert found >= set(names)
    finally:
        stop(process)


def test_a_second_instance_on_the_same_data_is_refused(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "0")
    try:
        message = refused("--data-dir", str(tmp_path), "--port", "0")
        assert f"in use by process {process.pid}" in message
    finally:
        stop(process)


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused("--data-dir", str(tmp_path), "--port", str(port))
    assert f"127.0.0.1:{port} is in use" in message
    assert "--port" in message


def test_a_damaged_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    damaged = b"this is no database" * 500
    (tmp_path / "store.db").write_bytes(damaged)
    assert "nothing was changed" in refused("--data-dir", str(tmp_path), "--port", "0")
    assert (tmp_path / "store.db").read_bytes() == damaged


@pytest.mark.parametrize("in_file", [True, False])
def test_forwards_are_named_at_the_start(tmp_path: Path, *, in_file: bool) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    given = ["--forward", "service/a/b=localhost:9443", "--forward", "service/a/c:443=http://localhost:8080"]
    if in_file:
        options = "forward: ['service/a/b=localhost:9443', 'service/a/c:443=http://localhost:8080']\nsimulated-webhooks: fail\n"
        (tmp_path / "up.yaml").write_text(options)
        given = ["--config", str(tmp_path / "up.yaml")]
    process = start("--store", "memory:", "--port", "0", "--nodes", "0", "--kubeconfig", str(kubeconfig), *given)
    try:
        command = [BAYPLAN, "forward", "--kubeconfig", str(kubeconfig)]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    finally:
        stop(process)
    assert shown == "service/a/b -> localhost:9443\nservice/a/c:443 -> http://localhost:8080\n"


def test_a_refused_manifest_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n")
    message = refused("--data-dir", str(tmp_path / "data"), "--port", "0", "--apply", str(manifest))
    assert "pod.yaml: Pod x" in message
    assert "spec.containers: Required value" in message


@pytest.mark.xdist_group("live-cluster")
def test_the_python_client_lists_watches_creates_patches_and_deletes(live_cluster: LiveCluster) -> None:
    loaded = config.new_client_from_config(str(live_cluster.kubeconfig))
    api, apps = client.CoreV1Api(loaded), client.AppsV1Api(loaded)
    labels = {"app": "python-client"}
    container = client.V1Container(name="c", image="nginx")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template)
    deployment = client.V1Deployment(metadata=client.V1ObjectMeta(name="python-client"), spec=spec)
    created = apps.create_namespaced_deployment("default", deployment)
    assert created.spec.strategy.rolling_update.max_surge == "25%"
    running = set()
    stream = watch.Watch()
    for event in stream.stream(
        api.list_namespaced_pod, "default", label_selector="app=python-client", timeout_seconds=20
    ):
        if event["object"].status.phase == "Running":
            running.add(event["object"].metadata.name)
        if len(running) == 2:
            stream.stop()
    assert len(running) == 2
    apps.patch_namespaced_deployment("python-client", "default", {"spec": {"replicas": 1}})
    assert apps.read_namespaced_deployment_scale("python-client", "default").spec.replicas == 1
    apps.delete_namespaced_deployment("python-client", "default")
    with pytest.raises(client.ApiException, match="404"):
        apps.read_namespaced_deployment("python-client", "default")
    assert client.VersionApi(loaded).get_code().minor == "36"
