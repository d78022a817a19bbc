"""The active part of the scheduling queue: which pod is next, by the keys of the profile's queue sort.

Most queue sorts give each pod a key when it comes, and the least key is next. A `GroupedQueueSortPlugin` also puts pods into groups, and ranks the groups
anew each time that a pod is taken: that is how fairness between tenants follows what they have now, without a new key for each waiting pod.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Protocol

from bayplan.scheduler.snapshot.pods import PodInfo

_Entry = tuple[tuple[float, ...], int, str]
"""(sort key, stamp, pod)"""


class Groups(Protocol):
    """How pods are grouped; see `GroupedQueueSortPlugin`."""

    def group_of(self, pod: PodInfo) -> Hashable:
        """The group of a pod."""

    def rank(self, group: Hashable) -> tuple[float, ...]:
        """Groups with lower ranks come first."""


class ActivePods:
    """Entries of pods, some of which may have gone stale: whoever takes one checks its stamp."""

    __slots__ = ("_groups", "_heaps")

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups
        self._heaps: dict[Hashable, list[_Entry]] = {}

    def __bool__(self) -> bool:
        return bool(self._heaps)

    def push(self, sort_key: tuple[float, ...], stamp: int, pod: PodInfo) -> None:
        """Add a pod. Of equal keys the lower stamp is first."""
        group = None if self._groups is None else self._groups.group_of(pod)
        heapq.heappush(self._heaps.setdefault(group, []), (sort_key, stamp, pod.key))

    def precedes(self, other: ActivePods) -> bool:
        """Whether the best group here ranks before the best one there; never without groups."""
        if self._groups is None or not self._heaps or not other._heaps:
            return False
        rank = self._groups.rank
        return min(map(rank, self._heaps)) < min(map(rank, other._heaps))

    def pop(self) -> tuple[int, str] | None:
        """Stamp and key of the next entry; None if there is none."""
        if not self._heaps:
            return None
        group: Hashable = None
        if self._groups is not None:
            rank = self._groups.rank
            group = min(self._heaps, key=lambda one: (rank(one), self._heaps[one][0]))
        heap = self._heaps[group]
        _, stamp, key = heapq.heappop(heap)
        if not heap:
            del self._heaps[group]
        return stamp, key
