"""How a machine's CPUs and memory lie to each other, read from sysfs (`/sys/devices/system`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bayplan.kubelet.resource_managers.cpus.cpu_set import CpuSet, parse_cpu_set
from bayplan.kubelet.resource_managers.errors import ResourceManagerError

SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True, slots=True)
class Cpu:
    """Where one logical CPU is. `core` is the lowest number of the CPUs that share the core, so that no two cores of a machine have the same."""

    core: int
    socket: int
    numa_node: int
    uncore_cache: int


@dataclass(frozen=True, slots=True)
class NumaNode:
    """Memory that some CPUs reach faster than others: bytes in all, page size in bytes -> number of huge pages, distances to all nodes in their order."""

    id: int
    memory: int = 0
    hugepages: Mapping[int, int] = field(default_factory=dict)
    distances: tuple[int, ...] = ()


@dataclass(frozen=True)
class CpuTopology:
    """CPUs of a machine, or some of them; `cpus` is number -> place."""

    cpus: Mapping[int, Cpu]

    def all(self) -> CpuSet:
        """All CPUs."""
        return frozenset(self.cpus)

    def keep_only(self, wanted: CpuSet) -> CpuTopology:
        """A topology of some of the CPUs."""
        return CpuTopology({cpu: place for cpu, place in self.cpus.items() if cpu in wanted})

    @cached_property
    def numa_nodes(self) -> CpuSet:
        """NUMA nodes with CPUs."""
        return frozenset(each.numa_node for each in self.cpus.values())

    @cached_property
    def sockets(self) -> CpuSet:
        """Sockets with CPUs."""
        return frozenset(each.socket for each in self.cpus.values())

    @cached_property
    def cores(self) -> CpuSet:
        """Cores with CPUs."""
        return frozenset(each.core for each in self.cpus.values())

    @cached_property
    def uncore_caches(self) -> CpuSet:
        """Caches of the last level that is shared by cores."""
        return frozenset(each.uncore_cache for each in self.cpus.values())

    def cpus_per_core(self) -> int:
        """Logical CPUs of a core, on average rounded down."""
        return len(self.cpus) // len(self.cores) if self.cores else 0

    def cpus_per_socket(self) -> int:
        """Logical CPUs of a socket, on average rounded down."""
        return len(self.cpus) // len(self.sockets) if self.sockets else 0

    def cpus_per_uncore_cache(self) -> int:
        """Logical CPUs of such a cache, on average rounded down."""
        return len(self.cpus) // len(self.uncore_caches) if self.uncore_caches else 0

    def in_numa_nodes(self, ids: Iterable[int]) -> CpuSet:
        """CPUs of NUMA nodes."""
        wanted = set(ids)
        return frozenset(cpu for cpu, place in self.cpus.items() if place.numa_node in wanted)

    def in_sockets(self, ids: Iterable[int]) -> CpuSet:
        """CPUs of sockets."""
        wanted = set(ids)
        return frozenset(cpu for cpu, place in self.cpus.items() if place.socket in wanted)

    def in_cores(self, ids: Iterable[int]) -> CpuSet:
        """CPUs of cores."""
        wanted = set(ids)
        return frozenset(cpu for cpu, place in self.cpus.items() if place.core in wanted)

    def in_uncore_caches(self, ids: Iterable[int]) -> CpuSet:
        """CPUs of caches."""
        wanted = set(ids)
        return frozenset(cpu for cpu, place in self.cpus.items() if place.uncore_cache in wanted)

    def sockets_of_numa_nodes(self, ids: Iterable[int]) -> CpuSet:
        """Sockets that have a part in NUMA nodes."""
        return frozenset(self.cpus[cpu].socket for cpu in self.in_numa_nodes(ids))


@dataclass(frozen=True, slots=True)
class MachineTopology:
    """The CPUs that are online, and all NUMA nodes by number."""

    cpus: CpuTopology
    numa_nodes: tuple[NumaNode, ...]


def read_machine_topology(system: Path = SYSTEM) -> MachineTopology:
    """The machine as it is now; one without NUMA nodes is shown as having one. system: the root of what is read. Raises ResourceManagerError."""
    online = _numbers(system / "cpu/online")
    if not online:
        raise ResourceManagerError(f"could not detect number of cpus: {system}/cpu/online names none")
    nodes, numa_of = [], {}
    for directory in sorted(system.glob("node/node[0-9]*"), key=lambda each: int(each.name.removeprefix("node"))):
        node = _numa_node(directory)
        nodes.append(node)
        numa_of.update(dict.fromkeys(_numbers(directory / "cpulist"), node.id))
    cpus = {cpu: _cpu(system, cpu, numa_of.get(cpu, 0), online) for cpu in sorted(online)}
    return MachineTopology(CpuTopology(cpus), tuple(nodes) or (NumaNode(0, distances=(10,)),))


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""  # machines differ in what they tell


def _numbers(path: Path) -> CpuSet:
    try:
        return parse_cpu_set(_text(path))
    except ValueError as error:
        raise ResourceManagerError(f"{path}: {error}") from error


def _number(path: Path, default: int) -> int:
    text = _text(path)
    return int(text) if re.fullmatch(r"\d+", text) else default  # -1 where the machine does not know


def _cpu(system: Path, cpu: int, numa_node: int, online: CpuSet) -> Cpu:
    directory = system / f"cpu/cpu{cpu}"
    siblings = (_numbers(directory / "topology/thread_siblings_list") & online) or frozenset((cpu,))
    socket = _number(directory / "topology/physical_package_id", 0)
    return Cpu(min(siblings), socket, numa_node, _uncore_cache(directory, online, socket))


def _uncore_cache(directory: Path, online: CpuSet, socket: int) -> int:
    """The third-level cache of a CPU, named by its number; the socket where there is none, as then nothing is shared below it."""
    for cache in sorted(directory.glob("cache/index[0-9]*")):
        if _text(cache / "level") == "3":
            shared = _numbers(cache / "shared_cpu_list") & online
            return _number(cache / "id", min(shared, default=socket))
    return socket


def _numa_node(directory: Path) -> NumaNode:
    match = re.search(r"MemTotal:\s+(\d+) kB", _text(directory / "meminfo"))
    pages = {}
    for each in directory.glob("hugepages/hugepages-*kB"):
        size = int(each.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        pages[size] = _number(each / "nr_hugepages", 0)
    distances = tuple(int(each) for each in _text(directory / "distance").split() if each.isdecimal())
    number = int(directory.name.removeprefix("node"))
    return NumaNode(number, int(match[1]) * 1024 if match else 0, dict(sorted(pages.items())), distances)
