"""Which NUMA nodes a container's resources can come from (TopologyHint in pkg/kubelet/cm/topologymanager)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

NumaNodes = frozenset[int]


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """One possibility. `affinity`: the NUMA nodes; None for any. `preferred`: whether no narrower one could do."""

    affinity: NumaNodes | None = None
    preferred: bool = False


Hints = Mapping[str, Sequence[TopologyHint] | None]
"""Resource -> its possibilities; None where it has no preference, an empty sequence where nothing is possible."""


class Affinities(Protocol):
    """The affinities that were decided for containers whose resources are being allocated."""

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        """That of one container; a hint without NUMA nodes where none was decided."""


def masks(nodes: Iterable[int]) -> Iterator[NumaNodes]:
    """All sets of NUMA nodes, the smallest first, in the order of the nodes."""
    ordered = list(nodes)
    for size in range(1, len(ordered) + 1):
        for each in combinations(ordered, size):
            yield frozenset(each)


def mask_value(nodes: NumaNodes) -> int:
    """The set as a bit mask, which orders sets of one size: low nodes come first."""
    return sum(1 << node for node in nodes)


def is_narrower(one: NumaNodes, other: NumaNodes) -> bool:
    """Whether a set has fewer nodes, or as many and lower ones."""
    return (len(one), mask_value(one)) < (len(other), mask_value(other))


def prefer_narrowest(found: Iterable[NumaNodes], size: int) -> list[TopologyHint]:
    """Hints of which those of a size are preferred."""
    return [TopologyHint(each, len(each) == size) for each in found]
