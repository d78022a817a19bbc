"""PodTopologySpread: keeps pods that match a selector evenly spread over topology domains.

A DoNotSchedule constraint refuses a node if one more pod in its domain would exceed the emptiest domain by more than
`maxSkew`; a ScheduleAnyway constraint prefers emptier domains. Pods without constraints get those of the profile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from bayplan.api import selectors
from bayplan.api.selectors import LabelSelector
from bayplan.scheduler.framework.arguments import PodTopologySpreadArgs
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.labels import Bools, Ints, Rows
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher
from bayplan.scheduler.snapshot.shape import compiled_or_nothing
from bayplan.scheduler.snapshot.taints import TaintKey, has_untolerated

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
_NO_DOMAIN_COUNT: Final = 2**31 - 1
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


@dataclass(slots=True)
class _Domains:
    """One constraint and its counts. `eligible`: rows that count; `counts`: matching pods per domain, last entry 0."""

    constraint: Constraint
    ids: Any
    eligible: Bools
    counter: PodCounter | None
    self_match: int
    counts: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    least: int = 0


@dataclass(slots=True)
class _Score:
    """`raw`: rounded score per row; `ignored`: rows that lack a topology label."""

    raw: Ints
    ignored: Bools


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuses and ranks nodes by how full their domains are."""

    name = "PodTopologySpread"
    filter_scope = Scope.CLUSTER
    score_scope = Scope.CLUSTER
    normalizes = True

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
        selector = self._default_selector(pod)
        if selector.is_everything():
            return []
        return [Constraint(key, skew, domains, selector, True, False) for key, skew, domains in defaults]

    def _default_selector(self, pod: PodShape) -> LabelSelector:
        """Everything that the pod's services and its controller select together; everything if there are none."""
        catalog = self.snapshot.catalog
        labels: dict[str, str] = {}
        for service in catalog.services.values():
            wanted = service.spec.selector
            same = service.metadata.namespace == pod.namespace
            if same and wanted and all(pod.labels.get(key) == value for key, value in wanted.items()):
                labels |= wanted
        owner = pod.owner
        if owner is None:
            return selectors.from_map(labels)
        key = f"{pod.namespace}/{owner.name}"
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = catalog.replication_controllers.get(key)
            if controller is not None:
                labels |= controller.spec.selector
            return selectors.from_map(labels)
        selector = selectors.from_map(labels)
        if owner.api_version == "apps/v1" and owner.kind in ("ReplicaSet", "StatefulSet"):
            tables: dict[str, Mapping[str, Any]] = {
                "ReplicaSet": catalog.replica_sets,
                "StatefulSet": catalog.stateful_sets,
            }
            workload = tables[owner.kind].get(key)
            if workload is not None:
                selector = selector.merged(compiled_or_nothing(workload.spec.selector))
        return selector

    def _domains(self, constraints: list[Constraint], pod: PodShape, *, need_all_labels: bool) -> list[_Domains]:
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
            found.append(
                _Domains(
                    item,
                    self._ids(item.topology_key),
                    eligible,
                    self._counter(item, pod.namespace),
                    int(item.selector.matches(pod.labels)),
                )
            )
        return found

    def _tolerated(self, pod: PodShape) -> Bools:
        tolerations = pod.spec.tolerations

        def tolerated(taints: tuple[TaintKey, ...] | None) -> bool:
            return not has_untolerated(tolerations, taints or ())

        return self.snapshot.taints.where(tolerated, self.snapshot.all_rows)

    def _counter(self, constraint: Constraint, namespace: str) -> PodCounter | None:
        """Counts matching pods per node; None for a selector that selects all, which counts nothing."""
        selector = constraint.selector
        if selector.is_everything():
            return None

        def matches(pod_namespace: str, labels: Mapping[str, str]) -> bool:
            return pod_namespace == namespace and selector.matches(labels)

        return self.snapshot.counts.counter(("spread", namespace, selector), matches, live_only=True)

    def _ids(self, topology_key: str) -> Any:
        return self.snapshot.label_column(topology_key).ids[: self.snapshot.size]

    # Filter

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        if not constraints:
            return SKIP
        state.data[self.name] = self._domains(constraints, pod, need_all_labels=True)
        self.refresh_filter(state, pod)
        return None

    def refresh_filter(self, state: CycleState, pod: PodShape) -> None:
        domains: list[_Domains] = state.data[self.name]
        for item in domains:
            placed = item.ids[item.eligible]
            length = len(self.snapshot.label_column(item.constraint.topology_key).values) + 1
            item.counts = np.zeros(length, dtype=np.int64)
            if item.counter is not None:
                weights = item.counter.per_row[: self.snapshot.size][item.eligible]
                item.counts = np.bincount(placed, weights=weights, minlength=length).astype(np.int64)
            present = np.zeros(length, dtype=np.bool_)
            present[placed] = True
            known = int(present.sum())
            item.least = int(item.counts[present].min()) if known else _NO_DOMAIN_COUNT
            if known < item.constraint.min_domains:
                item.least = 0

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        unlabelled, skewed = self._verdicts()
        codes = np.zeros(self.snapshot.select(rows), dtype=np.int32)
        domains: list[_Domains] = state.data[self.name]
        for item in domains:
            ids = item.ids[rows]
            over = item.counts[ids] + item.self_match - item.least > item.constraint.max_skew
            verdict = np.where(ids < 0, unlabelled, np.where(over, skewed, 0))
            codes = np.where(codes == 0, verdict, codes)
        return codes.astype(np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        unlabelled, skewed = self._verdicts()
        domains: list[_Domains] = state.data[self.name]
        for item in domains:
            domain = item.ids.item(row)
            if domain < 0:
                return unlabelled
            if item.counts.item(domain) + item.self_match - item.least > item.constraint.max_skew:
                return skewed
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
        ignored = np.zeros(size, dtype=np.bool_)
        if need_all:
            for item in domains:
                ignored |= item.ids < 0
        chosen = np.zeros(size, dtype=np.bool_)
        chosen[feasible] = True
        chosen &= ~ignored
        total = np.zeros(size, dtype=np.float64)
        for item in domains:
            counts, spread = self._domain_counts(item, chosen)
            cost = counts.astype(np.float64) * math.log(spread + 2) + float(item.constraint.max_skew - 1)
            total += np.where(item.ids >= 0, cost, 0.0)
        whole = np.trunc(total)
        rounded = (whole + (total - whole >= 0.5)).astype(np.int64)
        state.score_data[self.name] = _Score(rounded, ignored)
        return None

    def _domain_counts(self, item: _Domains, chosen: Bools) -> tuple[Ints, int]:
        """Per row, the matching pods in its domain; and how many domains the feasible nodes make up."""
        size = self.snapshot.size
        per_row = item.counter.per_row[:size] if item.counter is not None else np.zeros(size, dtype=np.int64)
        if item.constraint.topology_key == HOSTNAME:
            return per_row, int(chosen.sum())
        length = len(self.snapshot.label_column(item.constraint.topology_key).values) + 1
        ids = np.where(item.ids < 0, length - 1, item.ids)
        counts = np.bincount(ids[item.eligible], weights=per_row[item.eligible], minlength=length).astype(np.int64)
        return counts[ids], len(np.unique(ids[chosen]))

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        data: _Score = state.score_data[self.name]
        return np.where(data.ignored[rows], 0, data.raw[rows])

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        data: _Score = state.score_data[self.name]
        ignored = data.ignored[feasible]
        counted = scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        highest, lowest = int(counted.max()), int(counted.min())
        if highest == 0:
            return np.where(ignored, 0, MAX_NODE_SCORE)
        return np.where(ignored, 0, MAX_NODE_SCORE * (highest + lowest - scores) // highest)

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        pod_events = Action.ADD | Action.POD_LABEL | Action.DELETE
        return (
            EventHint("Pod", pod_events, self._pod_matters),
            EventHint("Node", Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT, self._node_matters),
        )

    def _pod_matters(self, pod: PodInfo, old: Any, new: Any) -> bool:
        constraints = self._constraints(pod.shape, DO_NOT_SCHEDULE)
        others: Iterable[Any] = (other for other in (old, new) if other is not None)
        return any(
            other.metadata.namespace == pod.shape.namespace and item.selector.matches(other.metadata.labels)
            for other in others
            for item in constraints
        )

    def _node_matters(self, pod: PodInfo, old: Any, new: Any) -> bool:
        keys = {item.topology_key for item in self._constraints(pod.shape, DO_NOT_SCHEDULE)}
        return any(node is not None and keys <= node.metadata.labels.keys() for node in (old, new))


def _with_match_labels(selector: LabelSelector, keys: tuple[str, ...], labels: Mapping[str, str]) -> LabelSelector:
    """The selector narrowed to pods with the same values of `matchLabelKeys`."""
    same = {key: labels[key] for key in keys if key in labels}
    return selector.merged(selectors.from_map(same)) if same else selector
