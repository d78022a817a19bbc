"""Merges the hints of all resources of a container into one, and says whether that is good enough. Pure.

Of every combination of one hint per resource, the nodes that all of them share are a candidate. Preferred candidates win over others; among equals the
narrowest one, or the one whose nodes are closest to each other. Of candidates that nobody prefers, the best is as wide as the resource that needs most nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from bayplan.kubelet.resource_managers.machine_topology import NumaNode
from bayplan.kubelet.resource_managers.topology_hints import (
    Hints,
    NumaNodes,
    TopologyHint,
    is_narrower,
    mask_value,
)
from bayplan.kubelet.resource_managers.topology_options import TopologyOptions

BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE, NO_POLICY = "best-effort", "restricted", "single-numa-node", "none"
_ANY, _IMPOSSIBLE = TopologyHint(None, True), TopologyHint(None, False)


@dataclass(frozen=True, slots=True)
class NumaInfo:
    """The machine's NUMA nodes, and node -> its distances to all of them in their order."""

    nodes: tuple[int, ...]
    distances: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, nodes: Iterable[NumaNode]) -> NumaInfo:
        """Of a machine's nodes."""
        found = tuple(nodes)
        return cls(tuple(each.id for each in found), {each.id: each.distances for each in found})

    def all(self) -> NumaNodes:
        """All nodes."""
        return frozenset(self.nodes)

    def closest(self, one: NumaNodes, other: NumaNodes) -> NumaNodes:
        """The narrower of two sets; of sets of one size that whose nodes are closer to each other."""
        if len(one) != len(other):
            return narrowest(one, other)
        distances = self.average_distance(one), self.average_distance(other)
        if distances[0] == distances[1]:
            return one if mask_value(one) < mask_value(other) else other
        return one if distances[0] < distances[1] else other

    def average_distance(self, nodes: NumaNodes) -> float:
        """The mean distance between nodes of a set, each to itself included; 0 for none."""
        places = {node: place for place, node in enumerate(self.nodes)}
        found = [self.distances[one][places[other]] for one in nodes for other in nodes]
        return sum(found) / len(found) if found else 0.0


def narrowest(one: NumaNodes, other: NumaNodes) -> NumaNodes:
    """The set with fewer nodes, or lower ones."""
    return one if is_narrower(one, other) else other


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """One of the policies by name; `none` merges nothing."""

    name: str
    numa: NumaInfo
    options: TopologyOptions = TopologyOptions()  # noqa: RUF009 - frozen

    def merge(self, providers: Sequence[Hints]) -> tuple[TopologyHint, bool]:
        """(the best hint for all resources, whether a container may be admitted with it)."""
        if self.name == NO_POLICY:
            return TopologyHint(), True
        hints = filtered(providers)
        if self.name == SINGLE_NUMA_NODE:
            hints = [[each for each in one if _is_single(each)] for one in hints]
        best = self._best(hints)
        if self.name == SINGLE_NUMA_NODE and best.affinity == self.numa.all():
            best = TopologyHint(None, best.preferred)
        return best, best.preferred or self.name == BEST_EFFORT

    def _best(self, hints: Sequence[Sequence[TopologyHint]]) -> TopologyHint:
        everywhere, width = self.numa.all(), _width(hints)
        best: TopologyHint | None = None
        for combination in product(*hints):
            best = better(best, merged(everywhere, combination), width, self._fitter())
        return best or TopologyHint(everywhere, False)

    def _fitter(self) -> Callable[[NumaNodes, NumaNodes], NumaNodes]:
        by_distance = self.options.prefer_closest and self.name != SINGLE_NUMA_NODE
        return self.numa.closest if by_distance else narrowest


def filtered(providers: Sequence[Hints]) -> list[Sequence[TopologyHint]]:
    """The possibilities of every resource. A provider, or a resource, without a preference can do with any node."""
    found: list[Sequence[TopologyHint]] = []
    for hints in providers:
        if not hints:
            found.append((_ANY,))
        found += [(_ANY,) if each is None else each or (_IMPOSSIBLE,) for each in hints.values()]
    return found


def _is_single(hint: TopologyHint) -> bool:
    return hint.preferred and (hint.affinity is None or len(hint.affinity) == 1)


def _width(hints: Sequence[Sequence[TopologyHint]]) -> int:
    """How many nodes the resource needs that needs most."""
    sizes = ([len(each.affinity) for each in one if each.affinity is not None] for one in hints)
    return max((min(each) for each in sizes if each), default=0)


def merged(everywhere: NumaNodes, hints: Sequence[TopologyHint]) -> TopologyHint:
    """What hints have in common: preferred if all are, and name the same nodes."""
    affinities = [each.affinity for each in hints if each.affinity is not None]
    common = everywhere.intersection(*affinities)
    return TopologyHint(common, all(each.preferred for each in hints) and len(set(affinities)) <= 1)


def better(
    best: TopologyHint | None, candidate: TopologyHint, width: int, fitter: Callable[[NumaNodes, NumaNodes], NumaNodes]
) -> TopologyHint | None:
    """The better of two hints with nodes; an empty candidate is none. width: the size that hints should have which nobody prefers."""
    if not candidate.affinity:
        return best
    if best is None or best.affinity is None:
        return candidate
    if best.preferred != candidate.preferred:
        return best if best.preferred else candidate
    has, offers = len(best.affinity), len(candidate.affinity)
    if not best.preferred and has <= width and has != offers:
        # Both are compared by how near their size comes to the width from below.
        return candidate if has < offers <= width else best
    if best.affinity == candidate.affinity or fitter(best.affinity, candidate.affinity) == best.affinity:
        return best
    return candidate
