"""Placements: sets of nodes of which one is to hold a whole pod group, and the plugins that make and rank them.

A placement is tried by placing the group's pods one after the other on its nodes alone. Trying costs as much as
scheduling the pods, so sets are columns here: a generator says which set each row belongs to, a scorer ranks many sets
at once from counts of pods, and only sets that can be the best are tried.

Worked example: racks r1 (rows 0, 1) and r2 (row 2), row 3 without the label: `names == ["r1", "r2"]`,
`domain_of == [0, 0, 1, -1]`.

Follows `PlacementGenerate` and `PlacementScore` of kube-scheduler 1.36 (KEP-5732).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayplan.scheduler.framework.extension_points import Plugin
from bayplan.scheduler.framework.state import PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Reject
from bayplan.scheduler.snapshot.labels import Ids, IntRows, Ints, Rows
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup


@dataclass(frozen=True)
class Placements:
    """Sets of nodes that have no node in common.

    `names` is per set; `domain_of` gives the number of the set of each row, -1 for none. Numbers without rows may be
    left over. `label` says what the sets are, for messages. Valid while the structure of the snapshot stays the same.
    """

    label: str
    names: Sequence[str]
    domain_of: Ids

    @cached_property
    def ranks(self) -> Ints:
        """The place of each set in the order of names."""
        ranks: Ints = np.empty(len(self.names), dtype=np.int64)
        ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        return ranks

    @cached_property
    def numbers(self) -> Ints:
        """The numbers of the sets that have nodes."""
        counts = np.bincount(self.domain_of + 1, minlength=len(self.names) + 1)[1:]
        return counts.nonzero()[0]

    def within(self, rows: IntRows) -> Placements:
        """The same sets with no other nodes than some."""
        domain_of: Ids = np.full_like(self.domain_of, -1)
        domain_of[rows] = self.domain_of[rows]
        return Placements(self.label, self.names, domain_of)

    def rows_of(self, number: int) -> IntRows:
        """The rows of a set."""
        return np.flatnonzero(self.domain_of == number)


@dataclass(frozen=True, slots=True)
class Proposal:
    """How many pods of each shape would be placed in each of some sets."""

    placements: Placements
    numbers: IntRows
    """The sets in question."""
    pods: Sequence[tuple[PodShape, Ints]]
    """A shape, and how many such pods per entry of `numbers`."""

    def counts(self) -> Ints:
        """The pods of all shapes per entry of `numbers`."""
        total: Ints = np.zeros(len(self.numbers), dtype=np.int64)
        for _, counts in self.pods:
            total += counts
        return total


class PlacementGeneratePlugin(Plugin, ABC):
    """Says which sets of nodes may hold a group."""

    @abstractmethod
    def generate_placements(self, group: PodGroup, placed: Sequence[PodInfo]) -> tuple[Placements, ...] | Reject | None:
        """Candidates in order of preference: later ones are looked at if none of the earlier holds the group.

        `placed` are pods of the group that are on nodes already. None if the group may be anywhere. Raises PluginError.
        """


class PlacementScorePlugin(Plugin, ABC):
    """Ranks sets of nodes that can hold a group."""

    @abstractmethod
    def score_placements(self, placed: int, proposal: Proposal) -> Ints:
        """A score per set of the proposal, int64. `placed`: pods of the group that are on nodes already.

        It must not fall as pods are added. Without `normalize_placements` it is within 0..100.
        """

    def normalize_placements(self, scores: Ints) -> Ints:
        """Scores of all sets in question brought to 0..100."""
        return scores


class DomainSums:
    """The sum of a figure over the rows of each set, kept up to date row by row.

    `of_rows` gives the figure of some rows, int64; it follows from the pods on a row and the structure.
    """

    def __init__(self, snapshot: Snapshot, of_rows: Callable[[Rows], Ints]) -> None:
        self._snapshot = snapshot
        self._of_rows = of_rows
        self._placements: Placements | None = None
        self._structure = self._position = -1
        self._values: Ints = np.zeros(0, dtype=np.int64)
        self._sums: Ints = self._values

    def of(self, placements: Placements) -> Ints:
        """The sums per set; shared, not to be changed."""
        snapshot = self._snapshot
        changed = None
        if self._placements is placements and self._structure == snapshot.structure:
            changed = snapshot.changed_rows(self._position)
        self._position = snapshot.position
        if changed is None:
            self._start(placements)
        elif len(changed):
            rows = np.asarray(changed, dtype=np.intp)
            values = self._of_rows(rows)
            domains = placements.domain_of[rows]
            np.add.at(self._sums, domains, values - self._values[rows])
            self._values[rows] = values
        return self._sums[:-1]

    def _start(self, placements: Placements) -> None:
        self._placements, self._structure = placements, self._snapshot.structure
        self._values = self._of_rows(self._snapshot.all_rows)
        # The last entry takes the rows of no set, whose number is -1.
        self._sums = np.zeros(len(placements.names) + 1, dtype=np.int64)
        np.add.at(self._sums, placements.domain_of[: self._snapshot.size], self._values)
