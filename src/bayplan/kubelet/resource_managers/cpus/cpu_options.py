"""Options of the CPU manager's static policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bayplan.kubelet.feature_gates import CPU_ALPHA_OPTIONS, CPU_BETA_OPTIONS, is_enabled
from bayplan.kubelet.resource_managers.errors import ResourceManagerError
from bayplan.kubelet.resource_managers.machine_topology import CpuTopology
from bayplan.kubelet.resource_managers.topology_options import parse_bool
from bayplan.kubelet.resource_managers.topology_policy import SINGLE_NUMA_NODE

FULL_CORES: Final = "full-pcpus-only"
ACROSS_NUMA: Final = "distribute-cpus-across-numa"
BY_SOCKET: Final = "align-by-socket"
ACROSS_CORES: Final = "distribute-cpus-across-cores"
STRICT_RESERVATION: Final = "strict-cpu-reservation"
BY_UNCORE_CACHE: Final = "prefer-align-cpus-by-uncorecache"
_NAMES = (FULL_CORES, ACROSS_NUMA, BY_SOCKET, ACROSS_CORES, STRICT_RESERVATION, BY_UNCORE_CACHE)
_GATES: Final = {
    BY_SOCKET: ("Alpha", CPU_ALPHA_OPTIONS),
    ACROSS_CORES: ("Alpha", CPU_ALPHA_OPTIONS),
    ACROSS_NUMA: ("Beta", CPU_BETA_OPTIONS),
}
"""Option -> (its level, the feature gate that it needs)."""
_APART = (
    (FULL_CORES, ACROSS_CORES),
    (ACROSS_NUMA, ACROSS_CORES),
    (BY_UNCORE_CACHE, ACROSS_CORES),
    (BY_UNCORE_CACHE, ACROSS_NUMA),
)
"""Options that exclude each other."""


@dataclass(frozen=True, slots=True)
class CpuOptions:
    """What `cpuManagerPolicyOptions` says."""

    full_cores: bool = False
    across_numa: bool = False
    by_socket: bool = False
    across_cores: bool = False
    strict_reservation: bool = False
    by_uncore_cache: bool = False


def parse_cpu_options(options: Mapping[str, str], gates: Mapping[str, bool]) -> CpuOptions:
    """gates: feature gates that are set. Raises ResourceManagerError."""
    for name in options:
        if name not in _NAMES:
            raise ResourceManagerError(f'unknown CPU Manager Policy option: "{name}"')
        level, gate = _GATES.get(name, ("", ""))
        if gate and not is_enabled(gates, gate):
            text = f'CPU Manager Policy {level}-level Options not enabled, but option "{name}" provided'
            raise ResourceManagerError(text)
    chosen = {name for name, value in options.items() if parse_bool(name, value)}
    for one, other in _APART:
        if one in chosen and other in chosen:
            raise ResourceManagerError(f"static policy options {one} and {other} can not be used at the same time")
    return CpuOptions(*(name in chosen for name in _NAMES))


def check_cpu_options(options: CpuOptions, topology: CpuTopology, topology_policy: str) -> None:
    """Whether options fit the machine and the topology manager's policy. Raises ResourceManagerError."""
    if not options.by_socket:
        return
    if topology_policy == SINGLE_NUMA_NODE:
        raise ResourceManagerError(
            f"Topolgy manager {SINGLE_NUMA_NODE} policy is incompatible with CPUManager {BY_SOCKET} policy option"
        )
    if len(topology.sockets) > len(topology.numa_nodes):
        raise ResourceManagerError(
            "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
        )
