"""Interference: keeps noisy pods and sensitive ones apart, and sensitive ones off loaded nodes.

    bayplan.dev/interference-class: batch    label of a pod: its class, one of the arguments
    bayplan.dev/measured-load: "70"          label of a node: how loaded it is, in percent, as something outside has measured

Two pods on one node disturb each other by the noise of each times the sensitivity of the other. A node is the better, the less a pod would disturb and be
disturbed there. The load is a label because labels are what the scheduler watches of nodes; rounded to tens, it changes seldom.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayplan.scheduler.framework.extension_points import PreScorePlugin, ScaledScorePlugin, Scope, default_scale
from bayplan.scheduler.framework.extra_arguments import InterferenceArgs, InterferenceClass
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Skip
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.labels import Ints, Rows

CLASS = "bayplan.dev/interference-class"
LOAD = "bayplan.dev/measured-load"


class Interference(PreScorePlugin, ScaledScorePlugin):
    """See the module. Raw scores are what a pod would disturb and be disturbed, in units of noise times sensitivity."""

    name = "Interference"
    score_scope = Scope.ROW

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, InterferenceArgs) else InterferenceArgs()
        self._classes = {one.name: one for one in self.args.classes}
        self._counters: dict[str, PodCounter] = {}

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        own = self._classes.get(pod.labels.get(CLASS, ""))
        if own is None or not (own.noise or own.sensitivity):
            return SKIP
        state.score_data[self.name] = own
        return None

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        own: InterferenceClass = state.score_data[self.name]
        total = self._load(rows) * (own.sensitivity * self.args.load_weight // 100)
        for other in self.args.classes:
            each = own.noise * other.sensitivity + other.noise * own.sensitivity
            if each:
                total = total + self._counter(other.name).per_row[self._index(rows)] * each
        return total

    def _index(self, rows: Rows) -> Rows:
        return self.snapshot.all_rows if isinstance(rows, slice) else rows

    def _load(self, rows: Rows) -> Ints:
        if not self.args.load_weight:
            return np.zeros(self.snapshot.select(rows), dtype=np.int64)
        return self.snapshot.label_column(LOAD).gather(_percent, self._index(rows))

    def _counter(self, name: str) -> PodCounter:
        """How many pods of a class are on each node."""
        counter = self._counters.get(name)
        if counter is None:

            def matches(namespace: str, labels: Mapping[str, str]) -> bool:
                return labels.get(CLASS) == name

            counts, key = self.snapshot.counts, ("interference", name)
            counter = self._counters[name] = counts.counter(key, matches, live_only=False, anchor=(CLASS, name))
        return counter

    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        return default_scale(scores, highest, reverse=True)


def _percent(value: str | None) -> int:
    """What a label says of the load; what is no number of percent says nothing."""
    return min(int(value), 100) if value is not None and value.isascii() and value.isdigit() else 0
