"""`bayplan up --real-nodes`: containers that run, on nodes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from bayplan.cluster.real_nodes.settings import NodePlace, RealNodeSettings
from bayplan.csi_local.settings import DRIVER_NAME
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.test_real_nodes import traces
from tests.csi_local.machine import loops, needs_images
from tests.integration.conftest import BAYPLAN, start, stop
from tests.kubelet.runtime.real_containerd import BUSYBOX, needs_containerd

pytestmark = [needs_containerd, pytest.mark.xdist_group("real nodes")]


NAME = "web.default.svc.cluster.local"


def eventually(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """What a condition gives once it is true."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.2)


def pod(name: str, node: str, *command: str) -> client.V1Pod:
    """A pod with one container on a node."""
    container = client.V1Container(name="main", image=BUSYBOX, command=list(command))
    spec = client.V1PodSpec(
        containers=[container], node_name=node, restart_policy="Never", termination_grace_period_seconds=1
    )
    return client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=spec)


def are_ready(core: client.CoreV1Api) -> bool:
    """Whether both nodes are."""
    nodes = core.list_node().items
    states = [each.status for node in nodes for each in node.status.conditions or () if each.type == "Ready"]
    return states == ["True", "True"]


def bandwidths(place: NodePlace) -> list[int]:
    """Bytes a second to which packets of a node's pods are held, in ascending order."""
    command = ["ip", "netns", "exec", place.namespace, "tc", "-json", "qdisc", "show"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return sorted(each["options"]["rate"] for each in found if each["kind"] == "tbf")


def test_pods_run_on_nodes_of_this_machine(tmp_path: Path) -> None:
    settings = RealNodeSettings(2, tmp_path / "data" / "real-nodes")
    arguments = ("--data-dir", str(tmp_path / "data"), "--port", "0", "--real-nodes", "2", "--no-real-node-outbound")
    process = start(*arguments)
    try:
        core = client.CoreV1Api(config.new_client_from_config(str(tmp_path / "data" / "kubeconfig")))
        eventually(lambda: are_ready(core))
        for place in settings.nodes():
            give_image(place)
        eventually(lambda: core.list_namespaced_service_account("default").items)
        health = {one.metadata.name: one.conditions[0].status for one in core.list_component_status().items}
        assert {
            "dns",
            *(
                f"{part}-{name}"
                for part in ("kubelet", "network", "proxy", "csi-local", "csi-controller")
                for name in ("real-1", "real-2")
            ),
        } <= (health.keys())
        assert set(health.values()) == {"True"}
        annotations = core.read_node("real-2").metadata.annotations
        assert (annotations["bayplan.dev/network"], annotations["bayplan.dev/dns"]) == ("routed", "10.96.0.10")
        core.create_namespaced_pod("default", pod("one", "real-1", "sh", "-c", "echo from one; exit 3"))
        slow = pod("two", "real-2", "sh", "-c", "echo from two; exec sleep 1000")
        slow.metadata.annotations = {"kubernetes.io/ingress-bandwidth": "1M", "kubernetes.io/egress-bandwidth": "2M"}
        core.create_namespaced_pod("default", slow)
        ended = eventually(lambda: phase(core, "one", "Failed"))
        assert ended.status.container_statuses[0].state.terminated.exit_code == 3
        running = eventually(lambda: phase(core, "two", "Running"))
        assert running.status.host_ip == settings.nodes()[1].addresses[0]
        assert bandwidths(settings.nodes()[1]) == [125_000, 250_000]
        assert core.read_namespaced_pod_log("one", "default") == "from one\n"
        assert core.read_namespaced_pod_log("two", "default") == "from two\n"
        core.delete_namespaced_pod("two", "default")
        eventually(
            lambda: not [each for each in core.list_namespaced_pod("default").items if each.metadata.name == "two"]
        )
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(settings) == []


def test_services_and_names_lead_to_pods_as_far_as_policies_allow(tmp_path: Path) -> None:
    settings = RealNodeSettings(2, tmp_path / "data" / "real-nodes")
    arguments = ("--data-dir", str(tmp_path / "data"), "--port", "0", "--real-nodes", "2", "--no-real-node-outbound")
    process = start(*arguments, "--real-node-network", "overlay")
    try:
        core = client.CoreV1Api(config.new_client_from_config(str(tmp_path / "data" / "kubeconfig")))
        eventually(lambda: are_ready(core))
        eventually(lambda: core.list_namespaced_service_account("default").items)
        ports = [client.V1ServicePort(port=80, target_port=8080)]
        spec = client.V1ServiceSpec(selector={"app": "web"}, ports=ports)
        service = client.V1Service(metadata=client.V1ObjectMeta(name="web"), spec=spec)
        address = core.create_namespaced_service("default", service).spec.cluster_ip
        for place in settings.nodes():
            give_image(place)
        server = pod(
            "server", "real-1", "/bin/busybox", "nc", "-ll", "-p", "8080", "-e", "/bin/busybox", "echo", "hello"
        )
        server.metadata.labels = {"app": "web"}
        core.create_namespaced_pod("default", server)
        # Not wget: a static busybox looks for shared libraries there.
        asks = f"B=/bin/busybox; until echo | $B nc -w 2 {address} 80 | $B grep hello && $B nslookup -type=a {NAME}; do sleep 0.2; done"
        for node in ("real-1", "real-2"):
            core.create_namespaced_pod("default", pod(f"on-{node}", node, "sh", "-c", asks))
        for node in ("real-1", "real-2"):
            eventually(lambda name=f"on-{node}": phase(core, name, "Succeeded"))  # type: ignore[misc]
            said = core.read_namespaced_pod_log(f"on-{node}", "default")
            assert "hello" in said.splitlines()
            assert f"Address: {address}" in said, "the name has the address of the service"
            assert settings.cluster_dns[0] in said
        networking = client.NetworkingV1Api(core.api_client)
        chosen = client.V1LabelSelector(match_labels={"app": "web"})
        nobody = client.V1NetworkPolicySpec(pod_selector=chosen, policy_types=["Ingress"])
        policy = client.V1NetworkPolicy(metadata=client.V1ObjectMeta(name="nobody"), spec=nobody)
        networking.create_namespaced_network_policy("default", policy)
        for node in ("real-1", "real-2"):
            refused = (
                f"while echo | /bin/busybox nc -w 2 {address} 80 | /bin/busybox grep hello; do sleep 0.2; done; exit 0"
            )
            core.create_namespaced_pod("default", pod(f"refused-{node}", node, "sh", "-c", refused))
        for node in ("real-1", "real-2"):
            eventually(lambda name=f"refused-{node}": phase(core, name, "Succeeded"))  # type: ignore[misc]
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(settings) == []


def phase(core: client.CoreV1Api, name: str, wanted: str) -> Any:
    """The pod if it is in a phase."""
    found = core.read_namespaced_pod(name, "default")
    return found if found.status.phase == wanted else None


@pytest.mark.skipif(os.geteuid() != 0, reason="the message for others is another one")
def test_machine_without_containerd_is_told_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [BAYPLAN, "up", "--data-dir", str(tmp_path), "--real-nodes", "1"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "apt-get install containerd" in done.stderr


def test_modes_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [BAYPLAN, "up", "--data-dir", str(tmp_path), "--real-nodes", "2", "--real-node-mode", "host"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "only one can have the machine's" in done.stderr


def claim(name: str, **spec: Any) -> client.V1PersistentVolumeClaim:
    """A claim of 16 MiB."""
    resources = client.V1VolumeResourceRequirements(requests={"storage": "16Mi"})
    wanted = client.V1PersistentVolumeClaimSpec(access_modes=["ReadWriteOnce"], resources=resources, **spec)
    return client.V1PersistentVolumeClaim(metadata=client.V1ObjectMeta(name=name), spec=wanted)


def pod_with_volumes(name: str, command: str) -> client.V1Pod:
    """A pod that has a directory, an image and an inline volume at /files, /disk and /own."""
    found = pod(name, "", "sh", "-c", command)
    found.spec.node_name = None
    found.spec.containers[0].volume_mounts = [
        client.V1VolumeMount(name=each, mount_path=f"/{each}") for each in ("files", "disk", "own")
    ]
    found.spec.volumes = [
        *(
            client.V1Volume(
                name=each, persistent_volume_claim=client.V1PersistentVolumeClaimVolumeSource(claim_name=each)
            )
            for each in ("files", "disk")
        ),
        client.V1Volume(
            name="own", csi=client.V1CSIVolumeSource(driver=DRIVER_NAME, volume_attributes={"type": "directory"})
        ),
    ]
    return found


@needs_images
def test_data_of_volumes_outlive_pods_kubelets_and_the_cluster(tmp_path: Path) -> None:
    settings = RealNodeSettings(1, tmp_path / "data" / "real-nodes")
    arguments = ("--data-dir", str(tmp_path / "data"), "--port", "0", "--real-nodes", "1", "--no-real-node-outbound")
    (place,) = settings.nodes()

    def run(name: str, command: str, core: client.CoreV1Api) -> str:
        give_image(place)
        core.create_namespaced_pod("default", pod_with_volumes(name, command))
        eventually(lambda: phase(core, name, "Running"))
        said = eventually(lambda: core.read_namespaced_pod_log(name, "default"))
        os.kill(int((place.state / "kubelet.pid").read_text().split()[0]), signal.SIGKILL)
        os.kill(int((place.state / "csi-local.pid").read_text().split()[0]), signal.SIGKILL)
        core.delete_namespaced_pod(name, "default")
        eventually(lambda: not core.list_namespaced_pod("default").items)
        kubelet = place.directory / "kubelet"
        assert [each for each in (kubelet / "pods").rglob("*") if each.name == "vol_data.json"] == []
        assert list((kubelet / "plugins" / "kubernetes.io" / "csi").rglob("vol_data.json")) == []
        return str(said)

    for command, expected in (
        ("echo kept > /files/f; echo kept > /disk/f; echo own > /own/f; cat /own/f; exec sleep 1000", "own\n"),
        ("cat /files/f /disk/f; ls /own; exec sleep 1000", "kept\nkept\n"),
    ):
        process = start(*arguments)
        try:
            core = client.CoreV1Api(config.new_client_from_config(str(tmp_path / "data" / "kubeconfig")))
            eventually(lambda: core.list_namespaced_service_account("default").items)  # noqa: B023
            if expected == "own\n":
                core.create_namespaced_persistent_volume_claim("default", claim("files"))
                disk = claim("disk", storage_class_name="local-image")
                core.create_namespaced_persistent_volume_claim("default", disk)
            eventually(lambda: place.state.joinpath("containerd.sock").exists())
            assert run("p", command, core) == expected
        finally:
            code, _ = stop(process)
        assert code == 0
        assert traces(settings) == []
        # Without its mounts, the kernel tells the end of an image's path only.
        eventually(lambda: not [each for each in loops(Path("/")) if "/csi-local/volumes/" in each], 10)
