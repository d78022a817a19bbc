"""InterPodAffinity: pods that must, must not, would rather or rather not share a topology domain with other pods.

Three rules refuse a node: the pod's own required affinity, its own required anti-affinity, and the required
anti-affinity of pods that already run. Preferences, the pod's and those of running pods, make the score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api.selectors import NOTHING, LabelSelector
from bayplan.scheduler.framework.arguments import InterPodAffinityArgs
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
from bayplan.scheduler.snapshot.counters import PodCounter, TermKey
from bayplan.scheduler.snapshot.labels import Bools, Ints, Rows
from bayplan.scheduler.snapshot.shape import PREFERRED_AFFINITY, PREFERRED_ANTI, REQUIRED_AFFINITY, REQUIRED_ANTI


@dataclass(frozen=True, slots=True)
class _Target:
    """The pods that a term of the incoming pod means: its namespace selector is already resolved to names."""

    namespaces: frozenset[str]
    all_namespaces: bool
    selector: LabelSelector
    topology_key: str
    weight: int

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.all_namespaces or namespace in self.namespaces) and self.selector.matches(labels)

    @property
    def question(self) -> tuple[object, ...]:
        return (self.all_namespaces, self.namespaces, self.selector)


@dataclass(slots=True)
class _Filter:
    """What Filter needs. `together`/`apart`: a counter per own term; `*_ok`: per row, worked out from the counts."""

    affinity: tuple[_Target, ...]
    anti: tuple[_Target, ...]
    together: PodCounter | None
    apart: tuple[PodCounter, ...]
    matches_itself: bool
    affinity_ok: Bools | None = None
    anti_blocked: Bools | None = None
    existing_blocked: Bools | None = None


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuses and ranks topology domains by the pods in them."""

    name = "InterPodAffinity"
    filter_scope = Scope.CLUSTER
    score_scope = Scope.CLUSTER
    normalizes = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, InterPodAffinityArgs) else InterPodAffinityArgs()

    # Filter

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        existing = self._existing_blocked(pod)
        if existing is None and not pod.required_affinity and not pod.required_anti:
            return SKIP
        affinity, anti = self._targets(pod.required_affinity), self._targets(pod.required_anti)
        data = _Filter(
            affinity,
            anti,
            self._count_all(affinity) if affinity else None,
            tuple(self._count(target) for target in anti),
            bool(affinity) and all(target.matches(pod.namespace, pod.labels) for target in affinity),
        )
        state.data[self.name] = data
        self._fill(data, existing)
        return None

    def refresh_filter(self, state: CycleState, pod: PodShape) -> None:
        self._fill(state.data[self.name], self._existing_blocked(pod))

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        data: _Filter = state.data[self.name]
        codes = np.zeros(self.snapshot.select(rows), dtype=np.int32)
        for blocked, code in self._rules(data):
            codes = np.where((codes == 0) & blocked[rows], code, codes)
        return codes.astype(np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        return next((code for blocked, code in self._rules(state.data[self.name]) if blocked.item(row)), 0)

    def _rules(self, data: _Filter) -> Iterable[tuple[Bools, int]]:
        code = self.reasons.code
        if data.affinity_ok is not None:
            reason = "node(s) didn't match pod affinity rules"
            yield ~data.affinity_ok, code(Status.UNRESOLVABLE, self.name, reason)
        if data.anti_blocked is not None:
            reason = "node(s) didn't match pod anti-affinity rules"
            yield data.anti_blocked, code(Status.UNSCHEDULABLE, self.name, reason)
        if data.existing_blocked is not None:
            reason = "node(s) didn't satisfy existing pods anti-affinity rules"
            yield data.existing_blocked, code(Status.UNSCHEDULABLE, self.name, reason)

    def _fill(self, data: _Filter, existing: Bools | None) -> None:
        data.existing_blocked = existing
        if data.together is not None:
            data.affinity_ok = self._affinity_ok(data, data.together)
        if data.anti:
            blocked = np.zeros(self.snapshot.size, dtype=np.bool_)
            for target, counter in zip(data.anti, data.apart, strict=True):
                ids = self._ids(target.topology_key)
                blocked |= _gather(self._per_domain(target.topology_key, counter) > 0, ids)
            data.anti_blocked = blocked

    def _affinity_ok(self, data: _Filter, counter: PodCounter) -> Bools:
        """Rows whose domains hold matching pods; if no domain does and the pod matches itself, all with the labels."""
        labelled = np.ones(self.snapshot.size, dtype=np.bool_)
        satisfied = np.ones(self.snapshot.size, dtype=np.bool_)
        found = False
        for target in data.affinity:
            ids = self._ids(target.topology_key)
            occupied = self._per_domain(target.topology_key, counter) > 0
            found = found or bool(occupied.any())
            labelled &= ids >= 0
            satisfied &= _gather(occupied, ids)
        if not found and data.matches_itself:
            return labelled
        return labelled & satisfied

    def _existing_blocked(self, pod: PodShape) -> Bools | None:
        """Rows in domains where a running pod wants none like this; None if there are none."""
        blocked: Bools | None = None
        namespace_labels = self.snapshot.catalog.namespace_labels(pod.namespace)
        for group in self.snapshot.counts.terms(REQUIRED_ANTI):
            if not group.key.matches(pod.namespace, pod.labels, namespace_labels):
                continue
            occupied = group.domains() > 0
            if not occupied.any():
                continue
            hit: Bools = occupied[group.column.ids[: self.snapshot.size]]
            blocked = hit if blocked is None else blocked | hit
        return blocked

    # Score

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        own = bool(pod.preferred_affinity or pod.preferred_anti)
        if self.args.ignore_preferred_terms_of_existing_pods and not own:
            return SKIP
        scores: dict[str, Ints] = {}
        for sign, keys in ((1, pod.preferred_affinity), (-1, pod.preferred_anti)):
            for target in self._targets(keys):
                counts = np.append(self._per_domain(target.topology_key, self._count(target)), 0)
                _credit(scores, target.topology_key, counts, sign * target.weight)
        namespace_labels = self.snapshot.catalog.namespace_labels(pod.namespace)
        for kind, weight in ((REQUIRED_AFFINITY, self.args.hard_pod_affinity_weight), (PREFERRED_AFFINITY, None)):
            self._credit_existing(scores, pod, kind, namespace_labels, 1, weight)
        self._credit_existing(scores, pod, PREFERRED_ANTI, namespace_labels, -1, None)
        if not scores:
            return Skip(lasting=not own)
        total = np.zeros(self.snapshot.size, dtype=np.int64)
        for topology_key, per_domain in scores.items():
            total += per_domain[self._ids(topology_key)]
        state.score_data[self.name] = total
        return None

    def _credit_existing(
        self,
        scores: dict[str, Ints],
        pod: PodShape,
        kind: str,
        namespace_labels: Mapping[str, str],
        sign: int,
        weight: int | None,
    ) -> None:
        if weight == 0:
            return
        for group in self.snapshot.counts.terms(kind):
            key = group.key
            if key.matches(pod.namespace, pod.labels, namespace_labels):
                _credit(scores, key.topology_key, group.domains(), sign * (key.weight if weight is None else weight))

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        total: Ints = state.score_data[self.name]
        return total[rows]

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        if not len(scores):
            return scores
        lowest, span = scores.min(), scores.max() - scores.min()
        if span == 0:
            return np.zeros_like(scores)
        scaled: Ints = (MAX_NODE_SCORE * ((scores - lowest).astype(np.float64) / float(span))).astype(np.int64)
        return scaled

    # Terms and domains

    def _targets(self, keys: tuple[TermKey, ...]) -> tuple[_Target, ...]:
        return tuple(self._target(key) for key in keys)

    def _target(self, key: TermKey) -> _Target:
        everywhere = key.namespace_selector.is_everything()
        namespaces = key.namespaces
        if not everywhere and key.namespace_selector != NOTHING:
            namespaces |= {
                name
                for name, namespace in self.snapshot.catalog.namespaces.items()
                if key.namespace_selector.matches(namespace.metadata.labels)
            }
        return _Target(namespaces, everywhere, key.selector, key.topology_key, key.weight)

    def _count(self, target: _Target) -> PodCounter:
        return self.snapshot.counts.counter(("affinity", target.question), target.matches, live_only=False)

    def _count_all(self, targets: tuple[_Target, ...]) -> PodCounter:
        """Counts pods that every one of the terms means."""
        key = ("affinity-all", tuple(target.question for target in targets))

        def matches(namespace: str, labels: Mapping[str, str]) -> bool:
            return all(target.matches(namespace, labels) for target in targets)

        return self.snapshot.counts.counter(key, matches, live_only=False)

    def _ids(self, topology_key: str) -> Any:
        return self.snapshot.label_column(topology_key).ids[: self.snapshot.size]

    def _per_domain(self, topology_key: str, counter: PodCounter) -> Ints:
        """Pods per domain of a topology key."""
        ids = self._ids(topology_key)
        placed = ids >= 0
        column = self.snapshot.label_column(topology_key)
        counts = counter.per_row[: self.snapshot.size][placed]
        return np.bincount(ids[placed], weights=counts, minlength=len(column.values)).astype(np.int64)

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Pod", Action.ADD | Action.POD_LABEL | Action.DELETE, self._pod_matters),
            EventHint("Node", Action.ADD | Action.NODE_LABEL, self._node_matters),
        )

    def _pod_matters(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """A new or relabelled pod can be what affinity waits for; a deleted or relabelled one stood in the way."""
        shape = pod.shape
        for other in (new, old):
            if other is None:
                continue
            namespace, labels = other.metadata.namespace, other.metadata.labels
            terms = (*shape.required_affinity, *shape.required_anti)
            if any(target.matches(namespace, labels) for target in self._targets(terms)):
                return True
        if new is not None or old.spec.affinity is None:
            return False
        return old.spec.affinity.pod_anti_affinity is not None

    def _node_matters(self, pod: PodInfo, old: Any, new: Any) -> bool:
        keys = {term.topology_key for term in (*pod.shape.required_affinity, *pod.shape.required_anti)}
        labels = new.metadata.labels
        if old is None:
            return not keys or any(key in labels for key in keys)
        before = old.metadata.labels
        return not keys or any(labels.get(key) != before.get(key) for key in keys)


def _credit(scores: dict[str, Ints], topology_key: str, counts: Ints, weight: int) -> None:
    """Credit each domain with its pods times a weight. The last entry, for nodes without a domain, is zero."""
    if not counts.any():
        return
    credit = counts * weight
    known = scores.get(topology_key)
    scores[topology_key] = credit if known is None else known + credit


def _gather(per_domain: Bools, ids: Any) -> Bools:
    """Per row, the value of its domain; False where a row has none."""
    table = np.append(per_domain, False)
    return np.asarray(table[ids], dtype=np.bool_)
