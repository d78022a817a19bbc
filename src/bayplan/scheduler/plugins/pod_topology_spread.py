"""PodTopologySpread: keeps pods that match a selector evenly spread over topology domains.

A DoNotSchedule constraint refuses a node if one more pod in its domain would exceed the emptiest domain by more than
`maxSkew`; a ScheduleAnyway constraint prefers emptier domains. Pods without constraints get those of the profile.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bayplan.api.selectors import labels as selectors
from bayplan.api.selectors.labels import LabelSelector
from bayplan.scheduler.framework.arguments import PodTopologySpreadArgs
from bayplan.scheduler.framework.events import Action, EventHint, is_itself
from bayplan.scheduler.framework.extension_points import (
    EVERY_ROW,
    MAX_NODE_SCORE,
    FilterPlugin,
    Moved,
    PreFilterPlugin,
    PreScorePlugin,
    ScaledScorePlugin,
    Scope,
    joined,
)
from bayplan.scheduler.framework.spreading import HOSTNAME, Constraint, Cost, Domains, Fractions, Skews
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.framework.workload_selectors import default_selector
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.labels import Bools, ChangedRows, IntRows, Ints, Rows, listed, part
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher
from bayplan.scheduler.snapshot.shape import compiled_or_nothing
from bayplan.scheduler.snapshot.snapshot import WhatIfPods
from bayplan.scheduler.snapshot.taints import TaintKey, has_untolerated

ZONE: Final = "topology.kubernetes.io/zone"
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"


@dataclass(slots=True)
class _Score:
    """`raw`: rounded sum of costs per row; `chosen`: rows that are feasible and take part; `ignored`: rows that lack a
    topology label, None if none does."""

    costs: list[Cost]
    raw: Ints
    chosen: Bools
    ignored: Bools | None


@dataclass(frozen=True, slots=True)
class _Filter:
    """The constraints' verdicts, and the two codes in which they are told."""

    skews: list[Skews]
    unlabelled: int
    skewed: int


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScaledScorePlugin):
    """Refuses and ranks nodes by how full their domains are."""

    name = "PodTopologySpread"
    filter_scope = Scope.CLUSTER
    score_scope = Scope.CLUSTER
    filter_alone = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
    score_alone = 'error reading "PreScorePodTopologySpread" from cycleState: not found'

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, PodTopologySpreadArgs) else PodTopologySpreadArgs()

    # Constraints

    def _constraints(self, pod: PodShape, action: str) -> list[Constraint]:
        if pod.spec.topology_spread_constraints:
            return [
                Constraint(
                    item.topology_key,
                    item.max_skew,
                    item.min_domains if item.min_domains is not None else 1,
                    _with_match_labels(compiled_or_nothing(item.label_selector), item.match_label_keys, pod.labels),
                    item.node_affinity_policy in (None, "Honor"),
                    item.node_taints_policy == "Honor",
                )
                for item in pod.spec.topology_spread_constraints
                if item.when_unsatisfiable == action
            ]
        return self._default_constraints(pod, action)

    def _default_constraints(self, pod: PodShape, action: str) -> list[Constraint]:
        if self.args.defaulting_type == "System":
            defaults = [(HOSTNAME, 3, 1), (ZONE, 5, 1)] if action == SCHEDULE_ANYWAY else []
        else:
            defaults = [
                (item.topology_key, item.max_skew, item.min_domains if item.min_domains is not None else 1)
                for item in self.args.default_constraints
                if item.when_unsatisfiable == action
            ]
        if not defaults:
            return []
        selector = default_selector(self.snapshot, pod)
        if selector.is_everything():
            return []
        return [Constraint(key, skew, domains, selector, True, False) for key, skew, domains in defaults]

    def _has_default_constraints(self, pod: PodShape) -> bool:
        """Whether the profile's constraints mean a pod that has none of its own."""
        if self.args.defaulting_type != "System" and not self.args.default_constraints:
            return False
        return not default_selector(self.snapshot, pod).is_everything()

    def _domains(
        self, constraints: list[Constraint], pod: PodShape, *, need_all_labels: bool, with_what_if: bool = False
    ) -> list[Domains]:
        size = self.snapshot.size
        labelled = self.snapshot.alive[:size].copy()
        if need_all_labels:
            for item in constraints:
                labelled &= self._ids(item.topology_key) >= 0
        matcher = NodeAffinityMatcher.of_pod(pod.spec)
        found = []
        for item in constraints:
            eligible = labelled
            if item.honor_affinity and not matcher.matches_all:
                eligible = eligible & matcher.match(self.snapshot, self.snapshot.all_rows)
            if item.honor_taints:
                eligible = eligible & self._tolerated(pod)
            column = self.snapshot.label_column(item.topology_key)
            counter: PodCounter | WhatIfPods | None = self._counter(item, pod.namespace)
            if counter is None and with_what_if:
                counter = self.snapshot.what_if_pods(pod.namespace)
            found.append(Domains(item, column, eligible, counter, int(item.selector.matches(pod.labels))))
        return found

    def _tolerated(self, pod: PodShape) -> Bools:
        tolerations = pod.spec.tolerations

        def tolerated(taints: tuple[TaintKey, ...] | None) -> bool:
            return not has_untolerated(tolerations, taints or ())

        return self.snapshot.taints.where(tolerated, self.snapshot.all_rows)

    def _counter(self, constraint: Constraint, namespace: str) -> PodCounter | None:
        """Counts matching pods per node; None for a selector that selects all, which counts nothing.

        As in kube-scheduler, only pods that are supposed to come or go (nominated ones, victims) count for it.
        """
        selector = constraint.selector
        if selector.is_everything():
            return None

        def matches(pod_namespace: str, labels: Mapping[str, str]) -> bool:
            return pod_namespace == namespace and selector.matches(labels)

        key = ("spread", namespace, selector)
        return self.snapshot.counts.counter(key, matches, live_only=True, anchor=selector.anchor)

    def _ids(self, topology_key: str) -> Any:
        return self.snapshot.label_column(topology_key).ids[: self.snapshot.size]

    # Filter

    def reads(self, pod: PodShape) -> Hashable | None:
        return None if pod.spec.topology_spread_constraints or self._has_default_constraints(pod) else ()

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        if not constraints:
            return SKIP
        domains = self._domains(constraints, pod, need_all_labels=True, with_what_if=True)
        state.data[self.name] = _Filter([Skews(item) for item in domains], *self._verdicts())
        return None

    def refresh_filter(self, state: CycleState, pod: PodShape) -> None:
        data: _Filter = state.data[self.name]
        for item in data.skews:
            item.look()

    def catch_up(self, state: CycleState, pod: PodShape, rows: ChangedRows) -> Moved:
        data: _Filter = state.data[self.name]
        moved: list[IntRows] = []
        for item in data.skews:
            moved += item.catch_up(rows)
        return joined(moved)

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        data: _Filter = state.data[self.name]
        codes = np.zeros(self.snapshot.select(rows), dtype=np.int32)
        for item in data.skews:
            ids = item.domains.ids[rows]
            verdict = np.where(ids < 0, data.unlabelled, np.where(item.over[ids], data.skewed, 0))
            codes = np.where(codes == 0, verdict, codes)
        return codes.astype(np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        data: _Filter = state.data[self.name]
        for item in data.skews:
            domain = item.domains.ids.item(row)
            if domain < 0:
                return data.unlabelled
            if item.over.item(domain):
                return data.skewed
        return 0

    def _verdicts(self) -> tuple[int, int]:
        reason = "node(s) didn't match pod topology spread constraints"
        return (
            self.reasons.code(Status.UNRESOLVABLE, self.name, f"{reason} (missing required label)"),
            self.reasons.code(Status.UNSCHEDULABLE, self.name, reason),
        )

    # Score

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        constraints = self._constraints(pod, SCHEDULE_ANYWAY)
        if not constraints:
            return SKIP
        need_all = bool(pod.spec.topology_spread_constraints) or self.args.defaulting_type != "System"
        domains = self._domains(constraints, pod, need_all_labels=need_all)
        size = self.snapshot.size
        ignored: Bools | None = None
        if need_all:
            lacking = np.zeros(size, dtype=np.bool_)
            for item in domains:
                lacking |= item.ids < 0
            ignored = lacking if lacking.any() else None
        chosen = np.zeros(size, dtype=np.bool_)
        chosen[feasible] = True
        if ignored is not None:
            chosen &= ~ignored
        costs = [Cost(item, chosen) for item in domains]
        state.score_data[self.name] = _Score(costs, _rounded(costs, EVERY_ROW), chosen, ignored)
        return None

    def rescore(self, state: CycleState, pod: PodShape, codes: Codes, rows: ChangedRows) -> Moved | None:
        data: _Score = state.score_data[self.name]
        is_void = False
        for row in _changed_choices(data, codes, rows):
            is_chosen = not data.chosen.item(row)
            data.chosen[row] = is_chosen
            for cost in data.costs:
                is_void |= cost.choose(row, is_chosen)
        if is_void:
            return None
        moved: list[IntRows] = []
        for cost in data.costs:
            for row in cost.domains.changed(rows):
                there = cost.catch_up(row)
                if there is not None:
                    moved.append(there)
        if len(data.costs) == 1:
            for there in moved:
                data.raw[there] = _round(data.costs[0].of_row(there.item(0)))
            return joined(moved)
        answer = joined(moved)
        if isinstance(answer, slice):
            data.raw = _rounded(data.costs, EVERY_ROW)
            return answer
        for row in answer:
            total = 0.0
            for cost in data.costs:  # not sum(), which corrects rounding errors that Kubernetes makes
                total += cost.of_row(row)
            data.raw[row] = _round(total)
        return answer

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        data: _Score = state.score_data[self.name]
        return data.raw[rows] if data.ignored is None else np.where(data.ignored[rows], 0, data.raw[rows])

    def score_empty(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        """Pods are counted per host name when a node is scored, per other domain before that."""
        data: _Score = state.score_data[self.name]
        total: Fractions = np.zeros(self.snapshot.select(rows))
        for item in data.costs:
            total += item.empty(rows) if item.is_hostname else item.of(rows)
        return _whole(total) if data.ignored is None else np.where(data.ignored[rows], 0, _whole(total))

    def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        data: _Score = state.score_data[self.name]
        return 0 if data.ignored is not None and data.ignored.item(row) else data.raw.item(row)

    def counted(self, state: CycleState, pod: PodShape) -> Bools | None:
        data: _Score = state.score_data[self.name]
        return None if data.ignored is None else ~data.ignored

    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        if highest == 0:
            return np.full_like(scores, MAX_NODE_SCORE)
        scaled: Ints = MAX_NODE_SCORE * ((highest + lowest) - scores.astype(np.int64)) // highest
        return scaled

    def scale_one(self, state: CycleState, pod: PodShape, score: int, lowest: int, highest: int) -> int:
        return MAX_NODE_SCORE * (highest + lowest - score) // highest if highest else MAX_NODE_SCORE

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        pod_events = Action.ADD | Action.POD_LABEL | Action.DELETE
        return (
            EventHint("Pod", pod_events, self._pod_matters, per_shape=True),
            EventHint("Pod", Action.POD_TOLERATIONS, self._sees_more_domains),
            EventHint(
                "Node",
                Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT,
                self._node_matters,
                per_shape=True,
            ),
        )

    def _pod_matters(self, pod: PodInfo, old: Any, new: Any) -> bool:
        constraints = self._constraints(pod.shape, DO_NOT_SCHEDULE)
        others: Iterable[Any] = (other for other in (old, new) if other is not None)
        return any(
            other.metadata.namespace == pod.shape.namespace and item.selector.matches(other.metadata.labels)
            for other in others
            for item in constraints
        )

    def _sees_more_domains(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """The pod tolerates more, so that nodes count which did not."""
        constraints = self._constraints(pod.shape, DO_NOT_SCHEDULE)
        return is_itself(pod, old, new) and any(item.honor_taints for item in constraints)

    def _node_matters(self, pod: PodInfo, old: Any, new: Any) -> bool:
        keys = {item.topology_key for item in self._constraints(pod.shape, DO_NOT_SCHEDULE)}
        return any(node is not None and keys <= node.metadata.labels.keys() for node in (old, new))


def _changed_choices(data: _Score, codes: Codes, rows: ChangedRows) -> list[int]:
    """Those of some rows that have become feasible, or are so no more, and take part."""
    if len(rows) == 1:
        (row,) = listed(rows)
        is_ignored = data.ignored is not None and data.ignored.item(row)
        return [row] if (codes.item(row) == 0 and not is_ignored) != data.chosen.item(row) else []
    index = np.asarray(rows, dtype=np.intp)
    is_chosen = codes.take(index) == 0
    if data.ignored is not None:
        is_chosen &= ~data.ignored.take(index)
    found: list[int] = index[is_chosen != data.chosen.take(index)].tolist()
    return found


def _with_match_labels(selector: LabelSelector, keys: tuple[str, ...], labels: Mapping[str, str]) -> LabelSelector:
    """The selector narrowed to pods with the same values of `matchLabelKeys`."""
    same = {key: labels[key] for key in keys if key in labels}
    return selector.merged(selectors.from_map(same)) if same else selector


def _rounded(costs: list[Cost], rows: Rows) -> Ints:
    """The sums of costs, rounded half up."""
    if len(costs) == 1 and not costs[0].is_hostname:
        return _whole(costs[0].table).take(part(costs[0].domains.ids, rows))
    total = costs[0].of(rows)
    for item in costs[1:]:
        total = total + item.of(rows)
    return _whole(total)


def _whole(total: Fractions) -> Ints:
    """Sums of costs, rounded half up; 32 bits are enough for more than 100 million pods in a domain."""
    whole = np.trunc(total)
    whole += (total - whole) >= 0.5
    return whole.astype(np.int32)


def _round(total: float) -> int:
    whole = math.trunc(total)
    return whole + (total - whole >= 0.5)
