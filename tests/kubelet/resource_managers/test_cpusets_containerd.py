"""Containers of a real containerd run on the CPUs that the kubelet gives them, as the kernel sees it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.cluster.kubelet_node.node import Node
from bayplan.cluster.kubelet_node.options import NodeOptions
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.resource_managers.machine_topology import read_machine_topology
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from bayplan.support.configuration import Duration
from bayplan.support.randomness import SystemRandomness
from tests.apiserver.serving import ADMIN
from tests.cgroups import cgroups_with
from tests.kubelet.runtime.real_containerd import BUSYBOX, needs_containerd, running_containerd

CGROUP = f"bayplan-cpus-test-{os.getpid()}"
pytestmark = [
    needs_containerd,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


def remove_cgroups() -> None:
    """Remove what the kubelet made, the innermost first."""
    for path in reversed(cgroups_with(f"/{CGROUP}(/|$)")):
        path.rmdir()


@contextlib.contextmanager
def cgroups() -> Iterator[None]:
    """The cgroup of the node's pods, which may use all CPUs."""
    try:
        yield
    finally:
        remove_cgroups()


@contextlib.asynccontextmanager
async def running_node(runtime: CriRuntime, root: Path) -> AsyncIterator[tuple[Client, Node]]:
    """A kubelet with the static policy that keeps CPU 0, and an API server for it."""
    clock, randomness = SystemClock(), SystemRandomness()
    settings = ApiServerSettings(service_cluster_ip_range="10.0.0.0/16")
    api = ApiServer(open_store("memory:", clock=clock), clock=clock, randomness=randomness, settings=settings)
    await api.open()
    client = Client(InProcessTransport(InProcessEndpoint(api, ADMIN)))
    await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default")))
    configuration = KubeletConfiguration(
        cpu_manager_policy="static",
        cpu_manager_reconcile_period=Duration(1),
        reserved_system_cpus="0",
        cgroup_root=f"/{CGROUP}",
        fail_cgroup_v1=False,
        fail_swap_on=False,
        enable_server=False,
        healthz_port=0,
        pod_logs_dir=str(root / "logs"),
        eviction_hard={},
        resolv_conf="",
    )
    options = NodeOptions(
        name="n1", hostname="n1", addresses=("127.0.0.1",), root=root / "kubelet", container_log_links=root / "links"
    )
    node = Node(client, runtime, options, configuration, clock=clock, randomness=randomness)
    running = asyncio.create_task(node.run(None))
    try:
        yield client, node
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await api.close()


async def create(client: Client, name: str, cpu: str = "") -> None:
    """A pod that tells again and again on which CPUs it may run."""
    amounts: dict[str, str | int | float] = {"cpu": cpu, "memory": "32Mi"} if cpu else {}
    resources = core_v1.ResourceRequirements(requests=amounts, limits=amounts)
    script = "while true; do cat /proc/self/status; sleep 0.2; done"
    container = core_v1.Container(
        name="main",
        image=BUSYBOX,
        image_pull_policy="IfNotPresent",
        command=("sh", "-c", script),
        resources=resources,
    )
    spec = core_v1.PodSpec(
        containers=(container,),
        node_name="n1",
        host_network=True,
        termination_grace_period_seconds=0,
        automount_service_account_token=False,
        enable_service_links=False,
    )
    await client.create(core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), spec=spec))


def is_known(node: Node) -> bool:
    """Whether the API knows what the node has."""
    shown = node.kubelet.node()
    return shown is not None and "pods" in shown.status.allocatable


def said(root: Path, name: str) -> str:
    """The CPUs that a pod has told last."""
    found: list[str] = []
    for log in sorted((root / "logs").glob(f"default_{name}_*/main/*.log")):
        found += re.findall(r"Cpus_allowed_list:\s+(\S+)", log.read_text())
    return found[-1] if found else ""


async def until(condition: Callable[[], bool], shown: Callable[[], object], seconds: float = 40) -> None:
    """Return when something holds."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, shown()
        await asyncio.sleep(0.1)


def test_a_guaranteed_container_runs_on_its_cpus_and_others_on_the_rest(tmp_path: Path) -> None:
    everything = sorted(read_machine_topology().cpus.all())
    own, rest = "1", [each for each in everything if each != 1]

    def quotas() -> list[str]:
        """The quotas of the Guaranteed pod and its containers."""
        files = [
            each / name for each in cgroups_with(f"/{CGROUP}/kubepods/pod") for name in ("cpu.max", "cpu.cfs_quota_us")
        ]
        return [each.read_text().split()[0] for each in files if each.exists()]

    async def main() -> None:
        async with running_containerd() as (runtime, _), running_node(runtime, tmp_path) as (client, node):
            await until(lambda: is_known(node), node.kubelet.node)
            await create(client, "shared")
            await until(lambda: said(tmp_path, "shared") != "", lambda: "the shared pod does not run")
            before = said(tmp_path, "shared")
            await create(client, "own", "1")
            await until(lambda: said(tmp_path, "own") == own, lambda: said(tmp_path, "own"))
            await until(lambda: said(tmp_path, "shared") not in ("", before), lambda: said(tmp_path, "shared"))
            assert said(tmp_path, "shared") == ",".join(map(str, rest))
            assert set(quotas()) in ({"-1"}, {"max"})
            state = (tmp_path / "kubelet" / "cpu_manager_state").read_text()
            assert '"main":"1"' in state
            for name in ("own", "shared"):
                await client.delete(core_v1.Pod, name, "default", grace_period_seconds=0)
            await until(lambda: not node.kubelet.pods.all(), lambda: node.kubelet.pods.all())
            await asyncio.wait_for(gone(runtime), 30)

    async def gone(runtime: CriRuntime) -> None:
        """Return when the runtime has no container that runs."""
        while await runtime.sandboxes():
            for each in await runtime.sandboxes():
                await runtime.stop_sandbox(each.id)
                await runtime.remove_sandbox(each.id)
            await asyncio.sleep(0.1)

    with cgroups():
        asyncio.run(main())
