"""A kubelet over a simulated runtime, in virtual time: its node, an API server in this process, and what tests ask of both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bayplan.api.declared_features import DECLARED
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.informers import InformerFactory
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.core.containers.allocation import ContainerAllocation
from bayplan.kubelet.core.containers.config import ContainerParts, SandboxParts, container_config, sandbox_config
from bayplan.kubelet.core.containers.resources import LimitSettings, container_resources
from bayplan.kubelet.core.containers.security import sandbox_security
from bayplan.kubelet.core.resources import CgroupResources, pod_cgroup_resources
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.kubelet import Kubelet, NodeParts
from bayplan.kubelet.pods.node_pods import Admit
from bayplan.kubelet.pods.pod_builder import ContainerAllocations
from bayplan.kubelet.pods.pod_runtime import ContainerRequest, StartError
from bayplan.kubelet.pods.pod_syncer import VolumeLimitError, VolumeNotReadyError
from bayplan.kubelet.resource_managers.container_manager import ContainerManager
from bayplan.kubelet.resource_managers.errors import AllocationError
from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    ContainerSecurity,
    ContainerStatus,
    DnsConfig,
    SandboxConfig,
)
from bayplan.store.url import open_store
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from tests.apiserver.serving import ADMIN

START = 1_767_323_045.0
NODE = "n1"
ENDS = Behaviour(run_seconds=5)
FAILS = Behaviour(run_seconds=1, exit_code=3)
LIMITS = LimitSettings(memory_capacity=8 << 30)


class PlainBuilder:
    """Tells the runtime what follows from the pod alone. `failures`: containers that cannot be prepared, by name."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self._runtime = runtime
        self.failures: dict[str, StartError] = {}
        self.allocations: ContainerAllocations | None = None
        self.logs = "/logs"
        """Where the logs of pods are."""

    async def sandbox(self, pod: core_v1.Pod, attempt: int) -> SandboxConfig:
        return sandbox_config(
            pod, attempt, SandboxParts(self.logs, "cluster.local", DnsConfig(), sandbox_security(pod))
        )

    def runtime_handler(self, pod: core_v1.Pod) -> str:
        return ""

    async def image(self, pod: core_v1.Pod, container: AnyContainer, sandbox: SandboxConfig) -> str:
        if await self._runtime.image_status(container.image) is None:
            await self._runtime.pull_image(container.image, None)
        return container.image

    async def container(self, request: ContainerRequest) -> tuple[ContainerConfig, Callable[[], Awaitable[None]]]:
        failure = self.failures.get(request.container.name)
        if failure is not None:
            raise failure
        limits = container_resources(request.pod, request.container, LIMITS)
        given = await self._given(request)
        parts = ContainerParts(
            request.image_ref,
            request.restarts,
            tuple(given.environment.items()),
            (),
            ContainerSecurity(),
            replace(limits, cpuset_cpus=given.cpus, cpuset_mems=given.memory_nodes),
            given.devices,
        )
        return container_config(request.pod, request.container, parts), _nothing

    async def _given(self, request: ContainerRequest) -> ContainerAllocation:
        if self.allocations is None:
            return ContainerAllocation()
        try:
            return await self.allocations.container(request.pod, request.container)
        except AllocationError as error:
            raise StartError("CreateContainerConfigError", str(error)) from error

    def next_log_number(self, pod: core_v1.Pod, container: AnyContainer) -> int:
        return 0

    def started(self, pod: core_v1.Pod, container: AnyContainer, container_id: str, restarts: int) -> None:
        """Nothing follows."""


async def _nothing() -> None:
    """Nothing was made."""


@dataclass
class PlainVolumes:
    """Volumes that are there at once, unless `error` says why not; `is_reported` if that had events of its own. `limit`: the node has no place for them."""

    error: str = ""
    is_reported: bool = False
    limit: str = ""
    mounted: set[str] = field(default_factory=set)

    async def mount(self, pod: core_v1.Pod) -> None:
        if self.limit:
            raise VolumeLimitError(self.limit)
        if self.error:
            raise VolumeNotReadyError(self.error, is_reported=self.is_reported)
        self.mounted.add(pod.metadata.uid)

    async def unmount(self, pod_uid: str) -> None:
        self.mounted.discard(pod_uid)


@dataclass
class PlainDirectories:
    """Cgroups that only are remembered."""

    made: set[str] = field(default_factory=set)

    async def prepare(self, pod: core_v1.Pod, *, running: bool) -> bool:
        self.made.add(pod.metadata.uid)
        return True

    async def remove(self, pod_uid: str) -> None:
        self.made.discard(pod_uid)


@dataclass
class PlainCgroups:
    """Limits of pods that only are remembered, as the order in which they were set. `usage`: bytes that every pod uses."""

    limited: dict[str, CgroupResources] = field(default_factory=dict)
    changes: list[CgroupResources] = field(default_factory=list)
    usage: int = 0

    def resources(self, pod: core_v1.Pod) -> CgroupResources:
        return pod_cgroup_resources(pod)

    def limits(self, pod: core_v1.Pod) -> CgroupResources:
        return self.limited.get(pod.metadata.uid, CgroupResources(cpu_quota=-1, memory=0))

    def memory_usage(self, pod: core_v1.Pod) -> int | None:
        return self.usage

    def set_resources(self, pod: core_v1.Pod, resources: CgroupResources) -> None:
        has = self.limits(pod)
        memory = has.memory if resources.memory is None else resources.memory
        quota = has.cpu_quota if resources.cpu_quota is None else resources.cpu_quota
        self.limited[pod.metadata.uid] = CgroupResources(cpu_quota=quota, memory=memory)
        self.changes.append(resources)


@dataclass
class Played:
    """What a test sees."""

    client: Client
    runtime: SimulatedRuntime
    clock: LoopClock
    randomness: SeededRandomness
    builder: PlainBuilder
    volumes: PlainVolumes = field(default_factory=PlainVolumes)
    directories: PlainDirectories = field(default_factory=PlainDirectories)
    cgroups: PlainCgroups = field(default_factory=lambda: PlainCgroups())
    records: Path | None = None
    configuration: KubeletConfiguration = field(default_factory=KubeletConfiguration)
    kubelet: Kubelet | None = None
    admit: Admit = lambda _pod, _others: None
    """What else must hold for a pod to run here."""
    make_resources: Callable[[Kubelet], ContainerManager] | None = None
    """Makes what gives containers CPUs, memory and devices; None for nothing."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Kubelet]:
        """A kubelet, from its start to its end; containers go on after that."""
        informers = InformerFactory(self.client, self.clock, self.randomness)

        async def explain(status: ContainerStatus) -> ContainerStatus:
            return status

        async def remove_logs(keep: Collection[str]) -> None:
            """There are none."""

        def parts(kubelet: Kubelet) -> NodeParts:
            resources = self.make_resources(kubelet) if self.make_resources is not None else None
            self.builder.allocations = resources
            return NodeParts(
                self.runtime,
                self.builder,
                self.volumes,
                self.directories,
                explain,
                remove_logs,
                LIMITS,
                self.cgroups,
                self.records,
                checks=(lambda pod, others: self.admit(pod, others),),
                resources=resources,
                tasks={"cpus": resources.run} if resources is not None else {},
            )

        kubelet = Kubelet(
            self.client,
            NODE,
            self.configuration,
            informers,
            parts,
            clock=self.clock,
            randomness=self.randomness,
        )
        self.kubelet = kubelet
        task = asyncio.create_task(kubelet.run())
        try:
            yield kubelet
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await informers.stop()

    async def pod(self, name: str = "p") -> core_v1.Pod | None:
        """A pod as the API shows it; None if it is gone."""
        try:
            return await self.client.get(core_v1.Pod, name, "default")
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def create(self, *containers: core_v1.Container, name: str = "p", **spec: Any) -> core_v1.Pod:
        """A pod on the node."""
        spec = {"restart_policy": "Always", "node_name": NODE, **spec}
        annotations = spec.pop("annotations", {})
        metadata = meta_v1.ObjectMeta(name=name, namespace="default", annotations=annotations)
        body = core_v1.PodSpec(containers=containers or (container(),), **spec)
        return await self.client.create(core_v1.Pod(metadata=metadata, spec=body))

    async def until(
        self, condition: Callable[[core_v1.Pod | None], bool], name: str = "p", seconds: float = 60
    ) -> core_v1.Pod:
        """Return the pod when a condition holds of it. Fails after so many (virtual) seconds."""
        end = self.clock.monotonic() + seconds
        while True:
            pod = await self.pod(name)
            if condition(pod):
                return pod or core_v1.Pod()
            status = pod.status if pod is not None else None
            assert self.clock.monotonic() < end, f"after {seconds:g} s: {status}"
            await self.clock.sleep(0.05)

    async def events(self, reason: str) -> list[core_v1.Event]:
        """Events with a reason."""
        found = (await self.client.list(core_v1.Event, "default")).items
        return [each for each in found if each.reason == reason]

    def runs(self, name: str) -> int:
        """How often containers of this name have been started."""
        return sum(each.started_at > 0 for each in self.runtime.all_containers() if each.config.name == name)


def container(name: str = "c", image: str = "nginx", **fields: Any) -> core_v1.Container:
    """A container."""
    return core_v1.Container(name=name, image=image, **fields)


def phase(wanted: str) -> Callable[[core_v1.Pod | None], bool]:
    """Whether a pod has this phase."""
    return lambda pod: pod is not None and pod.status.phase == wanted


def ready(pod: core_v1.Pod | None) -> bool:
    """Whether a pod is ready."""
    return pod is not None and any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def status_of(pod: core_v1.Pod, name: str = "c") -> core_v1.ContainerStatus:
    found = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next(each for each in found if each.name == name)


def waits(pod: core_v1.Pod | None, reason: str) -> bool:
    """Whether the container waits, for this reason."""
    if pod is None or not pod.status.container_statuses:
        return False
    waiting = status_of(pod).state.waiting
    return waiting is not None and waiting.reason == reason


def gone(pod: core_v1.Pod | None) -> bool:
    """Whether a pod is gone from the API."""
    return pod is None


def play(case: Callable[[Played], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a case in virtual time. options: of the simulated runtime."""

    async def main() -> None:
        clock, randomness = LoopClock(START), SeededRandomness(1)
        settings = ApiServerSettings(service_cluster_ip_range="10.0.0.0/16")
        api = ApiServer(open_store("memory:", clock=clock), clock=clock, randomness=randomness, settings=settings)
        await api.open()
        client = Client(InProcessTransport(InProcessEndpoint(api, ADMIN)))
        try:
            account = meta_v1.ObjectMeta(name="default", namespace="default")
            await client.create(core_v1.ServiceAccount(metadata=account))
            await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=NODE, labels={"disk": "ssd"})))
            amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
            status = {"status": {"capacity": amounts, "allocatable": amounts, "declaredFeatures": DECLARED}}
            await client.patch(core_v1.Node, NODE, "", status, subresource="status")
            runtime = SimulatedRuntime(clock, randomness, **options)
            played = Played(client, runtime, clock, randomness, PlainBuilder(runtime))
            await case(played)
        finally:
            await api.close()

    run(main())
