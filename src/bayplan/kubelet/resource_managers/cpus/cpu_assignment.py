"""Chooses CPUs near to each other (pkg/kubelet/cm/cpumanager/cpu_assignment.go). Pure.

Whole NUMA nodes and sockets are taken first, where that many CPUs are wanted and one is free, then whole cores, then single CPUs. At each step those come
first that belong to the fullest part of the machine, so that large free parts stay whole:

    2 sockets with 2 cores of 2 CPUs each (core, socket: 0-0 1-0 2-1 3-1); CPU 0 is taken. 3 CPUs are wanted:
    no socket is free for 3; socket 0 has fewer free CPUs, so core 1 is taken as a whole, then the rest of core 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bayplan.kubelet.resource_managers.cpus.cpu_set import NONE, CpuSet
from bayplan.kubelet.resource_managers.errors import AllocationError
from bayplan.kubelet.resource_managers.machine_topology import Cpu, CpuTopology

Group = Callable[[Cpu], int]


def numa_group(cpu: Cpu) -> int:
    """The part of the machine by which memory is near."""
    return cpu.numa_node


def _socket(cpu: Cpu) -> int:
    return cpu.socket


def _core(cpu: Cpu) -> int:
    return cpu.core


def _uncore_cache(cpu: Cpu) -> int:
    return cpu.uncore_cache


def take_packed(
    topology: CpuTopology, available: CpuSet, number: int, *, spread: bool = False, by_uncore_cache: bool = False
) -> CpuSet:
    """So many CPUs of those that are available, as near to each other as they are free.

    spread: take single CPUs in the order of their numbers, on a socket after the other, instead of whole cores. Raises AllocationError.
    """
    taker = CpuTaker(topology, available, number, spread=spread)
    taker.check()
    taker.take_whole(taker.first)
    taker.take_whole(taker.second)
    if by_uncore_cache:
        taker.take_by_uncore_cache()
    if not spread:
        taker.take_whole(_core)
    taker.take_single()
    return taker.taken


class CpuTaker:
    """CPUs that are free, and those that were taken of them so far; `needed` are missing. `first` and `second` are the larger parts of the machine."""

    def __init__(self, topology: CpuTopology, available: CpuSet, number: int, *, spread: bool = False) -> None:
        self.topology = topology
        self.free = topology.keep_only(available)
        self.available = available
        self.number = self.needed = number
        self.taken: CpuSet = NONE
        self._spread = spread
        numa_is_larger = len(topology.sockets) >= len(topology.numa_nodes)
        self.first, self.second = (numa_group, _socket) if numa_is_larger else (_socket, numa_group)

    def check(self) -> None:
        """Raises AllocationError if there are not enough."""
        if self.needed > len(self.free.cpus):
            raise AllocationError(
                f"not enough cpus available to satisfy request: requested={self.number}, available={len(self.available)}"
            )

    def take(self, cpus: CpuSet) -> None:
        """Take CPUs."""
        self.taken |= cpus
        self.free = self.free.keep_only(self.free.all() - self.taken)
        self.needed -= len(cpus)

    def take_whole(self, group: Group) -> None:
        """Take parts of the machine that are wholly free, as long as that many CPUs are wanted."""
        sizes = _members(self.topology.cpus.items(), group)
        for each in self._free_groups(group) if self.needed > 0 else ():
            if self.needed >= len(sizes[each]):
                self.take(sizes[each])

    def _free_groups(self, group: Group) -> list[int]:
        free = _members(self.free.cpus.items(), group)
        return [each for each in self.ordered(group) if len(free[each]) == self._whole(group, each)]

    def _whole(self, group: Group, identifier: int) -> int:
        """CPUs of a part, or the average of its kind: sockets and cores of a machine are taken to be equal."""
        if group is _socket:
            return self.topology.cpus_per_socket()
        if group is _core:
            return self.topology.cpus_per_core()
        return len(_members(self.topology.cpus.items(), group)[identifier])

    def ordered(self, group: Group) -> list[int]:
        """Parts with free CPUs, the fullest first: within the fullest first of the larger parts, for parts that have those."""
        levels: list[Group] = [self.first]
        if group is not self.first:
            levels.append(self.second)
        if group is _core:
            levels.append(_core)
        if group is _uncore_cache:
            levels = [numa_group, _uncore_cache] if self.first is numa_group else [_socket, numa_group, _uncore_cache]
        return list(self._ordered(levels, lambda _: True))

    def _ordered(self, levels: list[Group], within: Callable[[Cpu], bool]) -> Iterator[int]:
        """Ids of the last level, walked level by level. The size of a part counts its free CPUs everywhere, not only below the part above it."""
        level = levels[0]
        sizes = _members(self.free.cpus.items(), level)
        present = {level(place) for place in self.free.cpus.values() if within(place)}
        for each in sorted(present, key=lambda identifier: (len(sizes[identifier]), identifier)):
            if len(levels) == 1:
                yield each
            else:
                yield from self._ordered(levels[1:], _is_in(level, each))

    def take_by_uncore_cache(self) -> None:
        """Take whole caches, then from one cache what it can give of the rest."""
        size = self.topology.cpus_per_uncore_cache()
        for cache in self.ordered(_uncore_cache) if self.needed > 0 else ():
            if self.needed >= size:
                self.take_whole(_uncore_cache)
            if self.needed > 0:
                self._take_part_of_cache(cache)
            if self.needed <= 0:
                return

    def _take_part_of_cache(self, cache: int) -> None:
        per_core = self.topology.cpus_per_core()
        wanted = -(-self.needed // per_core)
        cores = sorted({place.core for place in self.free.cpus.values() if place.uncore_cache == cache})[:wanted]
        cpus = sorted(self.free.in_cores(cores))
        if self.needed % 2 and per_core > 1 and len(cpus) > self.needed:
            cpus.pop()
        if len(cpus) == self.needed:
            self.take(frozenset(cpus))

    def take_single(self) -> None:
        """Take single CPUs until there are enough."""
        if self.needed > 0:
            self.take(frozenset(self._single()[: self.needed]))

    def _single(self) -> list[int]:
        groups, members = (_socket, self.free.in_sockets) if self._spread else (_core, self.free.in_cores)
        return [cpu for each in self.ordered(groups) for cpu in sorted(members([each]))]


def _is_in(level: Group, identifier: int) -> Callable[[Cpu], bool]:
    return lambda place: level(place) == identifier


def _members(cpus: Iterable[tuple[int, Cpu]], group: Group) -> dict[int, CpuSet]:
    found: dict[int, set[int]] = {}
    for cpu, place in cpus:
        found.setdefault(group(place), set()).add(cpu)
    return {identifier: frozenset(each) for identifier, each in found.items()}
