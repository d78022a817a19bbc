"""Real nodes on this machine: they come, their pods reach each other, what dies comes back, and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bayplan.api.types import core_v1, storage_v1
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes import node as node_module
from bayplan.cluster.real_nodes import service as service_module
from bayplan.cluster.real_nodes.cni_results import RESULTS
from bayplan.cluster.real_nodes.containerd import import_image
from bayplan.cluster.real_nodes.kubelet_files import ApiAccess
from bayplan.cluster.real_nodes.leftovers import recorded_processes
from bayplan.cluster.real_nodes.node import RealNode
from bayplan.cluster.real_nodes.processes import processes_with
from bayplan.cluster.real_nodes.service import RealNodes
from bayplan.cluster.real_nodes.settings import ADD_ONS, HOST, RealNodeSettings
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.cgroups.hierarchies import Hierarchies
from bayplan.kubelet.cgroups.mounts import find_mounts
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.types import ContainerConfig, SandboxConfig
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.network.cni_configuration import FILE as CNI_FILE
from bayplan.support.clock import SystemClock
from bayplan.support.system.process_ids import process_id
from tests.cgroups import cgroups_with
from tests.cluster.real_nodes.directories import short
from tests.kubelet.runtime.real_containerd import BUSYBOX, busybox_image, needs_containerd
from tests.kubelet.waiting import eventually

pytestmark = [
    needs_containerd,
    pytest.mark.skipif(shutil.which("nsenter") is None, reason="needs util-linux"),
    pytest.mark.xdist_group("real nodes"),
]
KUBELET = (sys.executable, str(Path(__file__).with_name("fake_kubelet.py")))


def settings_for(directory: Path, count: int, mode: str = "namespace", data_plane: str = "routed") -> RealNodeSettings:
    """Settings of a test: nothing gets out of the machine."""
    return RealNodeSettings(
        count,
        directory / "nodes",
        mode,
        outbound=False,
        data_plane=data_plane,
        runtime_directory=short(directory),
        kubelet=KUBELET,
    )


def traces(settings: RealNodeSettings) -> list[str]:
    """What there is of real nodes on the machine, besides their directory."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/self/mountinfo").read_text()
    found = [line for line in links.splitlines() if f"bp-{settings.id}" in line]
    found += [line for line in mounts.splitlines() if str(settings.directory) in line or str(settings.state) in line]
    found += [str(path) for path in Path("/run/netns").glob(f"bayplan-{settings.id}*")]
    found += [str(path) for path in cgroups_with(f"/bayplan-{settings.id}$")]
    found += [str(each) for each in processes_with(("containerd",), str(settings.directory.parent))]
    found += [str(path) for path in (settings.state,) if path.exists()]
    found += [str(path) for path in RESULTS.glob("*") if f'"{settings.state}/' in path.read_text()]
    return found


@contextlib.asynccontextmanager
async def running(settings: RealNodeSettings) -> AsyncIterator[tuple[Cluster, RealNodes]]:
    """A cluster without simulated nodes, and real ones."""
    clock = SystemClock()
    nodes = RealNodes(settings, clock)
    await nodes.prepare()
    cluster = Cluster(
        ClusterSettings(nodes=SimulatorSettings(nodes=0), further_addresses=nodes.addresses, run_scheduler=False)
    )
    try:
        await cluster.start()
        await nodes.start(access(cluster, nodes), cluster.client())
        yield cluster, nodes
    finally:
        await nodes.stop()
        await cluster.stop()


def access(cluster: Cluster, nodes: RealNodes) -> ApiAccess:
    """How the nodes reach the cluster."""
    host = nodes.addresses[0] if nodes.addresses else "127.0.0.1"
    return ApiAccess(f"https://{host}:{cluster.port}", cluster.credentials.authority.certificate, cluster.sign_client)


async def run_pod(node: RealNode, *command: str) -> tuple[str, str]:
    """(address, container id) of a pod with one container, made as a kubelet does it."""
    await import_image(node.containerd, busybox_image())

    async def has_image() -> bool:
        return await node.runtime.image_status(BUSYBOX) is not None

    async def has_network() -> bool:
        condition = (await node.runtime.status()).condition("NetworkReady")
        return condition is not None and condition.status

    await eventually(has_image, "busybox")
    await eventually(has_network, "a network", 20)
    logs = str(node.place.directory / "logs" / "pods")
    config = SandboxConfig("pod", "default", "uid", 0, "pod", logs, cgroup_parent=f"{node.place.cgroup}/poduid")
    sandbox = await node.runtime.run_sandbox(config)
    container = ContainerConfig("main", 0, BUSYBOX, BUSYBOX, command, log_path="main.log")
    container_id = await node.runtime.create_container(sandbox, container, config)
    await node.runtime.start_container(container_id)
    return (await node.runtime.sandbox_status(sandbox)).ips[0], container_id


@pytest.mark.parametrize("data_plane", ["routed", "overlay"])
def test_pods_of_two_nodes_reach_each_other_and_the_machine(tmp_path: Path, data_plane: str) -> None:
    settings = settings_for(tmp_path, 2, data_plane=data_plane)

    async def steps() -> None:
        async with running(settings) as (cluster, nodes):
            client = cluster.client()

            async def registered() -> bool:
                found = (await client.list(core_v1.Node)).items
                return len(found) == 2 and all(node.spec.pod_cidr for node in found)

            await eventually(registered, "two nodes with networks for their pods", 20)
            shown = {
                node.metadata.name: node.status.addresses[0].address for node in (await client.list(core_v1.Node)).items
            }
            assert shown == {place.name: place.addresses[0] for place in settings.nodes()}
            first, second = nodes.nodes
            address, _ = await run_pod(
                first, "/bin/busybox", "nc", "-ll", "-p", "8080", "-e", "/bin/busybox", "echo", "hello"
            )
            other, client_id = await run_pod(second, "sleep", "1000")
            assert address.rpartition(".")[0] != other.rpartition(".")[0]

            async def says_hello() -> bool:
                said = await second.runtime.exec_sync(client_id, ["/bin/busybox", "nc", address, "8080"], 10)
                return said.stdout == b"hello\n"

            await eventually(says_hello, "an answer of the other pod")
            reader, writer = await asyncio.open_connection(address, 8080)
            assert await reader.read(100) == b"hello\n"
            writer.close()
            said = await second.runtime.exec_sync(
                client_id, ["/bin/sh", "-c", f"echo | /bin/busybox nc {settings.gateways[0]} {cluster.port}"], 10
            )
            assert said.exit_code == 0
            assert Hierarchies(find_mounts()).exists(f"{settings.cgroup}/real-1/poduid")

    asyncio.run(steps())
    assert traces(settings) == []
    asyncio.run(again(settings))
    assert traces(settings) == []


async def again(settings: RealNodeSettings) -> None:
    """The same nodes start a second time, with the images that they have."""
    async with running(settings) as (_, nodes):
        assert await nodes.nodes[0].runtime.image_status(BUSYBOX) is not None
        assert await nodes.nodes[0].runtime.sandboxes() == []


def test_containerd_and_kubelet_are_started_again(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, 1)

    async def steps() -> None:
        async with running(settings) as (cluster, nodes):
            (node,) = nodes.nodes

            async def registered() -> bool:
                found = (await cluster.client().list(core_v1.Node)).items
                return bool(found and found[0].spec.pod_cidr)

            await eventually(registered, "a node", 20)
            _, container_id = await run_pod(node, "sleep", "1000")
            before = {each.pid for each in recorded_processes(settings)}
            assert len(before) == 7
            for process in before:
                os.kill(process, signal.SIGKILL)

            async def replaced() -> bool:
                now = {each.pid for each in recorded_processes(settings)}
                return len(now) == 7 and not now & before and await answers(node)

            await eventually(replaced, "new processes", 20)
            result = await node.runtime.exec_sync(container_id, ["echo", "still here"], 10)
            assert result.stdout == b"still here\n"

    asyncio.run(steps())
    assert traces(settings) == []


async def answers(node: RealNode) -> bool:
    """Whether containerd answers."""
    try:
        await node.runtime.version()
    except RuntimeRequestError:
        return False
    return True


def killed_run(directory: Path) -> RealNodeSettings:
    """Settings of a cluster with two nodes and a pod whose process was killed: all that it made is left."""
    script = directory / "run.py"
    script.write_text(
        "import asyncio, pathlib, sys\n"
        "from tests.cluster.real_nodes.test_real_nodes import run_pod, running, settings_for\n"
        "async def main():\n"
        "    async with running(settings_for(pathlib.Path(sys.argv[1]), 2)) as (_, nodes):\n"
        "        await run_pod(nodes.nodes[1], 'sleep', '1000')\n"
        "        print('up', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, str(script), str(directory)],
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    settings = settings_for(directory, 2)
    assert len(recorded_processes(settings)) == 13
    assert traces(settings)
    return settings


def test_what_a_killed_run_has_left_goes(tmp_path: Path) -> None:
    settings = killed_run(tmp_path)
    left = recorded_processes(settings)

    async def fewer() -> None:
        async with running(settings_for(tmp_path, 1)):
            assert [each for each in left if process_id(each.pid) == each] == []

    asyncio.run(fewer())
    assert traces(settings) == []


def test_what_a_killed_run_has_left_goes_when_another_cluster_starts(tmp_path: Path) -> None:
    killed = killed_run(tmp_path)
    other = dataclasses.replace(killed, count=1, directory=tmp_path.with_name("others"))

    async def steps() -> None:
        async with running(other):
            assert traces(killed) == []
            assert (killed.directory / "real-2" / "containerd").is_dir()

    asyncio.run(steps())
    assert traces(other) == []


def test_one_node_may_have_the_machines_network(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, 1, HOST)

    async def steps() -> None:
        async with running(settings) as (cluster, nodes):

            async def registered() -> bool:
                found = (await cluster.client().list(core_v1.Node)).items
                return bool(found and found[0].spec.pod_cidr)

            await eventually(registered, "a node", 20)
            condition = (await nodes.nodes[0].runtime.status()).condition("RuntimeReady")
            assert condition is not None
            assert condition.status

    asyncio.run(steps())
    assert traces(settings) == []


def test_what_the_cluster_brings_itself_is_left_out(tmp_path: Path) -> None:
    settings = dataclasses.replace(settings_for(tmp_path, 1), without=frozenset(ADD_ONS))

    async def steps() -> None:
        place = settings.nodes()[0]
        place.cni_config.mkdir(parents=True)
        (place.cni_config / CNI_FILE).write_text("{}")
        async with running(settings) as (cluster, nodes):
            client = cluster.client()

            async def told() -> bool:
                found = (await client.list(core_v1.Node)).items
                return bool(found and found[0].spec.pod_cidr)

            await eventually(told, "a node", 20)
            assert list(nodes.failures()) == ["kubelet-real-1"]
            assert not list(place.cni_config.iterdir()), "of an earlier run with a network of Bayplan's"
            assert not (await client.list(storage_v1.StorageClass)).items
            assert [one.metadata.name for one in (await client.list(core_v1.Service)).items] == ["kubernetes"]
            node = (await client.list(core_v1.Node)).items[0]
            assert [name for name in node.metadata.annotations if name.startswith("bayplan.dev/")] == []

    asyncio.run(steps())
    assert traces(settings) == []
    with pytest.raises(ValueError, match="ingress: not one of network, proxy, dns, storage"):
        dataclasses.replace(settings, without=frozenset(("dns", "ingress")))


def test_second_cluster_of_the_same_directory_is_refused(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, 1)

    async def steps() -> None:
        first = RealNodes(settings, SystemClock())
        await first.prepare()
        try:
            with pytest.raises(RealNodeError, match="real nodes cannot be kept there"):
                await RealNodes(settings, SystemClock()).prepare()
            assert traces(settings)
        finally:
            await first.stop()

    asyncio.run(steps())
    assert traces(settings) == []


def test_a_cluster_whose_network_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for(tmp_path, 1)

    async def overlaps(_: RealNodeSettings) -> None:
        assert traces(settings)
        raise RealNodeError("the network of pods overlaps with another one")

    monkeypatch.setattr(service_module, "make_bridge", overlaps)
    for _ in range(2):
        with pytest.raises(RealNodeError, match="overlaps"):
            asyncio.run(RealNodes(settings, SystemClock()).prepare())
        assert traces(settings) == []


def test_node_whose_containerd_hangs_is_removed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for(tmp_path, 1)
    monkeypatch.setattr(node_module, "_PODS_SECONDS", 0.5)
    monkeypatch.setattr(node_module, "_STOP_SECONDS", 0.5)

    async def steps() -> None:
        async with running(settings) as (cluster, nodes):
            (node,) = nodes.nodes

            async def registered() -> bool:
                found = (await cluster.client().list(core_v1.Node)).items
                return bool(found and found[0].spec.pod_cidr)

            await eventually(registered, "a node", 20)
            await run_pod(node, "sleep", "1000")
            (frozen,) = processes_with(("containerd",), str(node.containerd.config_file))
            os.kill(frozen.pid, signal.SIGSTOP)

    asyncio.run(steps())
    assert traces(settings) == []
