"""Which sets of nodes are tried for a pod group, in which order, and which of those that hold it is taken.

kube-scheduler 1.36 tries every set and ranks those that hold the group (`podGroupSchedulingPlacementAlgorithm`). Here
each set is ranked first by what it can hold at most. Sets are tried from the best rank on, until one holds what its rank
promised: no other can be better then. A set that cannot hold the group is not tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.framework.placements import Placements, Proposal
from bayplan.scheduler.framework.state import PodShape
from bayplan.scheduler.framework.verdicts import Reject
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.labels import IntRows, Ints

if TYPE_CHECKING:
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup

_TRIED = -1
"""The rank of sets that were tried, or never come into question."""


@dataclass(frozen=True, slots=True)
class Assignments:
    """What a set of nodes was found to hold: the shapes of the pods that were placed."""

    number: int
    placed: Sequence[PodShape]


class PlacementSearch:
    """The search for one group. `begin` a level, then try `next` and report by `take`, until one of them ends it."""

    def __init__(self, cycle: Cycle, gang: Sequence[QueuedPod], min_count: int, placed: int | None = None) -> None:
        """`placed`: pods that are on nodes already and count; those of the first pod's group if nothing is given."""
        self.gang = gang
        self._cycle = cycle
        self._snapshot = cycle.snapshot
        self._key = group_key(gang[0].pod.pod)
        self._already = self._snapshot.gangs.count_placed(self._key) if placed is None else placed
        """Pods that were on nodes before the search."""
        self._needed = max(min_count - self._already, 1)
        self._shapes = Counter(queued.pod.shape for queued in gang)
        self._level: Placements | None = None
        self._ranks: Ints = np.zeros(0, dtype=np.int64)
        self._bounds: Sequence[tuple[PodShape, Ints]] = ()
        self._counts: Ints = self._ranks
        self._assignments: list[Assignments] = []

    def levels(self) -> tuple[Placements, ...] | Reject | None:
        """The sets of nodes that may hold the group, by preference; None if nothing constrains it. Raises PluginError."""
        generators = self._cycle.profile.placement_generate
        group: PodGroup | None = self._snapshot.catalog.pod_groups.get(self._key)
        if not generators or group is None:
            return None
        pods = self._snapshot.pods
        placed = [pods[key] for key in self._snapshot.gangs.members(self._key) if key in pods]
        return generators[0].generate_placements(group, placed)

    def begin(self, level: Placements) -> None:
        """Rank the sets of a level. Raises PluginError."""
        self._level, self._assignments = level, []
        capacity = self._cycle.placement_capacity
        self._bounds = [(shape, np.minimum(capacity.of(shape, level), count)) for shape, count in self._shapes.items()]
        counts: Ints = np.zeros(len(level.names), dtype=np.int64)
        for _, bound in self._bounds:
            counts += bound
        self._counts = counts
        self._ranks = np.full(len(counts), _TRIED, dtype=np.int64)
        candidates = np.flatnonzero(counts >= self._needed)
        if len(candidates):
            pods = [(shape, bound[candidates]) for shape, bound in self._bounds]
            self._ranks[candidates] = self._totals(Proposal(level, candidates, pods))

    def next(self) -> int | None:
        """The set to try now; None if none is left."""
        assert self._level is not None
        best = int(self._ranks.max(initial=_TRIED))
        if best == _TRIED:
            return None
        tied = np.flatnonzero(self._ranks == best)
        number = int(tied[0])
        if len(tied) > 1:
            place = self._cycle.choice.index(len(tied))
            number = int(tied[np.argpartition(self._level.ranks[tied], place)[place]])
        self._ranks[number] = _TRIED
        return number

    def take(self, assignments: Assignments) -> bool:
        """Take in what a set holds; True if none of those that are left can be better than all so far."""
        if len(assignments.placed) < self._needed:
            return False
        self._assignments.append(assignments)
        return len(assignments.placed) == int(self._counts.max())

    def best(self) -> int | None:
        """The best of the sets that hold the group; None if none does."""
        assert self._level is not None
        if len(self._assignments) < 2:
            return self._assignments[0].number if self._assignments else None
        numbers = np.array([assignments.number for assignments in self._assignments], dtype=np.intp)
        found = [Counter(assignments.placed) for assignments in self._assignments]
        pods = [(shape, np.array([counts[shape] for counts in found], dtype=np.int64)) for shape in self._shapes]
        totals = self._totals(Proposal(self._level, numbers, pods))
        return int(numbers[int(totals.argmax())])

    def _totals(self, proposal: Proposal) -> Ints:
        """The weighted scores of all plugins per set of a proposal."""
        profile = self._cycle.profile
        totals: Ints = np.zeros(len(proposal.numbers), dtype=np.int64)
        for plugin in profile.placement_score:
            scores = plugin.normalize_placements(plugin.score_placements(self._already, proposal))
            totals += scores * profile.placement_weights[plugin.name]
        return totals

    # Failure

    @property
    def most_promising(self) -> IntRows:
        """The rows of the set with the most room, for reasons why not even that one holds the group."""
        assert self._level is not None
        return self._level.rows_of(self._roomiest())

    def _roomiest(self) -> int:
        assert self._level is not None
        numbers = self._level.numbers
        return int(numbers[int(self._counts[numbers].argmax())])

    def explanation(self) -> str:
        """Why no set of the last level holds the group: kube-scheduler's words, then what the best set lacks."""
        assert self._level is not None
        level, roomiest = self._level, self._roomiest()
        text = f"0/{len(level.numbers)} placements are available, first placement status: pod group is unschedulable"
        room = int(self._counts[roomiest])
        if room < self._needed:
            where = f"{level.label} {level.names[roomiest]}" if level.label else level.names[roomiest]
            text += f"; {where} has the most room, for {room} of the {self._needed} pods that are needed"
        return text
