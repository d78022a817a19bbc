"""Scheduling one pod of a group on some of the nodes only, as if there were no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayplan.scheduler.cycle import Cycle, Extension
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.extenders.protocol import Extender, Questions
from bayplan.scheduler.extenders.steps import ExtenderSteps
from bayplan.scheduler.scoring.shared_answers import NO_NODE
from bayplan.scheduler.snapshot.labels import IntRows, Ints
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.scheduler.failed_cycle import FailedCycle
    from bayplan.scheduler.framework.verdicts import Codes


def decision_within(cycle: Cycle, extenders: Sequence[Extender], pod: PodInfo, rows: IntRows) -> Questions[Decision]:
    """The decision about a pod if only some rows were nodes, with what those of the extenders say that have a say in it."""
    interested = [item for item in extenders if item.is_interested(pod.shape.spec)]
    steps = WithinRows(rows, ExtenderSteps(cycle, interested, pod) if interested else None)
    decision = yield from cycle.decide_with(steps, pod, full=False)
    decision.node_count = len(rows)
    return decision


class WithinRows:
    """Leaves some rows to a cycle, and asks the extenders about these; see `bayplan.scheduler.cycle.Extension`."""

    def __init__(self, rows: IntRows, extenders: Extension | None) -> None:
        self._rows = rows
        self._extenders = extenders

    def accepts(self, decision: Decision, row: int, size: int) -> Questions[bool]:
        """See Extension."""
        if not (self._rows == row).any():
            return False
        return self._extenders is None or (yield from self._extenders.accepts(decision, row, size))

    def filter(self, decision: Decision, codes: Codes) -> Questions[Codes]:
        """See Extension."""
        found: Codes = np.full_like(codes, NO_NODE)
        found[self._rows] = codes[self._rows]
        return found if self._extenders is None else (yield from self._extenders.filter(decision, found))

    def score(self, decision: Decision, total: Ints) -> Questions[None]:
        """See Extension."""
        if self._extenders is not None:
            yield from self._extenders.score(decision, total)

    @property
    def reads_scores(self) -> bool:
        """See Extension."""
        return self._extenders is not None and self._extenders.reads_scores

    def preempt(self, context: FailedCycle, decision: Decision) -> Questions[None]:
        """See Extension."""
        if self._extenders is not None:
            yield from self._extenders.preempt(context, decision)
