"""Spreads CPUs evenly over as few NUMA nodes as can hold them (KEP-2902). Pure.

For 1, 2, 3, ... NUMA nodes, every combination is tried that can give equal shares; what does not divide is given to some of its nodes. The combination is
taken that leaves the free CPUs of all nodes most equal. If no combination can give equal shares, CPUs are packed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, sqrt

from bayplan.kubelet.resource_managers.cpus.cpu_assignment import CpuTaker, numa_group, take_packed
from bayplan.kubelet.resource_managers.cpus.cpu_set import CpuSet
from bayplan.kubelet.resource_managers.machine_topology import CpuTopology


@dataclass(frozen=True, slots=True)
class _Split:
    """Equal shares from `nodes`, and the rest from `rest`; `balance` is the deviation of what stays free."""

    nodes: tuple[int, ...]
    rest: tuple[int, ...]
    balance: float


def take_distributed(
    topology: CpuTopology, available: CpuSet, number: int, group_size: int, *, spread: bool = False
) -> CpuSet:
    """So many CPUs, evenly from NUMA nodes. group_size: how many CPUs stay together. Raises AllocationError."""
    if number % group_size:
        return take_packed(topology, available, number, spread=spread)
    taker = CpuTaker(topology, available, number, spread=spread)
    if number <= 0:
        return taker.taken
    taker.check()
    nodes = taker.ordered(numa_group)
    free = {node: len(taker.free.in_numa_nodes([node])) for node in nodes}
    low, high = _sizes(topology, len(taker.free.numa_nodes), number, group_size)
    for size in range(low, high + 1):
        split = _best_split(nodes, free, size, number, group_size)
        if split is not None:
            _take(taker, split, number, group_size, spread)
            return taker.taken
    return take_packed(topology, available, number, spread=spread)


def _sizes(topology: CpuTopology, available_nodes: int, number: int, group_size: int) -> tuple[int, int]:
    """(fewest, most) NUMA nodes that can be needed, by whole groups."""
    groups = -(-len(topology.cpus) // group_size)
    per_node = -(-groups // len(topology.numa_nodes))
    needed = -(-number // group_size)
    return -(-needed // per_node), min(needed, available_nodes)


def _best_split(
    nodes: Sequence[int], free: Mapping[int, int], size: int, number: int, group_size: int
) -> _Split | None:
    best: _Split | None = None
    for chosen in combinations(nodes, size):
        found = _split(chosen, free, number, group_size)
        if found is not None and (best is None or found.balance < best.balance):
            best = found
        if best is not None and best.balance == 0:
            break
    return best


def _split(chosen: tuple[int, ...], free: Mapping[int, int], number: int, group_size: int) -> _Split | None:
    """How the chosen nodes would give their shares; None if they cannot."""
    share = _share(number, len(chosen), group_size)
    groups = sum(free[node] // group_size for node in chosen)
    if groups * group_size < number or any(free[node] < share for node in chosen):
        return None
    left = {node: amount - share if node in chosen else amount for node, amount in free.items()}
    rest = number - share * len(chosen)
    if not rest:
        return _Split(chosen, (), _deviation(left))
    best: _Split | None = None
    able = [node for node in chosen if left[node] >= group_size]
    for size in range(len(able), 0, -1):
        for some in combinations(able, size):
            if sum(left[node] for node in some) < rest:
                continue
            balance = _deviation(_without_rest(left, some, rest, group_size))
            if best is None or balance < best.balance:
                best = _Split(chosen, some, balance)
    return best


def _share(number: int, nodes: int, group_size: int) -> int:
    return number // nodes // group_size * group_size


def _without_rest(left: Mapping[int, int], some: Sequence[int], rest: int, group_size: int) -> dict[int, int]:
    """What stays free when the rest is taken from some nodes in turn."""
    after = dict(left)
    while rest > 0:
        for node in some:
            if rest > 0 and after[node] >= group_size:
                after[node] -= group_size
                rest -= group_size
    return after


def _deviation(free: Mapping[int, int]) -> float:
    """The standard deviation to a thousandth, so that equal balances are equal numbers."""
    if not free:
        return inf
    mean = round(sum(free.values()) / len(free), 3)
    return round(sqrt(sum((each - mean) ** 2 for each in free.values()) / len(free)), 3)


def _take(taker: CpuTaker, split: _Split, number: int, group_size: int, spread: bool) -> None:
    share = _share(number, len(split.nodes), group_size)
    for node in split.nodes:
        _take_from(taker, node, share, spread)
    rest = number - share * len(split.nodes)
    while rest > 0:
        for node in split.rest:
            if rest > 0 and len(taker.free.in_numa_nodes([node])) >= group_size:
                _take_from(taker, node, group_size, spread)
                rest -= group_size


def _take_from(taker: CpuTaker, node: int, number: int, spread: bool) -> None:
    taker.take(take_packed(taker.topology, taker.free.in_numa_nodes([node]), number, spread=spread))
