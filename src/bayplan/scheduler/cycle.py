"""The scheduling cycle: one pod in, one decision out.

Reads the snapshot and changes nothing in it. Evaluations are cached per pod shape, so that the thousandth pod of a
deployment costs the look at one row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from bayplan.scheduler.decision import NOMINATED_NODE, ONLY_FEASIBLE_NODE, Decision
from bayplan.scheduler.evaluation import NO_NODE, Evaluation, Scoring
from bayplan.scheduler.framework.meter import SUCCESS, timed_plugin, timed_point
from bayplan.scheduler.framework.post_filter import PostFilterContext, PostFilterOutcome, Trial
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.framework.verdicts import Codes, PluginError, Status
from bayplan.scheduler.nominator import Nominator
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import ResourceClaim


class Choice(Protocol):
    """How one of several equally good nodes is chosen."""

    def choose(self, rows: Ints, names: Sequence[str]) -> int:
        """One of the rows."""

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

    def choose(self, rows: Ints, names: Sequence[str]) -> int:
        return int(rows[int(self._random.random() * len(rows))])

    def index(self, count: int) -> int:
        return int(self._random.random() * count)


class FirstByName:
    """The first of the best nodes by name: for reproducible runs."""

    __slots__ = ("_names", "_ranks")

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._ranks: Ints = np.zeros(0, dtype=np.int64)
        """Place of each row's name in the order of all names; made anew when the names are others."""

    def choose(self, rows: Ints, names: Sequence[str]) -> int:
        if names is not self._names:
            self._ranks = np.empty(len(names), dtype=np.int64)
            self._ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
            self._names = names
        return int(rows[int(self._ranks[rows].argmin())])

    def index(self, count: int) -> int:
        return 0


class Cycle:
    """Schedules pods of one profile against a snapshot."""

    FEWEST: Final = 100
    """Feasible nodes that are always looked at, whatever the percentage."""
    CACHED_SHAPES: Final = 512
    """Evaluations kept; the least recently used goes first."""

    def __init__(self, profile: Profile, nominator: Nominator, choice: Choice) -> None:
        self.profile = profile
        self.snapshot: Snapshot = profile.snapshot
        self.nominator = nominator
        self.choice = choice
        self._evaluations: OrderedDict[int, Evaluation] = OrderedDict()
        self._names: tuple[str, ...] = ()
        self._names_membership = -1
        self._percentage = profile.settings.percentage_of_nodes_to_score or 0
        self._start = 0
        """Where the look at the nodes begins, if only some are looked at."""

    def decide(self, pod: PodInfo, *, full: bool = True, explain: bool = False) -> Decision:
        """Schedule a pod.

        `full`: keep the arrays that explain the decision; otherwise only node and best total are kept. `explain`:
        give scores even where the decision does not need them.
        """
        decision = self.opened(pod)
        if decision.gate is not None or decision.skipped:
            return decision
        try:
            self._attempt(pod, decision, full, explain)
        except PluginError as error:
            decision.row = -1
            decision.error = str(error)
            decision.error_plugin = error.plugin
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
        """The up-to-date evaluation of a shape. Raises PluginError."""
        evaluations = self._evaluations
        evaluation = evaluations.get(id(shape))
        if evaluation is None:
            evaluation = evaluations[id(shape)] = Evaluation(self.profile, shape)
            if len(evaluations) > self.CACHED_SHAPES:
                evaluations.popitem(last=False)
        else:
            evaluations.move_to_end(id(shape))
        evaluation.refresh()
        return evaluation

    def state_of(self, shape: PodShape) -> CycleState:
        """What the plugins worked out for a shape that was decided about just now."""
        return self._evaluations[id(shape)].state

    def names(self) -> tuple[str, ...]:
        """Node name per row."""
        if self._names_membership != self.snapshot.membership:
            self._names = tuple(node.metadata.name if node is not None else "" for node in self.snapshot.nodes)
            self._names_membership = self.snapshot.membership
        return self._names

    def _attempt(self, pod: PodInfo, decision: Decision, full: bool, explain: bool) -> None:
        if self.snapshot.node_count == 0:
            return
        evaluation = self.evaluation(pod.shape)
        decision.narrowed = evaluation.narrowed
        decision.narrowed_by = evaluation.narrowed_by
        if evaluation.rejection is not None:
            decision.rejection = evaluation.rejection
            self.post_filter(pod, evaluation, evaluation.codes, decision)
            return
        if self._takes_nominated(pod, evaluation, decision):
            if full:
                evaluation.share()
                decision.codes = self.with_nominated(pod, evaluation)
            return
        codes = self.with_nominated(pod, evaluation)
        if 0 < self._percentage < 100 and not explain:
            codes = self.sample(codes)
        if full:
            evaluation.share()
            decision.codes = codes
        feasible = np.flatnonzero(codes == 0) if codes is not evaluation.codes or not evaluation.is_scored else None
        if feasible is not None and len(feasible) == 0:
            decision.codes = codes
            evaluation.share()
            self.post_filter(pod, evaluation, codes, decision)
            return
        if feasible is not None and len(feasible) == 1:
            decision.row = int(feasible[0])
            decision.decided_by = ONLY_FEASIBLE_NODE
            if not explain:
                return
        self._score(evaluation, codes, decision, full, explain)
        if decision.row < 0 and decision.best_rows is None:
            decision.codes = codes
            evaluation.share()
            self.post_filter(pod, evaluation, codes, decision)

    def _score(self, evaluation: Evaluation, codes: Codes, decision: Decision, full: bool, explain: bool) -> None:
        only = decision.row
        try:
            scorings, total = self._totals(evaluation, codes)
        except PluginError:
            if only >= 0:
                return
            raise
        highest = total.max()
        if highest == NO_NODE:
            return
        best: Ints = np.flatnonzero(total == highest)
        decision.best_rows = best
        if only < 0:
            decision.row = int(best[0]) if len(best) == 1 else self.choice.choose(best, decision.names)
            if len(best) == 1 and int((codes == 0).sum()) == 1:
                decision.decided_by = ONLY_FEASIBLE_NODE
        if full:
            decision.total = total
            decision.scores = {item.plugin.name: item.final for item in scorings}
            decision.weights = self.profile.weights

    def _totals(self, evaluation: Evaluation, codes: Codes) -> tuple[list[Scoring], Ints]:
        meter = self.profile.meter
        started = meter.now() if meter is not None else 0.0
        if codes is evaluation.codes:
            evaluation.score()
            answer = evaluation.scorings, evaluation.total
        else:
            answer = evaluation.score_feasible(codes)
        if meter is not None:
            meter.point("Score", SUCCESS, self.profile.name, meter.now() - started)
        return answer

    # Nominated pods

    def _takes_nominated(self, pod: PodInfo, evaluation: Evaluation, decision: Decision) -> bool:
        """Whether the pod was nominated to a node and fits there: then it goes there without further ado."""
        row = self.nominated_row(pod, evaluation)
        if row is None:
            return False
        decision.row = row
        decision.decided_by = NOMINATED_NODE
        return True

    def nominated_row(self, pod: PodInfo, evaluation: Evaluation) -> int | None:
        """The node that the pod was nominated to, if it fits there."""
        node_name = pod.pod.status.nominated_node_name
        row = self.snapshot.row_of.get(node_name) if node_name else None
        return row if row is not None and self._verdict(pod, evaluation, row) == 0 else None

    def rivals(self, pod: PodInfo, row: int) -> list[PodInfo]:
        """Other pods nominated to the node which the pod must not push aside."""
        if not len(self.nominator):
            return []
        pods = self.nominator.on(self.snapshot.name(row))
        return [other for other in pods if other.priority >= pod.priority and other.key != pod.key]

    def _verdict(self, pod: PodInfo, evaluation: Evaluation, row: int) -> int:
        rivals = self.rivals(pod, row)
        if rivals:
            code = evaluation.suppose(row, rivals)
            if code:
                return code
        return evaluation.codes.item(row)

    def with_nominated(self, pod: PodInfo, evaluation: Evaluation) -> Codes:
        """The verdicts with nominated pods of equal or higher priority taken into account."""
        codes = evaluation.codes
        if not len(self.nominator):
            return codes
        for node_name in self.nominator.nodes():
            row = self.snapshot.row_of.get(node_name)
            if row is None or not self.rivals(pod, row):
                continue
            code = self._verdict(pod, evaluation, row)
            if code != codes.item(row):
                if codes is evaluation.codes:
                    codes = codes.copy()
                codes[row] = code
        return codes

    def sample(self, codes: Codes) -> Codes:
        """The verdicts with feasible nodes beyond the profile's percentage left out, as if not looked at.

        Nodes are taken in turn, from where the last look ended; at least `FEWEST` feasible ones are kept. Source:
        `numFeasibleNodesToFind` in kube-scheduler.
        """
        rows = np.flatnonzero(codes != NO_NODE)
        wanted = max(len(rows) * self._percentage // 100, self.FEWEST)
        if len(rows) < self.FEWEST or int((codes == 0).sum()) <= wanted:
            return codes
        order = np.roll(rows, -(self._start % len(rows)))
        looked_at = int(np.searchsorted(np.cumsum(codes[order] == 0), wanted)) + 1
        self._start = (self._start + looked_at) % len(rows)
        kept = codes.copy()
        beyond = order[looked_at:]
        kept[beyond[kept[beyond] == 0]] = NO_NODE
        return kept

    def post_filter(self, pod: PodInfo, evaluation: Evaluation, codes: Codes, decision: Decision) -> None:
        """Ask the PostFilter plugins in order; the first that helps ends it."""
        with timed_point(self.profile.meter, "PostFilter", self.profile.name) as timing:
            self._ask_post_filter(pod, evaluation, codes, decision)
            outcome = decision.post_filter
            if outcome is not None and outcome.status is not None:
                timing.status = outcome.status.value

    def _ask_post_filter(self, pod: PodInfo, evaluation: Evaluation, codes: Codes, decision: Decision) -> None:
        reasons: list[str] = []
        deallocates: list[ResourceClaim] = []
        withdraws = False
        for plugin in self.profile.post_filter:
            with timed_plugin(self.profile.meter, plugin.name, "PostFilter") as timing:
                outcome = plugin.post_filter(FailedCycle(self, pod, evaluation, codes))
                timing.status = outcome.status.value if outcome.status is not None else SUCCESS
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


class FailedCycle(PostFilterContext):
    """A cycle that found no node, as PostFilter plugins see it."""

    def __init__(self, cycle: Cycle, pod: PodInfo, evaluation: Evaluation, codes: Codes) -> None:
        self.cycle = cycle
        self.pod = pod
        self.evaluation = evaluation
        self.codes = codes
        self.rejected_early = evaluation.rejection is not None
        self.rejected_by = evaluation.rejection[0] if evaluation.rejection is not None else ""
        self.state = evaluation.state

    @contextmanager
    def trial(self, row: int, removed: Sequence[PodInfo]) -> Iterator[Trial]:
        snapshot = self.cycle.snapshot
        rivals = self.cycle.rivals(self.pod, row)
        with snapshot.supposing((), removed, row):
            trial = _Trial(self.evaluation, row, rivals)
            yield trial
            for pod in trial.back:
                snapshot.suppose(pod, row, -1)
        self.evaluation.refresh_wide()

    def nominated_to(self, row: int) -> list[PodInfo]:
        pods = self.cycle.nominator.on(self.cycle.snapshot.name(row))
        return [pod for pod in pods if pod.key != self.pod.key]

    def pick(self, count: int) -> int:
        return self.cycle.choice.index(count)

    def is_local(self, row: int) -> bool:
        return not self.evaluation.has_wide_filters and not self.cycle.rivals(self.pod, row)


class _Trial(Trial):
    """Works on the snapshot itself, within `supposing`."""

    def __init__(self, evaluation: Evaluation, row: int, rivals: list[PodInfo]) -> None:
        self.evaluation = evaluation
        self.row = row
        self.rivals = rivals
        self.back: list[PodInfo] = []

    def put_back(self, pod: PodInfo) -> None:
        self.evaluation.snapshot.suppose(pod, self.row, 1)
        self.back.append(pod)

    def take_away(self, pod: PodInfo) -> None:
        self.evaluation.snapshot.suppose(pod, self.row, -1)
        self.back.remove(pod)

    def verdict(self) -> int:
        if self.rivals:
            with self.evaluation.snapshot.supposing(self.rivals, (), self.row):
                code = self.evaluation.ask_now(self.row)
            if code:
                return code
        return self.evaluation.ask_now(self.row)
