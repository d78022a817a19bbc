"""The counts behind topology spread constraints, kept up to date row by row.

Worked example, two zones, maxSkew 1, the pod matches its own selector: counts [3, 2], least 2, so `over` is
[3 + 1 - 2 > 1, 2 + 1 - 2 > 1] = [True, False]. A pod comes to the second zone: counts [3, 3], the emptiest domain moved
to 3, `over` is [False, False], and the rows of the first zone are to be judged again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bayplan.api.selectors.labels import LabelSelector
from bayplan.scheduler.framework.extension_points import FEW_ROWS
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.labels import (
    Bools,
    ChangedRows,
    Counts,
    IntRows,
    Ints,
    LabelColumn,
    Rows,
    listed,
    part,
)
from bayplan.scheduler.snapshot.snapshot import WhatIfPods

HOSTNAME: Final = "kubernetes.io/hostname"
Fractions = NDArray[np.float64]

_FEW: Final = 4
"""Up to so many rows it costs least to look at them one by one."""
NO_DOMAIN_COUNT: Final = 2**31 - 1
"""The least count of no domains at all: so large that nothing is skewed."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint with its selector compiled. `honor_*`: nodes the pod could not run on do not count."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: LabelSelector
    honor_affinity: bool
    honor_taints: bool


class Domains:
    """One constraint and its counts, kept up to date row by row.

    `eligible`: rows that count. `counts`: matching pods on eligible rows per domain; the last entry is that of rows
    without the label. `seen`: the pods per row that `counts` holds. All of it follows from the shape and the structure
    of the cluster, except for pods, which `catch_up` takes in.
    """

    __slots__ = ("column", "constraint", "counter", "counts", "eligible", "ids", "seen", "self_match")

    def __init__(
        self,
        constraint: Constraint,
        column: LabelColumn,
        eligible: Bools,
        counter: PodCounter | WhatIfPods | None,
        self_match: int,
    ) -> None:
        self.constraint = constraint
        self.column = column
        self.ids: Any = column.ids[: len(eligible)]
        self.eligible = eligible
        self.counter = counter
        self.self_match = self_match
        self.seen: Counts = np.zeros(0, dtype=np.int32)
        self.counts: Counts = np.zeros(0, dtype=np.int32)
        self.count()

    def count(self) -> None:
        """Count all pods anew."""
        size, length = len(self.eligible), len(self.column.values) + 1
        self.counts = np.zeros(length, dtype=np.int32)
        if self.counter is None:
            self.seen = np.zeros(size, dtype=np.int32)
            return
        self.seen = self.counter.per_row[:size].copy()
        rows = (self.seen.astype(np.bool_) & self.eligible).nonzero()[0]
        np.add.at(self.counts, self.ids.take(rows), self.seen.take(rows))

    def changed(self, rows: ChangedRows) -> list[int]:
        """Those of some rows on which the number of pods changed since they were taken in."""
        if self.counter is None:
            return []
        if len(rows) <= _FEW:
            return listed(rows)
        index = np.asarray(rows, dtype=np.intp)
        found: list[int] = index[self.counter.per_row.take(index) != self.seen.take(index)].tolist()
        return found

    def catch_up(self, row: int) -> int:
        """Take in the pods on a row; returns how many came."""
        if self.counter is None:
            return 0
        delta = self.counter.per_row.item(row) - self.seen.item(row)
        if delta:
            self.seen[row] += delta
            if self.eligible.item(row):
                self.counts[self.ids[row]] += delta
        return delta


class Skews:
    """The verdicts of one DoNotSchedule constraint. `over[domain]`: one more pod there would be too many.

    `present`: the domains of eligible rows. `least`: the pods in the emptiest of them, which `at_least` of them have.
    The last entry of `over`, for rows without the label, says nothing: these are refused anyway.
    """

    __slots__ = ("at_least", "domains", "least", "over", "present")

    def __init__(self, domains: Domains) -> None:
        self.domains = domains
        length = len(domains.counts)
        there = np.zeros(length, dtype=np.bool_)
        there[domains.ids[domains.eligible]] = True
        self.present: IntRows = np.flatnonzero(there)
        self._find_least()
        self.over: Bools = self._judged()

    def look(self) -> None:
        """Work everything out from the counts."""
        self.domains.count()
        self._find_least()
        self.over = self._judged()

    def _find_least(self) -> None:
        counts = self.domains.counts[self.present]
        self.at_least = 0
        if len(self.present) < self.domains.constraint.min_domains:
            self.least = 0
        elif not len(self.present):
            self.least = NO_DOMAIN_COUNT
        else:
            self.least = int(counts.min())
            self.at_least = int(np.count_nonzero(counts == self.least))

    def _judged(self) -> Bools:
        domains = self.domains
        return domains.counts + (domains.self_match - self.least) > domains.constraint.max_skew

    def catch_up(self, rows: ChangedRows) -> list[IntRows]:
        """Take in the pods on some rows; returns the rows of the domains that are judged differently now."""
        domains = self.domains
        moved: list[IntRows] = []
        for row in domains.changed(rows):
            delta = domains.catch_up(row)
            if not delta or not domains.eligible.item(row):
                continue
            domain = domains.ids.item(row)
            count = domains.counts.item(domain)
            if self.at_least and (count < self.least or count - delta == self.least):
                self.at_least -= 1
                if count < self.least or not self.at_least:
                    moved += self._move_least()
            elif self.at_least and count == self.least:
                self.at_least += 1
            over = count + domains.self_match - self.least > domains.constraint.max_skew
            if over != self.over.item(domain):
                self.over[domain] = over
                moved.append(domains.column.rows_of(domain))
        return moved

    def _move_least(self) -> list[IntRows]:
        before = self.least
        self._find_least()
        if self.least == before:
            return []
        over = self._judged()
        flipped = np.flatnonzero(over[:-1] != self.over[:-1])
        self.over = over
        if len(flipped) > FEW_ROWS:
            return [flipped]
        return [self.domains.column.rows_of(domain) for domain in flipped.tolist()]


class Cost:
    """What one ScheduleAnyway constraint adds to the score of a row; zero without the label.

    `weight` follows from how many domains the feasible nodes make up: `feasible[domain]` of them are in each. Of host
    names there are as many as feasible nodes; these are not counted one by one, and pods are counted per row.
    """

    __slots__ = ("domains", "feasible", "is_hostname", "spread", "table", "weight")

    def __init__(self, domains: Domains, chosen: Bools) -> None:
        self.domains = domains
        self.is_hostname = domains.constraint.topology_key == HOSTNAME
        self.feasible: Ints | None = None
        if self.is_hostname:
            self.spread = int(np.count_nonzero(chosen))
        else:
            self.feasible = self._count(chosen)
            self.spread = int(np.count_nonzero(self.feasible))
        self.weight = math.log(self.spread + 2)
        counts = domains.seen if self.is_hostname else domains.counts
        self.table: Fractions = self._of(counts.astype(np.float64))
        """The cost per row for host names, per domain otherwise, with an entry more for rows without the label."""
        if not self.is_hostname:
            self.table[-1] = 0.0
        elif (missing := domains.ids < 0).any():
            self.table[missing] = 0.0

    def _count(self, chosen: Bools) -> Ints:
        """How many of the chosen rows each domain has; the last entry is that of rows without the label."""
        ids, length = self.domains.ids, len(self.domains.counts)
        if chosen.all():
            counts = self.domains.column.rows_per_value()
            return np.append(counts, len(chosen) - counts.sum())
        places = ids[chosen]
        return np.bincount(np.where(places < 0, length - 1, places), minlength=length)

    def _of(self, counts: Any) -> Any:
        return counts * self.weight + float(self.domains.constraint.max_skew - 1)

    def of(self, rows: Rows) -> Fractions:
        """The cost of some rows."""
        return self.table[rows] if self.is_hostname else self.table.take(part(self.domains.ids, rows))

    def of_row(self, row: int) -> float:
        """The cost of one row."""
        return self.table.item(row if self.is_hostname else self.domains.ids.item(row))

    def empty(self, rows: Rows) -> Fractions:
        """The cost of nodes if no pods were counted on them."""
        costs: Fractions = np.where(self.domains.ids[rows] >= 0, self._of(0.0), 0.0)
        return costs

    def choose(self, row: int, is_chosen: bool) -> bool:
        """A row became feasible, or is so no more; tells whether the weight changes with that."""
        delta = 1 if is_chosen else -1
        if self.feasible is None:
            self.spread += delta
            return True
        domain = self.domains.ids[row]
        self.feasible[domain] += delta
        if self.feasible[domain] == (1 if is_chosen else 0):
            self.spread += delta
            return True
        return False

    def catch_up(self, row: int) -> IntRows | None:
        """Take in the pods on a row; returns the rows whose cost changed, None if there are none."""
        domains = self.domains
        domain = domains.ids.item(row)
        if not domains.catch_up(row) or domain < 0:
            return None
        if self.is_hostname:
            self.table[row] = self._of(float(domains.seen.item(row)))
            return np.array([row], dtype=np.intp)
        self.table[domain] = self._of(float(domains.counts.item(domain)))
        return domains.column.rows_of(domain)
