"""Makes the managers that a configuration asks for, on a machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.resource_managers.container_manager import Managers
from bayplan.kubelet.resource_managers.cpus.cpu_options import check_cpu_options, parse_cpu_options
from bayplan.kubelet.resource_managers.cpus.cpu_policy import StaticCpuPolicy
from bayplan.kubelet.resource_managers.cpus.cpu_set import parse_cpu_set
from bayplan.kubelet.resource_managers.cpus.cpu_state import CPU_STATE, CpuState
from bayplan.kubelet.resource_managers.devices.device_checkpoint import DEVICE_STATE, DeviceCheckpoint
from bayplan.kubelet.resource_managers.devices.device_manager import DeviceManager
from bayplan.kubelet.resource_managers.errors import ResourceManagerError
from bayplan.kubelet.resource_managers.machine_topology import MachineTopology
from bayplan.kubelet.resource_managers.manager_metrics import ManagerMetrics
from bayplan.kubelet.resource_managers.memory_policy import StaticMemoryPolicy
from bayplan.kubelet.resource_managers.memory_state import MEMORY_STATE, MemoryState
from bayplan.kubelet.resource_managers.providers import CpuManager, MemoryManager
from bayplan.kubelet.resource_managers.reservations import Reserved, reserved_cpu_number, reserved_memory
from bayplan.kubelet.resource_managers.topology_manager import TopologyManager
from bayplan.kubelet.resource_managers.topology_options import TopologyOptions, parse_topology_options
from bayplan.kubelet.resource_managers.topology_policy import NO_POLICY, NumaInfo, TopologyPolicy

DEVICE_PLUGINS = "device-plugins"


@dataclass(frozen=True, slots=True)
class Setting:
    """What managers are made from. directory: of the checkpoints, None to keep nothing. now: monotonic seconds."""

    configuration: KubeletConfiguration
    machine: MachineTopology
    reserved: Reserved
    directory: Path | None
    now: Callable[[], float]
    is_starting_with: Callable[[str, str], bool] = lambda uid, container: False
    """Whether the kubelet still takes in what there was, and a container (pod uid, name) ran before it."""
    metrics: ManagerMetrics = field(default_factory=ManagerMetrics)

    def file(self, name: str) -> Path | None:
        """A checkpoint."""
        return self.directory / name if self.directory is not None else None


def make_managers(setting: Setting) -> Managers:
    """Raises ResourceManagerError where a policy or an option does not fit."""
    topology = TopologyManager(_topology_policy(setting), setting.configuration.topology_manager_scope, setting.metrics)
    plugins = setting.file(DEVICE_PLUGINS)
    devices = DeviceManager(
        [each.id for each in setting.machine.numa_nodes],
        topology,
        DeviceCheckpoint(plugins / DEVICE_STATE if plugins is not None else None),
        setting.now,
        setting.is_starting_with,
    )
    return Managers(topology, _cpus(setting, topology), _memory(setting, topology), devices)


def _topology_policy(setting: Setting) -> TopologyPolicy:
    name, nodes = setting.configuration.topology_manager_policy, setting.machine.numa_nodes
    numa = NumaInfo.of(nodes)
    if name == NO_POLICY:
        return TopologyPolicy(name, numa, TopologyOptions())
    options = parse_topology_options(setting.configuration.topology_manager_policy_options)
    if options.prefer_closest and any(len(each.distances) < len(nodes) for each in nodes):
        raise ResourceManagerError("cannot discover NUMA topology: the machine does not tell distances of NUMA nodes")
    if len(nodes) > options.most_nodes:
        raise ResourceManagerError(f"unsupported on machines with more than {options.most_nodes} NUMA Nodes")
    return TopologyPolicy(name, numa, options)


def _cpus(setting: Setting, topology: TopologyManager) -> CpuManager:
    configuration = setting.configuration
    state = CpuState(configuration.cpu_manager_policy, setting.file(CPU_STATE))
    if configuration.cpu_manager_policy == "none":
        if configuration.cpu_manager_policy_options:
            shown = " ".join(f"{name}:{value}" for name, value in configuration.cpu_manager_policy_options.items())
            raise ResourceManagerError(f"new none policy error: None policy: received unsupported options map[{shown}]")
        return CpuManager(None, state)
    number = reserved_cpu_number(setting.reserved)
    try:
        options = parse_cpu_options(configuration.cpu_manager_policy_options, configuration.feature_gates)
        check_cpu_options(options, setting.machine.cpus, configuration.topology_manager_policy)
        policy = StaticCpuPolicy(
            setting.machine.cpus,
            state,
            topology,
            options,
            reserved=parse_cpu_set(configuration.reserved_system_cpus),
            reserved_number=number,
            metrics=setting.metrics,
        )
    except ResourceManagerError as error:
        raise ResourceManagerError(f"new static policy error: {error}") from error
    return CpuManager(policy, state)


def _memory(setting: Setting, topology: TopologyManager) -> MemoryManager:
    configuration, nodes = setting.configuration, setting.machine.numa_nodes
    state = MemoryState(configuration.memory_manager_policy, setting.file(MEMORY_STATE))
    if configuration.memory_manager_policy == "None":
        return MemoryManager(None, state)
    reserved = reserved_memory(configuration.reserved_memory, [each.id for each in nodes], setting.reserved)
    return MemoryManager(StaticMemoryPolicy(nodes, state, topology, reserved, setting.metrics), state)
