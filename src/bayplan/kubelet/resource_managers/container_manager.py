"""The one door to the managers of CPUs, memory and devices: admits pods, says what containers get, takes it back (pkg/kubelet/cm/container_manager_linux.go)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import NodeOffer, Rejection
from bayplan.kubelet.core.containers.allocation import ContainerAllocation
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.resource_managers.cpus.cpu_set import CpuSet, format_cpu_set
from bayplan.kubelet.resource_managers.devices.device_calls import Allocate, Allocated, PluginCall, PluginReply, Steps
from bayplan.kubelet.resource_managers.devices.device_manager import DeviceManager
from bayplan.kubelet.resource_managers.errors import AllocationError, PluginError
from bayplan.kubelet.resource_managers.manager_metrics import ManagerMetrics
from bayplan.kubelet.resource_managers.providers import CpuManager, MemoryManager
from bayplan.kubelet.resource_managers.requests import containers_of
from bayplan.kubelet.resource_managers.topology_manager import TopologyManager
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import ContainerState, LinuxResources
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

PluginCaller = Callable[[PluginCall], Awaitable[PluginReply]]
"""Asks a device plugin. Raises PluginError, also when it takes too long."""
Done = Callable[[Rejection | None], None]
RECONCILE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """What the managers ask of the kubelet, each time. ready: whether all pods are known that were here when it started."""

    active: Callable[[], list[core_v1.Pod]]
    state: Callable[[str], PodState]
    ready: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Managers:
    """The managers, which share the topology manager's decisions."""

    topology: TopologyManager
    cpus: CpuManager
    memory: MemoryManager
    devices: DeviceManager


class ContainerManager:
    """Implements `PodAllocation` and `ContainerAllocations`."""

    def __init__(
        self,
        managers: Managers,
        view: NodeView,
        ask: PluginCaller,
        runtime: Runtime,
        clock: Clock,
        *,
        reconcile_seconds: float = RECONCILE_SECONDS,
        metrics: ManagerMetrics | None = None,
        shows_health: bool = True,
    ) -> None:
        """shows_health: whether statuses of containers say how their devices are."""
        self.managers = managers
        self._metrics = metrics if metrics is not None else ManagerMetrics()
        self._view = view
        self._ask = ask
        self._runtime = runtime
        self._clock = clock
        self._period = reconcile_seconds
        self._shows_health = shows_health
        self._admitting: dict[str, core_v1.Pod] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        """Pods whose device plugins are being asked."""
        self._cpus_set: dict[str, CpuSet] = {}
        """Container id -> the CPUs that the runtime was told of last."""
        managers.topology.providers = (managers.devices, managers.cpus, managers.memory)

    def start(self) -> None:
        """Read what an earlier kubelet has left. Raises ResourceManagerError."""
        self.managers.cpus.start()
        self.managers.memory.start()
        self.managers.devices.load()

    async def close(self) -> None:
        """Ask no plugin any more; pods that wait for one stay undecided."""
        waiting = list(self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def admit(self, pod: core_v1.Pod, done: Done) -> None:
        """See PodAllocation: `done` is called before this returns, unless a device plugin has to be asked."""
        uid = pod.metadata.uid
        done = self._timed(done)
        self._admitting[uid] = pod
        self._keep_active()
        steps = self.managers.topology.admit(pod)
        try:
            call = next(steps)
        except StopIteration:
            self._decided(uid, None, done)
        except AllocationError as error:
            self._decided(uid, error, done)
        else:
            task = asyncio.get_running_loop().create_task(self._admit_later(uid, steps, call, done))
            self._waiting[uid] = task
            task.add_done_callback(lambda _: self._waiting.pop(uid, None))

    def _timed(self, done: Done) -> Done:
        """The same, which also counts the admission and tells how long it took."""
        metrics, begin = self._metrics, self._clock.monotonic()
        metrics.admissions.inc()

        def decided(rejection: Rejection | None) -> None:
            metrics.admission_milliseconds.observe((self._clock.monotonic() - begin) * 1000)
            if rejection is not None:
                metrics.admission_errors.inc()
            done(rejection)

        return decided

    async def _admit_later(self, uid: str, steps: Steps, call: PluginCall, done: Done) -> None:
        try:
            await self._run(steps, call)
        except AllocationError as error:
            self._decided(uid, error, done)
        else:
            self._decided(uid, None, done)

    async def _run(self, steps: Steps, call: PluginCall) -> None:
        """Take steps to their end, from the question that they have asked. Raises AllocationError."""
        while True:
            try:
                try:
                    reply = await self._asked(call)
                except PluginError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(reply)
            except StopIteration:
                return

    async def _asked(self, call: PluginCall) -> PluginReply:
        """A plugin's reply. Raises PluginError."""
        begin = self._clock.monotonic()
        try:
            return await self._ask(call)
        finally:
            if isinstance(call, Allocate):
                seconds = self._clock.monotonic() - begin
                self._metrics.device_allocation_seconds.labels(call.resource).observe(seconds)

    def _decided(self, uid: str, error: AllocationError | None, done: Done) -> None:
        managers = self.managers
        for provider in (managers.cpus, managers.memory):
            provider.admitted(uid)
        managers.devices.forget_choices(uid)
        rejection = Rejection(error.reason, error.message()) if error is not None else None
        done(rejection)
        self._admitting.pop(uid, None)
        self._keep_active()  # the pod may have been rejected, here or for another reason

    def release(self, uid: str) -> None:
        """See PodAllocation."""
        self._admitting.pop(uid, None)
        waiting = self._waiting.get(uid)
        if waiting is not None:
            waiting.cancel()
        self.managers.devices.forget_choices(uid)
        self._keep_active()

    def _keep_active(self) -> None:
        """Take back what pods had that are over. Before all pods are known nobody can tell which those are."""
        if not self._view.ready():
            return
        active = [*self._view.active(), *self._admitting.values()]
        uids = {each.metadata.uid for each in active}
        self.managers.cpus.keep_only(active)
        self.managers.memory.keep_only(active)
        self.managers.devices.keep_only(uids)
        self.managers.topology.keep_only(uids)

    def offer(self, uid: str, offer: NodeOffer) -> NodeOffer:
        """See PodAllocation: devices that are given away count although their plugin may be gone."""
        allocatable = offer.node.status.allocatable
        enough = self.managers.devices.at_least_given(uid, allocatable)
        if enough is allocatable:
            return offer
        status = msgspec.structs.replace(offer.node.status, allocatable=dict(enough))
        return replace(offer, node=msgspec.structs.replace(offer.node, status=status))

    async def container(self, pod: core_v1.Pod, container: AnyContainer) -> ContainerAllocation:
        """See ContainerAllocations."""
        uid, name = pod.metadata.uid, container.name
        managers, found = self.managers, Allocated()
        if isinstance(container, core_v1.Container):
            steps = managers.devices.before_start(pod, container)
            call = next(steps, None)
            if call is not None:
                await self._run(steps, call)
            found = managers.devices.options(uid, name)
            managers.memory.starts(pod, name)
        return ContainerAllocation(
            cpus=format_cpu_set(managers.cpus.state.of(uid, name)),
            memory_nodes=",".join(map(str, sorted(managers.memory.numa_nodes(uid, name)))),
            environment=found.environment,
            mounts=found.mounts,
            devices=found.devices,
            annotations=found.annotations,
            cdi_devices=found.cdi_devices,
        )

    def has_exclusive_cpus(self, pod: core_v1.Pod, container: str = "") -> bool:
        """Whether a container has CPUs of its own, or any container of the pod; a quota would only slow it down there."""
        names = [container] if container else [each.name for each in containers_of(pod)]
        return any(self.managers.cpus.state.get(pod.metadata.uid, each) for each in names)

    def statuses(self, pod: core_v1.Pod) -> Mapping[str, tuple[core_v1.ResourceStatus, ...]]:
        """Container -> how its devices are."""
        if not self._shows_health:
            return {}
        devices = self.managers.devices
        found = {each.name: devices.statuses(pod.metadata.uid, each.name) for each in pod.spec.containers}
        return {name: each for name, each in found.items() if each}

    async def run(self) -> None:
        """Have containers run on the CPUs of their own, or of the shared pool as it is now, until cancelled."""
        while self.managers.cpus.policy is not None:
            await self._clock.sleep(self._period)
            await self.reconcile()

    async def reconcile(self) -> None:
        """Tell the runtime which containers are to run on other CPUs than it was told before."""
        self._keep_active()
        running: dict[str, CpuSet] = {}
        for pod in self._view.active():
            state = self._view.state(pod.metadata.uid)
            for container in containers_of(pod):
                latest = state.latest(container.name)
                if latest is not None and latest.container.state is ContainerState.RUNNING:
                    running[latest.container.id] = self.managers.cpus.state.of(pod.metadata.uid, container.name)
        self._cpus_set = {each: cpus for each, cpus in self._cpus_set.items() if each in running}
        for container_id, cpus in running.items():
            if cpus and self._cpus_set.get(container_id) != cpus:
                await self._set_cpus(container_id, cpus)

    async def _set_cpus(self, container_id: str, cpus: CpuSet) -> None:
        try:
            await self._runtime.update_container(container_id, LinuxResources(cpuset_cpus=format_cpu_set(cpus)), {})
        except RuntimeRequestError as error:
            logger.error("failed to update container %s to CPUs %s: %s", container_id, format_cpu_set(cpus), error)
        else:
            self._cpus_set[container_id] = cpus


def never_asked(call: PluginCall) -> Awaitable[PluginReply]:
    """An `PluginCaller` where there are no plugins."""

    async def fail() -> PluginReply:
        raise PluginError(f"endpoint {call.resource} has been stopped")

    return fail()
