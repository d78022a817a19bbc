"""What extenders say in the scheduling cycle: they are asked here, at the steps at which `Cycle` lets them have a say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.extenders.empty_nodes import score_empty_nodes
from bayplan.scheduler.extenders.protocol import (
    Answer,
    Call,
    Extender,
    ExtenderError,
    Filtered,
    Questions,
    filter_call,
    preempt_call,
    prioritize_call,
    read_filter,
    read_preempt,
    read_prioritize,
)
from bayplan.scheduler.failed_cycle import FailedCycle
from bayplan.scheduler.framework.post_filter import PostFilterOutcome
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.scoring.shared_answers import NO_NODE
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node


def decision_of(
    cycle: Cycle,
    extenders: Sequence[Extender],
    pod: PodInfo,
    *,
    full: bool = True,
    explain: bool = False,
    scored: bool = True,
    brief: bool = False,
) -> Questions[Decision]:
    """The decision about a pod with what those of the extenders say that have a say in it; see `Cycle.decide`.

    Where extenders have one, all scores are kept if `brief`: theirs make the choice as well.
    """
    interested = [item for item in extenders if item.is_interested(pod.shape.spec)]
    if not interested:
        return cycle.decide(pod, full=full, explain=explain, scored=scored, brief=brief)
    steps = ExtenderSteps(cycle, interested, pod)
    return (yield from cycle.decide_with(steps, pod, full=full, explain=explain, scored=scored or brief))


class ExtenderSteps:
    """The extenders that are interested in a pod; see `bayplan.scheduler.cycle.Extension`."""

    def __init__(self, cycle: Cycle, extenders: Sequence[Extender], pod: PodInfo) -> None:
        self._extenders = extenders
        self._pod = pod
        self._snapshot = cycle.snapshot
        self._reasons = cycle.profile.reasons
        self._cycle = cycle
        self._are_empty = False
        """Whether the feasible nodes came back whole from an extender, so that their pods do not count for scores."""

    def accepts(self, decision: Decision, row: int, size: int) -> Questions[bool]:
        """An extender that fails is no reason to give up: all nodes are looked at, as kube-scheduler does."""
        alone: Codes = np.full(size, NO_NODE, dtype=np.int32)
        alone[row] = 0
        try:
            yield from self._filter(decision, alone)
        except ExtenderError:
            return False
        return alone.item(row) == 0

    def filter(self, decision: Decision, codes: Codes) -> Questions[Codes]:
        """See Extension."""
        found = codes.copy()
        yield from self._filter(decision, found)
        return found

    def _nodes(self, decision: Decision, codes: Codes) -> dict[str, int]:
        """Name -> row of the nodes that are feasible so far."""
        return {decision.names[row]: int(row) for row in np.flatnonzero(codes == 0)}

    def _filter(self, decision: Decision, codes: Codes) -> Questions[None]:
        """Ask one extender after the other; each is asked about what the ones before let through."""
        told: dict[str, int] = {}
        for extender in self._extenders:
            rows = self._nodes(decision, codes)
            if not rows or not extender.filter_verb:
                continue
            call = filter_call(extender, self._pod.pod, self._objects(rows.values()))
            (answer,) = yield [call]
            try:
                found = read_filter(call, answer, frozenset(rows), self._snapshot.row_of)
            except ExtenderError:
                if extender.ignorable:
                    continue
                raise
            self._take_in(decision, found, told, rows, codes)
            self._are_empty |= found.is_whole

    def _take_in(
        self, decision: Decision, found: Filtered, told: dict[str, int], rows: Mapping[str, int], codes: Codes
    ) -> None:
        """What an extender says of nodes, `rows` being those that it was asked about, and the last word on each in `told`.

        Of nodes that plugins refused before, its word is told instead.
        """
        for name in sorted(found.failed.keys() | found.unresolvable.keys()):
            unresolvable = found.unresolvable.get(name)
            status = Status.UNSCHEDULABLE if unresolvable is None else Status.UNRESOLVABLE
            told[name] = self._reasons.code(status, "", found.failed[name] if unresolvable is None else unresolvable)
            row = self._snapshot.row_of.get(name)
            if name not in rows and row is not None:
                if codes.item(row) > 0:
                    decision.overruled += (self._reasons[codes.item(row)].plugin,)
                codes[row] = told[name]
        for name, row in rows.items():
            if name not in found.passed:
                decision.extender_refused = True
                codes[row] = told.get(name, self._reasons.code(Status.UNRESOLVABLE, ""))
        for name in found.passed - rows.keys():
            codes[self._snapshot.row_of[name]] = 0

    def _objects(self, rows: Iterable[int]) -> list[Node]:
        nodes = self._snapshot.nodes
        return [node for row in rows if (node := nodes[row]) is not None]

    def score(self, decision: Decision, total: Ints) -> Questions[None]:
        """See Extension."""
        feasible = np.flatnonzero(total >= 0)
        if self._are_empty:
            score_empty_nodes(
                self._cycle.profile, self._cycle.state_of(self._pod.shape), self._pod.shape, decision, total
            )
        nodes = self._objects(feasible.tolist())
        calls = [prioritize_call(item, self._pod.pod, nodes) for item in self._extenders if item.prioritize_verb]
        if calls:
            answers = yield calls
            for call, answer in zip(calls, answers, strict=True):
                self._add_scores(decision, call, answer, total)

    def _add_scores(self, decision: Decision, call: Call, answer: Answer, total: Ints) -> None:
        """Scores of an extender that fails are left out, as kube-scheduler does."""
        try:
            scores = read_prioritize(call, answer)
        except ExtenderError:
            return
        column: Ints = np.zeros_like(total)
        for name, score in scores.items():
            row = self._snapshot.row_of.get(name)
            if row is not None and total[row] >= 0:
                column[row] += score
        total += column
        decision.scores[call.extender.url_prefix] = column
        decision.weights = {**decision.weights, call.extender.url_prefix: call.extender.weight}

    @property
    def reads_scores(self) -> bool:
        """See Extension."""
        return True

    def preempt(self, context: FailedCycle, decision: Decision) -> Questions[None]:
        """See Extension."""
        outcome = decision.post_filter
        asked = [extender for extender in self._extenders if extender.preempt_verb]
        if outcome is None or outcome.choose is None or not asked:
            return
        candidates = {decision.names[item.row]: item for item in outcome.candidates}
        for extender in asked:
            if not candidates:
                break
            call = preempt_call(extender, self._pod.pod, candidates)
            (answer,) = yield [call]
            try:
                candidates = read_preempt(call, answer, self._snapshot.row_of, self._snapshot.pods_on)
            except ExtenderError as error:
                if extender.ignorable:
                    continue
                decision.post_filter = PostFilterOutcome(Status.ERROR, (f"preemption: {error}",))
                return
        if candidates:
            decision.post_filter = outcome.choose(context, list(candidates.values()))
        else:
            reason = "preemption: no candidate node for preemption"
            decision.post_filter = PostFilterOutcome(Status.UNSCHEDULABLE, (reason,))
