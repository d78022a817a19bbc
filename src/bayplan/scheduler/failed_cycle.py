"""A scheduling cycle that found no node, as PostFilter plugins see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from bayplan.scheduler.framework.extension_points import EVERY_ROW, Moved
from bayplan.scheduler.framework.post_filter import PostFilterContext
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.framework.what_if import WhatIf
from bayplan.scheduler.queueing.nominator import NominatedReservations
from bayplan.scheduler.scoring.evaluation import Evaluation
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.scheduler.cycle import Cycle


class FailedCycle(PostFilterContext):
    """A cycle that found no node, as PostFilter plugins see it."""

    def __init__(self, cycle: Cycle, pod: PodInfo, evaluation: Evaluation, codes: Codes) -> None:
        self.cycle = cycle
        self.pod = pod
        self.evaluation = evaluation
        self.codes = codes
        self.rejected_early = evaluation.rejection is not None
        self.state = evaluation.state

    def what_if(self, row: int, removed: Sequence[PodInfo]) -> AbstractContextManager[WhatIf]:
        rivals = self.cycle.rivals(self.pod, row)
        aside = self.evaluation.what_if(row)
        if aside is None:
            return self._what_if_within(row, removed, rivals)
        for pod in removed:
            aside.take_away(pod)
        return nullcontext(_WhatIfAside(aside, rivals) if rivals else aside)

    @contextmanager
    def _what_if_within(self, row: int, removed: Sequence[PodInfo], rivals: list[PodInfo]) -> Iterator[WhatIf]:
        """A what-if evaluation on the snapshot itself."""
        snapshot = self.cycle.snapshot
        what_if = _WhatIfWithin(self.evaluation, row, rivals)
        try:
            with snapshot.what_if((), removed, row):
                try:
                    yield what_if
                finally:
                    for pod in what_if.back:
                        snapshot.count_what_if(pod, row, -1)
        finally:
            self.evaluation.look_again(row)

    def nominated_to(self, row: int) -> list[PodInfo]:
        pods = self.cycle.nominator.on(self.cycle.snapshot.name(row))
        return [pod for pod in pods if pod.key != self.pod.key]

    def pick(self, count: int) -> int:
        return self.cycle.choice.index(count)

    def is_cross_node(self) -> bool:
        return self.evaluation.has_cross_node_filters

    def nominated_since(self, position: int) -> tuple[Moved, int]:
        nominator = self.cycle.nominator
        if position == nominator.position:
            return [], position
        rows = NominatedReservations(nominator, self.cycle.snapshot, self.pod.priority).rows_since(position)
        return (EVERY_ROW if rows is None else rows), nominator.position

    def own_row(self) -> int | None:
        return self.cycle.snapshot.row_of.get(self.cycle.nominator.node_of(self.pod.key))

    def ranks(self) -> Ints:
        return self.cycle.order().rank_of


class _WhatIfAside(WhatIf):
    """A what-if evaluation aside of the snapshot, for a node that is promised to other pods."""

    def __init__(self, what_if: WhatIf, rivals: list[PodInfo]) -> None:
        self.what_if = what_if
        self.rivals = rivals

    def put_back(self, pod: PodInfo) -> None:
        self.what_if.put_back(pod)

    def take_away(self, pod: PodInfo) -> None:
        self.what_if.take_away(pod)

    def verdict(self) -> int:
        for pod in self.rivals:
            self.what_if.put_back(pod)
        code = self.what_if.verdict()
        for pod in self.rivals:
            self.what_if.take_away(pod)
        return code or self.what_if.verdict()


class _WhatIfWithin(WhatIf):
    """Works on the snapshot itself, within `what_if`."""

    def __init__(self, evaluation: Evaluation, row: int, rivals: list[PodInfo]) -> None:
        self.evaluation = evaluation
        self.row = row
        self.rivals = rivals
        self.back: list[PodInfo] = []

    def put_back(self, pod: PodInfo) -> None:
        self.evaluation.snapshot.count_what_if(pod, self.row, 1)
        self.back.append(pod)

    def take_away(self, pod: PodInfo) -> None:
        self.evaluation.snapshot.count_what_if(pod, self.row, -1)
        self.back.remove(pod)

    def verdict(self) -> int:
        if self.rivals:
            with self.evaluation.snapshot.what_if(self.rivals, (), self.row):
                code = self.evaluation.ask_now(self.row)
            if code:
                return code
        return self.evaluation.ask_now(self.row)
