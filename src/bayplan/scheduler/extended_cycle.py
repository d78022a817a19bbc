"""The scheduling cycle of pods that extenders have a say in.

The same steps as `Cycle.decide`, with questions to extenders in between. It is a generator: it yields the calls that
can be made at the same time and is sent their answers, so that nothing here waits. The snapshot must stay as it is
until the generator is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import NOMINATED_NODE, ONLY_FEASIBLE_NODE, Decision
from bayplan.scheduler.evaluation import Evaluation
from bayplan.scheduler.extenders import (
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
from bayplan.scheduler.framework.verdicts import Codes, PluginError, Status
from bayplan.scheduler.ranking import Ranking
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node

Steps = Questions[None]


def decision_of(
    cycle: Cycle, extenders: Sequence[Extender], pod: PodInfo, *, full: bool = True, explain: bool = False
) -> Questions[Decision]:
    """The decision about a pod with what those of the extenders say that have a say in it; see `Cycle.decide`."""
    interested = [item for item in extenders if item.is_interested(pod.shape.spec)]
    if not interested:
        return cycle.decide(pod, full=full, explain=explain)
    return (yield from ExtendedCycle(cycle, interested, pod).decide())


class ExtendedCycle:
    """One attempt to schedule a pod, with the extenders that are interested in it."""

    def __init__(self, cycle: Cycle, extenders: Sequence[Extender], pod: PodInfo) -> None:
        self.cycle = cycle
        self.extenders = extenders
        self.pod = pod
        self.snapshot = cycle.snapshot
        self.reasons = cycle.profile.reasons
        self.decision = Decision(pod.key, cycle.profile.name, self.reasons)

    def decide(self) -> Questions[Decision]:
        """The steps of the attempt; returns the decision."""
        decision = self.cycle.opened(self.pod)
        self.decision = decision
        if decision.gate is None and not decision.skipped:
            try:
                yield from self._attempt()
            except PluginError as error:
                decision.row = -1
                decision.error = str(error)
                decision.error_plugin = error.plugin
            except ExtenderError as error:
                decision.row = -1
                decision.error = str(error)
        return decision

    def _attempt(self) -> Steps:
        decision, pod = self.decision, self.pod
        if self.snapshot.node_count == 0:
            return
        evaluation, judged = self.cycle.judged(pod)
        evaluation.share()
        decision.narrowed, decision.narrowed_by = evaluation.narrowed, evaluation.narrowed_by
        if evaluation.rejection is not None:
            decision.rejection = evaluation.rejection
            yield from self._post_filter(evaluation, evaluation.codes)
            return
        row, judged = self.cycle.nominated_row(pod, evaluation, judged)
        codes = judged.copy()
        if row is not None:
            alone: Codes = np.full_like(codes, -1)
            alone[row] = 0
            yield from self._filter(alone)
            if alone[row] == 0:
                decision.row, decision.decided_by, decision.codes = row, NOMINATED_NODE, codes
                return
        failures = self.cycle.profile.reasons.failures_in(codes)
        if failures:
            decision.codes = codes
            decision.fail(failures)
            return
        yield from self._filter(codes)
        decision.codes = codes
        feasible = np.flatnonzero(codes == 0)
        if len(feasible) == 0:
            yield from self._post_filter(evaluation, codes)
        elif len(feasible) == 1:
            decision.row, decision.decided_by = int(feasible[0]), ONLY_FEASIBLE_NODE
        else:
            yield from self._score(evaluation, codes, feasible)

    def _nodes(self, codes: Codes) -> dict[str, int]:
        """Name -> row of the nodes that are feasible so far."""
        return {self.decision.names[row]: int(row) for row in np.flatnonzero(codes == 0)}

    def _filter(self, codes: Codes) -> Steps:
        """Ask one extender after the other; each is asked about what the ones before let through."""
        told: dict[str, int] = {}
        for extender in self.extenders:
            rows = self._nodes(codes)
            if not rows or not extender.filter_verb:
                continue
            call = filter_call(extender, self.pod.pod, self._objects(rows.values()))
            (answer,) = yield [call]
            try:
                found = read_filter(call, answer, frozenset(rows))
            except ExtenderError:
                if extender.ignorable:
                    continue
                raise
            self._take_in(found, told, rows, codes)

    def _take_in(self, found: Filtered, told: dict[str, int], rows: Mapping[str, int], codes: Codes) -> None:
        """What an extender says of nodes, `rows` being those that it was asked about, and the last word on each in `told`.

        Of nodes that plugins refused before, its word is told instead.
        """
        for name in sorted(found.failed.keys() | found.unresolvable.keys()):
            unresolvable = found.unresolvable.get(name)
            status = Status.UNSCHEDULABLE if unresolvable is None else Status.UNRESOLVABLE
            told[name] = self.reasons.code(status, "", found.failed[name] if unresolvable is None else unresolvable)
            row = self.snapshot.row_of.get(name)
            if name not in rows and row is not None:
                if codes.item(row) > 0:
                    self.decision.overruled += (self.reasons[codes.item(row)].plugin,)
                codes[row] = told[name]
        for name, row in rows.items():
            if name not in found.passed:
                self.decision.extender_refused = True
                codes[row] = told.get(name, self.reasons.code(Status.UNRESOLVABLE, ""))

    def _objects(self, rows: Iterable[int]) -> list[Node]:
        nodes = self.snapshot.nodes
        return [node for row in rows if (node := nodes[row]) is not None]

    def _score(self, evaluation: Evaluation, codes: Codes, feasible: Ints) -> Steps:
        decision = self.decision
        scorings, total = evaluation.score_feasible(codes, self.cycle.order())
        decision.scores = {item.plugin.name: item.final for item in scorings}
        decision.weights = dict(self.cycle.profile.weights)
        nodes = self._objects(feasible.tolist())
        calls = [prioritize_call(item, self.pod.pod, nodes) for item in self.extenders if item.prioritize_verb]
        if calls:
            answers = yield calls
            for call, answer in zip(calls, answers, strict=True):
                self._add_scores(call, answer, total)
        decision.row = self.cycle.chosen(Ranking(total, self.cycle.order()))

    def _add_scores(self, call: Call, answer: Answer, total: Ints) -> None:
        """Scores of an extender that fails are left out, as kube-scheduler does."""
        try:
            scores = read_prioritize(call, answer)
        except ExtenderError:
            return
        column: Ints = np.zeros_like(total)
        for name, score in scores.items():
            row = self.snapshot.row_of.get(name)
            if row is not None and total[row] >= 0:
                column[row] += score
        total += column
        self.decision.scores[call.extender.url_prefix] = column
        self.decision.weights[call.extender.url_prefix] = call.extender.weight

    def _post_filter(self, evaluation: Evaluation, codes: Codes) -> Steps:
        decision = self.decision
        self.cycle.post_filter(self.pod, evaluation, codes, decision)
        outcome = decision.post_filter
        asked = [extender for extender in self.extenders if extender.preempt_verb]
        if outcome is None or outcome.choose is None or not asked:
            return
        candidates = {decision.names[item.row]: item for item in outcome.candidates}
        for extender in asked:
            if not candidates:
                break
            call = preempt_call(extender, self.pod.pod, candidates)
            (answer,) = yield [call]
            try:
                candidates = read_preempt(call, answer, self.snapshot.row_of, self.snapshot.pods_on)
            except ExtenderError as error:
                if extender.ignorable:
                    continue
                decision.post_filter = PostFilterOutcome(Status.ERROR, (f"preemption: {error}",))
                return
        if candidates:
            context = FailedCycle(self.cycle, self.pod, evaluation, codes)
            decision.post_filter = outcome.choose(context, list(candidates.values()))
        else:
            reason = "preemption: no candidate node for preemption"
            decision.post_filter = PostFilterOutcome(Status.UNSCHEDULABLE, (reason,))
