"""The scheduling cycle: one pod in, one decision out.

Reads the snapshot and changes nothing in it. Evaluations are cached per pod shape, so that the thousandth pod of a
deployment costs the look at one row.

There is one algorithm, `Cycle._attempt`. It is a generator since extenders may have a say: it yields the calls to them that
can be made at the same time and is sent their answers, so that nothing here waits. Without extenders it yields nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from bayplan.scheduler.decision import BEST_NAMED, NOMINATED_NODE, ONLY_FEASIBLE_NODE, Decision, ScoredChoice
from bayplan.scheduler.extenders.protocol import ExtenderError, Questions
from bayplan.scheduler.failed_cycle import FailedCycle
from bayplan.scheduler.framework.extension_points import PostFilterPlugin
from bayplan.scheduler.framework.meter import SUCCESS
from bayplan.scheduler.framework.post_filter import PostFilterOutcome
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.framework.verdicts import Codes, PluginError, Status
from bayplan.scheduler.gangs.placement_capacity import PlacementCapacity
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.queueing.nominator import NominatedReservations, Nominator
from bayplan.scheduler.scoring.evaluation import Evaluation
from bayplan.scheduler.scoring.ranking import NameOrder, Ranking
from bayplan.scheduler.scoring.sampling import NodeSampling
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import ResourceClaim


class Choice(Protocol):
    """How one of several equally good nodes is chosen; they come in the order of their names."""

    def index(self, count: int) -> int:
        """A number below `count`."""


class RandomSource(Protocol):
    """What a random choice needs; `bayplan.support.randomness.Randomness` has it."""

    def random(self) -> float:
        """A number in [0, 1)."""


class RandomChoice:
    """As kube-scheduler does: any of the best nodes."""

    __slots__ = ("_random",)

    def __init__(self, randomness: RandomSource) -> None:
        self._random = randomness

    def index(self, count: int) -> int:
        return int(self._random.random() * count)


class FirstByName:
    """The first of the best nodes by name: for reproducible runs."""

    def index(self, count: int) -> int:
        return 0


class Extension(Protocol):
    """What extenders say in one attempt to schedule a pod; see `bayplan.scheduler.extenders.steps`."""

    def accepts(self, decision: Decision, row: int, size: int) -> Questions[bool]:
        """Whether the pod may go to the node that it is nominated to; `size` is the number of rows."""

    def filter(self, decision: Decision, codes: Codes) -> Questions[Codes]:
        """The verdicts after theirs. `codes` stays as it is. Raises ExtenderError."""

    def score(self, decision: Decision, total: Ints) -> Questions[None]:
        """Add their scores to the total of the plugins."""

    def preempt(self, context: FailedCycle, decision: Decision) -> Questions[None]:
        """Leave among the candidates for preemption what they let pass."""

    @property
    def reads_scores(self) -> bool:
        """Whether `score` looks at the scores of the plugins in the decision."""


class _Kept(NamedTuple):
    """What is kept of an attempt; see `Cycle.decide`."""

    full: bool
    explain: bool
    scored: bool
    brief: bool = False


class Cycle:
    """Schedules pods of one profile against a snapshot."""

    CACHE_BYTES: Final = 256 << 20
    CACHE_BYTES_PER_NODE: Final = 5 << 10
    CACHE_BYTES_AT_MOST: Final = 1 << 30
    """Memory for evaluations, the first or what the nodes make, if that is more; the least recently used goes first."""

    def __init__(self, profile: Profile, nominator: Nominator, choice: Choice) -> None:
        self.profile = profile
        self.snapshot: Snapshot = profile.snapshot
        self.nominator = nominator
        self.choice = choice
        self._evaluations: OrderedDict[tuple[int, int | None], Evaluation] = OrderedDict()
        self._evaluation_bytes = 0
        self._latest: Evaluation | None = None
        """The one that was asked for last."""
        self._is_asked = False
        """See `asked`."""
        self._names: tuple[str, ...] = ()
        self._names_membership = -1
        self._order = NameOrder(())
        self.sampling = NodeSampling(self.snapshot, profile.settings.percentage_of_nodes_to_score or 0)
        self.placement_capacity = PlacementCapacity(self)

    def decide(
        self, pod: PodInfo, *, full: bool = True, explain: bool = False, scored: bool = True, brief: bool = False
    ) -> Decision:
        """Schedule a pod without extenders.

        `full`: keep the arrays that explain the decision; otherwise only the node is kept. `explain`:
        give scores even where the decision does not need them. `scored`: keep scores as well, which plugins are asked for once more. `brief`: keep
        of scores what concerns the choice, unless all are kept.
        """
        decision = self.opened(pod)
        if decision.gate is None and not decision.skipped:
            for calls in self._decided(pod, decision, _Kept(full, explain, full and scored, brief), None):
                raise AssertionError(f"calls to no extender: {calls}")
        return decision

    def decide_with(
        self, extension: Extension, pod: PodInfo, *, full: bool = True, explain: bool = False, scored: bool = True
    ) -> Questions[Decision]:
        """Schedule a pod that extenders have a say in; see `decide`. The snapshot must stay as it is until the generator is done."""
        decision = self.opened(pod)
        if decision.gate is None and not decision.skipped:
            yield from self._decided(pod, decision, _Kept(full, explain, full and scored), extension)
        return decision

    def opened(self, pod: PodInfo) -> Decision:
        """A decision to be made; made already if the pod is gated or being deleted."""
        decision = Decision(pod.key, self.profile.name, self.profile.reasons)
        gate = self.profile.gate(pod)
        if gate is not None:
            decision.gate = gate
            return decision
        if pod.pod.metadata.deletion_timestamp is not None:
            decision.skipped = True
            return decision
        decision.info = pod
        decision.snapshot = self.snapshot
        decision.names = self.names()
        decision.node_count = self.snapshot.node_count
        decision.revision = self.snapshot.position
        return decision

    def evaluation(self, shape: PodShape) -> Evaluation:
        """The up-to-date evaluation of a shape, without a thought of nominated pods. Raises PluginError."""
        return self._evaluation(shape, None)

    def _evaluation(self, shape: PodShape, priority: int | None) -> Evaluation:
        """The evaluation of a shape; with a priority, the one that keeps what is promised to pods of this or more."""
        evaluations, key = self._evaluations, (id(shape), priority)
        evaluation = evaluations.get(key)
        if evaluation is None:
            self._make_room()
            reservations = (
                NominatedReservations(self.nominator, self.snapshot, priority) if priority is not None else None
            )
            evaluation = evaluations[key] = Evaluation(self.profile, shape, reservations)
            if self._is_asked:
                evaluations.move_to_end(key, last=False)
        elif not self._is_asked:
            evaluations.move_to_end(key)
        self._latest = evaluation
        evaluation.refresh()
        return evaluation

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Meanwhile decisions are made about pods that may never come: what is kept of these is the first to go."""
        before, self._is_asked = self._is_asked, True
        try:
            yield
        finally:
            self._is_asked = before

    def _make_room(self) -> None:
        """Forget evaluations if there are too many for one more; what the latest takes is known by now."""
        evaluations = self._evaluations
        if self._latest is not None:
            self._evaluation_bytes += self._latest.weigh()
        per_nodes = min(self.CACHE_BYTES_PER_NODE * self.snapshot.size, self.CACHE_BYTES_AT_MOST)
        while evaluations and self._evaluation_bytes > max(self.CACHE_BYTES, per_nodes):
            self._evaluation_bytes -= evaluations.popitem(last=False)[1].weight

    def state_of(self, shape: PodShape) -> CycleState:
        """What the plugins worked out for a shape that was decided about just now."""
        latest = self._latest
        return latest.state if latest is not None and latest.shape is shape else self.evaluation(shape).state

    def names(self) -> tuple[str, ...]:
        """Node name per row."""
        if self._names_membership != self.snapshot.membership:
            self._names = tuple(node.metadata.name if node is not None else "" for node in self.snapshot.nodes)
            self._names_membership = self.snapshot.membership
            self._order = NameOrder(self._names)
        return self._names

    def order(self) -> NameOrder:
        """The order of the nodes' names."""
        self.names()
        return self._order

    def _decided(self, pod: PodInfo, decision: Decision, kept: _Kept, extension: Extension | None) -> Questions[None]:
        """An attempt; what went wrong goes into the decision."""
        try:
            yield from self._attempt(pod, decision, kept, extension)
        except (PluginError, ExtenderError) as error:
            decision.row = -1
            decision.error = str(error)
            decision.error_plugin = error.plugin if isinstance(error, PluginError) else ""
        except Exception as error:
            plugin = self.profile.plugin_behind(error)
            if plugin is None:
                raise
            decision.row = -1
            decision.error = f"plugin {plugin} failed: {type(error).__name__}: {error}"
            decision.error_plugin = plugin

    def _attempt(self, pod: PodInfo, decision: Decision, kept: _Kept, extension: Extension | None) -> Questions[None]:
        full, explain, scored = kept.full, kept.explain, kept.scored
        if self.snapshot.node_count == 0:
            return
        evaluation, codes = self.judged(pod)
        decision.narrowed = evaluation.narrowed
        decision.narrowed_by = evaluation.narrowed_by
        if evaluation.rejection is not None:
            decision.rejection = evaluation.rejection
            yield from self._fail(pod, evaluation, evaluation.codes, decision, extension)
            return
        row, codes = self.nominated_row(pod, evaluation, codes)
        if row is not None and (extension is None or (yield from extension.accepts(decision, row, len(codes)))):
            decision.row, decision.decided_by = row, NOMINATED_NODE
            if full:
                evaluation.share()
                decision.codes = codes
            return
        if self.sampling.is_partial and not explain:
            codes = self.sampling.sample(codes)
        failures = self.profile.reasons.failures_in(codes)
        if extension is not None and not failures:
            codes = yield from extension.filter(decision, codes)
        if full:
            evaluation.share()
            decision.codes = codes
        if failures:
            decision.fail(failures)
            return
        own = codes is evaluation.codes
        feasible = evaluation.feasible_count if own else int(np.count_nonzero(codes == 0))
        if feasible == 0:
            if own:
                decision.take(codes, evaluation.amounts())
            else:
                decision.codes = codes
            evaluation.share()
            yield from self._fail(pod, evaluation, codes, decision, extension)
            return
        if feasible == 1:
            decision.row = int(np.flatnonzero(codes == 0)[0])
            decision.decided_by = ONLY_FEASIBLE_NODE
            if not explain:
                return
        meter = self.profile.meter
        started = meter.now() if meter is not None else 0.0
        try:
            if extension is None or decision.row >= 0:
                self._score(evaluation, codes, decision, scored, kept.brief)
            else:
                scored = scored or extension.reads_scores
                yield from self._score_with(extension, evaluation, codes, decision, scored)
        except PluginError:
            if decision.row < 0:
                raise
        if meter is not None:
            meter.point("Score", SUCCESS, self.profile.name, meter.now() - started)

    def _score(self, evaluation: Evaluation, codes: Codes, decision: Decision, scored: bool, brief: bool) -> None:
        """Choose the best node, unless only one comes into question; scores go into the decision if `scored`, or `brief`."""
        if codes is evaluation.codes:
            evaluation.score(self._order)
            ranking = evaluation.totals.ranking
            scorings = evaluation.totals.scorings(evaluation.state) if scored else []
        else:
            scored, brief = scored or brief, False
            scorings, total = evaluation.score_feasible(codes, self._order, scored=scored)
            ranking = Ranking(total, self._order)
        if self.profile.guards.suspects:
            self.profile.guards.check_scores(evaluation.state, evaluation.shape, codes, self.profile.evaluations)
        if decision.row < 0:
            decision.row = self.chosen(ranking)
        if brief and not scored:
            decision.choice = self._choice_of(evaluation, ranking, decision.row)
        if scored:
            decision.scores = {item.plugin.name: item.final for item in scorings}
            decision.weights = self.profile.weights

    @staticmethod
    def _choice_of(evaluation: Evaluation, ranking: Ranking, row: int) -> ScoredChoice:
        scores = evaluation.totals.scores_on(evaluation.state, row)
        return ScoredChoice(scores, len(ranking), tuple(ranking.first_rows(BEST_NAMED)))

    def _score_with(
        self, extension: Extension, evaluation: Evaluation, codes: Codes, decision: Decision, scored: bool
    ) -> Questions[None]:
        """Choose the best node by the scores of plugins and extenders; those of plugins go into the decision if `scored`."""
        scorings, total = evaluation.score_feasible(codes, self._order, scored=scored)
        if self.profile.guards.suspects:
            self.profile.guards.check_scores(evaluation.state, evaluation.shape, codes, self.profile.evaluations)
        if scored:
            decision.scores = {item.plugin.name: item.final for item in scorings}
            decision.weights = self.profile.weights
        yield from extension.score(decision, total)
        decision.row = self.chosen(Ranking(total, self._order))

    def _fail(
        self, pod: PodInfo, evaluation: Evaluation, codes: Codes, decision: Decision, extension: Extension | None
    ) -> Questions[None]:
        """What can be done for a pod that fits nowhere."""
        self.post_filter(pod, evaluation, codes, decision)
        if extension is not None:
            yield from extension.preempt(FailedCycle(self, pod, evaluation, codes), decision)

    def chosen(self, ranking: Ranking) -> int:
        """One of the best rows."""
        if isinstance(self.choice, FirstByName):  # which needs no count of them
            return ranking.row(0)
        return ranking.row(self.choice.index(len(ranking)) if len(ranking) > 1 else 0)

    def best_row(self, evaluation: Evaluation, codes: Codes) -> int:
        """The best row if exactly those with code 0 were feasible; there must be one. Raises PluginError."""
        order = self.order()
        return self.chosen(Ranking(evaluation.score_feasible(codes, order, scored=False)[1], order))

    # Nominated pods

    def judged(self, pod: PodInfo) -> tuple[Evaluation, Codes]:
        """The evaluation for a pod, and its verdicts with nominated pods of equal or higher priority taken into account.

        The verdicts are the evaluation's own, unless the pod itself is nominated: its own nomination does not count.
        Raises PluginError.
        """
        if not len(self.nominator):
            evaluation = self._evaluation(pod.shape, None)
            return evaluation, evaluation.codes
        evaluation = self._evaluation(pod.shape, pod.priority)
        codes = evaluation.codes
        own = self.snapshot.row_of.get(self.nominator.node_of(pod.key))
        if own is not None and evaluation.rejection is None:
            code = self._verdict(pod, evaluation, own)
            if code != codes.item(own):
                codes = codes.copy()
                codes[own] = code
        return evaluation, codes

    def nominated_row(self, pod: PodInfo, evaluation: Evaluation, codes: Codes) -> tuple[int | None, Codes]:
        """The node that the pod was nominated to, if it fits there; and the verdicts, with the one on that node.

        It is looked at first, so even if PreFilter's node set leaves it out.
        """
        node_name = pod.pod.status.nominated_node_name
        row = self.snapshot.row_of.get(node_name) if node_name else None
        if row is None:
            return None, codes
        if evaluation.narrowed is None:
            return (row if codes.item(row) == 0 else None), codes
        with evaluation.everywhere():
            code = self._verdict(pod, evaluation, row)
        if code and self.profile.reasons[code].status is not Status.ERROR:
            codes = evaluation.refused_first(codes, row, code)
        return (row if code == 0 else None), codes

    def rivals(self, pod: PodInfo, row: int) -> list[PodInfo]:
        """Other pods nominated to the node which the pod must not push aside."""
        if not len(self.nominator):
            return []
        pods = self.nominator.on(self.snapshot.name(row))
        return [other for other in pods if other.priority >= pod.priority and other.key != pod.key]

    def _verdict(self, pod: PodInfo, evaluation: Evaluation, row: int) -> int:
        rivals = self.rivals(pod, row)
        if rivals:
            code = evaluation.verdict_with(row, rivals)
            if code:
                return code
        return evaluation.ask(row)

    def post_filter(self, pod: PodInfo, evaluation: Evaluation, codes: Codes, decision: Decision) -> None:
        """Ask the PostFilter plugins in order; the first that helps ends it."""
        meter = self.profile.meter
        started = meter.now() if meter is not None else 0.0
        status = "Error"
        try:
            self._ask_post_filter(pod, evaluation, codes, decision)
            status = _status_of(decision.post_filter)
        finally:
            if meter is not None:
                meter.point("PostFilter", status, self.profile.name, meter.now() - started)

    def _ask_post_filter(self, pod: PodInfo, evaluation: Evaluation, codes: Codes, decision: Decision) -> None:
        reasons: list[str] = []
        deallocates: list[ResourceClaim] = []
        withdraws = False
        for plugin in self.profile.post_filter:
            outcome = self._asked(plugin, FailedCycle(self, pod, evaluation, codes))
            if outcome.status in (None, Status.UNRESOLVABLE, Status.ERROR):
                decision.post_filter = outcome
                return
            reasons.extend(outcome.reasons)
            deallocates.extend(outcome.deallocates)
            withdraws = withdraws or outcome.withdraws
        if self.profile.post_filter:
            decision.post_filter = PostFilterOutcome(
                Status.UNSCHEDULABLE, tuple(reasons), deallocates=tuple(deallocates), withdraws=withdraws
            )

    def _asked(self, plugin: PostFilterPlugin, context: FailedCycle) -> PostFilterOutcome:
        """What one plugin says, timed."""
        meter = self.profile.meter
        if meter is None:
            return plugin.post_filter(context)
        started, status = meter.now(), "Error"
        try:
            outcome = plugin.post_filter(context)
            status = _status_of(outcome)
        finally:
            meter.plugin(plugin.name, "PostFilter", status, meter.now() - started)
        return outcome


def _status_of(outcome: PostFilterOutcome | None) -> str:
    """An outcome's status as it is measured."""
    return SUCCESS if outcome is None or outcome.status is None else outcome.status.value
