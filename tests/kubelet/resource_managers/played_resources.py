"""Managers of CPUs, memory and devices over the simulated runtime, with device plugins that are objects of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.api.types import core_v1
from bayplan.kubelet.configuration import KubeletConfiguration, MemoryReservation
from bayplan.kubelet.feature_gates import RESOURCE_HEALTH, is_enabled
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.resource_managers.container_manager import ContainerManager, NodeView
from bayplan.kubelet.resource_managers.devices.device_calls import (
    Allocate,
    Allocated,
    PluginCall,
    PluginDevice,
    PluginOptions,
    PluginReply,
    PreferredAllocation,
)
from bayplan.kubelet.resource_managers.errors import PluginError
from bayplan.kubelet.resource_managers.machine_topology import Cpu, CpuTopology, MachineTopology, NumaNode
from bayplan.kubelet.resource_managers.make_managers import Setting, make_managers
from bayplan.kubelet.resource_managers.manager_metrics import ManagerMetrics
from bayplan.kubelet.runtime.types import ContainerState
from bayplan.support.metrics.instruments import Registry
from tests.kubelet.simulator.played import Played

GIB = 1 << 30
GPU = "example.com/gpu"


def machine(nodes: int = 2, cores: int = 2, memory: int = 4 * GIB) -> MachineTopology:
    """NUMA nodes that are sockets, with cores of two CPUs each: CPU n and n + nodes * cores share one."""
    half = nodes * cores
    cpus = {
        cpu: Cpu(cpu % half, cpu % half // cores, cpu % half // cores, cpu % half // cores) for cpu in range(2 * half)
    }
    distances = [[10 if one == other else 20 for other in range(nodes)] for one in range(nodes)]
    return MachineTopology(
        CpuTopology(cpus), tuple(NumaNode(node, memory, {}, tuple(distances[node])) for node in range(nodes))
    )


def configuration(**fields: Any) -> KubeletConfiguration:
    """A configuration that keeps CPU 0 for the system."""
    return KubeletConfiguration(**{"cpu_manager_policy": "static", "reserved_system_cpus": "0", **fields})


def memory_configuration(**fields: Any) -> KubeletConfiguration:
    """A configuration that keeps a GiB of node 0 as well."""
    return configuration(
        memory_manager_policy="Static",
        reserved_memory=[MemoryReservation(numa_node=0, limits={"memory": "1Gi"})],
        **fields,
    )


RESERVED = {"cpu": "1", "memory": "1Gi"}


@dataclass
class Plugin:
    """A device plugin. `answers`: how long it takes (virtual seconds), None for ever; `error` is what it says instead of an answer."""

    seconds: float | None = 0.0
    error: str = ""
    prefers: tuple[str, ...] = ()
    calls: list[PluginCall] = field(default_factory=list)

    async def answer(self, call: PluginCall) -> PluginReply:
        """What it says."""
        self.calls.append(call)
        await asyncio.sleep(1e9 if self.seconds is None else self.seconds)
        if self.error:
            raise PluginError(self.error)
        if isinstance(call, PreferredAllocation):
            return self.prefers
        if isinstance(call, Allocate):
            return Allocated(environment={"DEVICES": ",".join(call.devices)})
        return ()


@dataclass
class Resources:
    """Lets a played kubelet give CPUs, memory and devices. `plugins`: by resource; they have a time limit of ten seconds."""

    played: Played
    configuration: KubeletConfiguration = field(default_factory=configuration)
    machine: MachineTopology = field(default_factory=machine)
    reserved: Mapping[str, str] = field(default_factory=lambda: RESERVED)
    directory: Path | None = None
    plugins: dict[str, Plugin] = field(default_factory=dict)
    offered: dict[str, tuple[PluginDevice, ...]] = field(default_factory=dict)
    """What plugins offer as soon as a kubelet starts."""
    options: PluginOptions = PluginOptions()  # noqa: RUF009 - frozen
    manager: ContainerManager | None = None
    registry: Registry = field(default_factory=Registry)
    """Of the managers' metrics."""

    def __post_init__(self) -> None:
        self.played.configuration = self.configuration
        self.played.make_resources = self.make

    def make(self, kubelet: Kubelet) -> ContainerManager:
        """See Played.make_resources."""

        def ran(uid: str, name: str) -> bool:
            latest = kubelet.states.get(uid).latest(name)
            running = latest is not None and latest.container.state is ContainerState.RUNNING
            return running and not kubelet.pods.ready

        clock, metrics = self.played.clock, ManagerMetrics(self.registry)
        managers = make_managers(
            Setting(self.configuration, self.machine, self.reserved, self.directory, clock.monotonic, ran, metrics)
        )
        view = NodeView(lambda: kubelet.pods.active(), kubelet.states.get, lambda: kubelet.pods.ready)
        shows_health = is_enabled(self.configuration.feature_gates, RESOURCE_HEALTH)
        self.manager = ContainerManager(
            managers, view, self._ask, self.played.runtime, clock, metrics=metrics, shows_health=shows_health
        )
        load = managers.devices.load

        def load_and_offer() -> None:
            load()
            for resource, devices in self.offered.items():
                managers.devices.connected(resource, self.options)
                managers.devices.update(resource, devices)

        managers.devices.load = load_and_offer  # type: ignore[method-assign]  # plugins that are there at once
        return self.manager

    async def _ask(self, call: PluginCall) -> PluginReply:
        try:
            async with asyncio.timeout(10):
                return await self.plugins[call.resource].answer(call)
        except TimeoutError:
            raise PluginError("rpc error: code = DeadlineExceeded desc = Deadline Exceeded") from None

    def running(self) -> ContainerManager:
        """The manager of the kubelet that runs."""
        assert self.manager is not None
        return self.manager

    def cpus_of(self, name: str) -> str:
        """The CPUs on which the runtime has a container, by its name."""
        [found] = [
            each
            for each in self.played.runtime.all_containers()
            if each.config.name == name and each.state is ContainerState.RUNNING
        ]
        return found.resources.cpuset_cpus

    async def cpus_become(self, name: str, cpus: str, seconds: float = 30) -> None:
        """Return when a container runs on these CPUs. Fails after so many virtual seconds."""
        await self.until(lambda: self.cpus_of(name) == cpus, lambda: self.cpus_of(name), seconds)

    async def until(self, condition: Callable[[], bool], shown: Callable[[], object], seconds: float = 30) -> None:
        """Return when something holds."""
        end = self.played.clock.monotonic() + seconds
        while not condition():
            assert self.played.clock.monotonic() < end, shown()
            await self.played.clock.sleep(0.1)


def guaranteed(name: str = "c", cpu: str = "1", memory: str = "1Gi", **devices: str) -> core_v1.Container:
    """A container whose limits are its requests."""
    amounts: dict[str, str | int | float] = {
        "cpu": cpu,
        "memory": memory,
        **({GPU: devices["gpus"]} if devices else {}),
    }
    resources = core_v1.ResourceRequirements(requests=amounts, limits=amounts)
    return core_v1.Container(name=name, image="nginx", resources=resources)
