"""InterPodAffinity: pods that must, must not, would rather or rather not share a topology domain with other pods.

Three rules refuse a node: the pod's own required affinity, its own required anti-affinity, and the required
anti-affinity of pods that already run. Preferences, the pod's and those of running pods, make the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bayplan.api.pods.execution_rules import with_annotation_rules
from bayplan.api.selectors.labels import NOTHING, LabelSelector
from bayplan.scheduler.framework.arguments import InterPodAffinityArgs
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
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.counters import DomainCounts, PodCounter, TermKey
from bayplan.scheduler.snapshot.labels import Bools, ChangedRows, IntRows, Ints, LabelColumn, Rows, listed
from bayplan.scheduler.snapshot.shape import PREFERRED_AFFINITY, PREFERRED_ANTI, REQUIRED_AFFINITY, REQUIRED_ANTI

_FEW: Final = 4
"""Up to so many rows it costs least to look at them one by one."""


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


class _Watch:
    """The domains of one rule: `occupied[domain]` tells whether a pod that the rule means was there at the last look.

    The last entry, for nodes without the topology label, is False. `counter` keeps the counts alive.
    """

    __slots__ = ("counter", "counts", "ids", "occupied")

    def __init__(self, counts: DomainCounts, size: int, counter: PodCounter | None = None) -> None:
        self.counter = counter
        self.counts = counts
        self.ids = counts.column.ids[:size]
        self.occupied: Bools = counts.domains() > 0

    def changed(self, rows: ChangedRows) -> list[int]:
        """Those of some rows whose domains were filled or emptied since the last look."""
        if len(rows) <= _FEW:
            return listed(rows)
        index = np.asarray(rows, dtype=np.intp)
        ids = self.ids.take(index)
        differs = (self.counts.padded()[ids] > 0) != self.occupied[ids]
        found: list[int] = index[differs].tolist()
        return found

    def flip(self, row: int) -> IntRows | None:
        """Look at a row's domain again: the rows that it has if it was filled or emptied since, else None."""
        domain = self.ids.item(row)
        if domain < 0 or (self.counts.at(domain) > 0) == self.occupied.item(domain):
            return None
        self.occupied[domain] ^= True
        return self.counts.column.rows_of(domain)


@dataclass(slots=True)
class _Filter:
    """What Filter needs: what the three rules watch; all of it follows from `epoch`, the terms in use, and the shape.

    `codes`: the verdicts of the three. `found`: domains, of all the pod's own affinity terms, with pods that all of these terms mean.
    """

    together: list[_Watch]
    apart: list[_Watch]
    existing: list[_Watch]
    codes: tuple[int, int, int]
    matches_itself: bool
    epoch: int
    found: int

    @property
    def anywhere(self) -> bool:
        """No pod has what the pod wants near itself, but the pod does: it may start where it likes."""
        return self.matches_itself and not self.found


@dataclass(slots=True)
class _Credits:
    """What a topology key's domains earn: `credit[domain]`, zero in the last entry, is the weighted sum of `sources`."""

    column: LabelColumn
    sources: list[tuple[DomainCounts, int]]
    credit: Ints

    def add_up(self) -> None:
        """The credit of all domains."""
        length = len(self.column.values) + 1
        parts = [counts.padded()[:length] * np.int64(weight) for counts, weight in self.sources]
        self.credit = parts[0]
        for part in parts[1:]:
            self.credit += part

    def changed(self, rows: ChangedRows) -> list[int]:
        """Those of some rows whose domain's credit is not what it was at the last look."""
        if len(rows) <= _FEW:
            return listed(rows)
        index = np.asarray(rows, dtype=np.intp)
        ids = self.column.ids.take(index)
        off = self.credit[ids]
        for counts, weight in self.sources:
            off -= counts.padded()[ids] * weight
        found: list[int] = index[off.nonzero()[0]].tolist()
        return found

    def look_again(self, domain: int) -> int:
        """Bring one domain's credit up to date; returns by how much it changed."""
        now = sum(counts.at(domain) * weight for counts, weight in self.sources)
        delta = now - self.credit.item(domain)
        self.credit[domain] = now
        return delta


@dataclass(slots=True)
class _Score:
    """Credits per topology key, and their sum per row. `counters` keeps the counts of the pod's own terms alive."""

    credits: list[_Credits]
    raw: Ints
    counters: list[PodCounter]


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScaledScorePlugin):
    """Refuses and ranks topology domains by the pods in them."""

    name = "InterPodAffinity"
    filter_scope = Scope.CLUSTER
    score_scope = Scope.CLUSTER
    filter_alone = 'error reading "PreFilterInterPodAffinity" from cycleState: not found'
    score_alone = 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, InterPodAffinityArgs) else InterPodAffinityArgs()

    # Filter

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        has_own = pod.required_affinity or pod.required_anti
        if not has_own and not self.snapshot.counts.may_mean(pod.labels):
            return SKIP
        data = self._look(pod)
        if not has_own and not any(one.occupied.any() for one in data.existing):
            return SKIP
        state.data[self.name] = data
        return None

    def refresh_filter(self, state: CycleState, pod: PodShape) -> None:
        state.data[self.name] = self._look(pod)

    def catch_up(self, state: CycleState, pod: PodShape, rows: ChangedRows) -> Moved:
        data: _Filter = state.data[self.name]
        if data.epoch != self.snapshot.counts.epoch_of(pod.labels):
            self.refresh_filter(state, pod)
            return EVERY_ROW
        was_anywhere = data.anywhere
        moved: list[IntRows] = []
        for watch in data.together:
            for row in watch.changed(rows):
                flipped = watch.flip(row)
                if flipped is not None:
                    data.found += 1 if watch.occupied[watch.ids[row]] else -1
                    moved.append(flipped)
        for watch in (*data.apart, *data.existing):
            for row in watch.changed(rows):
                flipped = watch.flip(row)
                if flipped is not None:
                    moved.append(flipped)
        if data.anywhere is not was_anywhere:
            return EVERY_ROW
        return joined(moved)

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        data: _Filter = state.data[self.name]
        not_together, not_apart, not_wanted = data.codes
        codes = np.zeros(self.snapshot.select(rows), dtype=np.int32)
        for watch in data.existing:
            codes[watch.occupied[watch.ids[rows]]] = not_wanted
        for watch in data.apart:
            codes[watch.occupied[watch.ids[rows]]] = not_apart
        for watch in data.together:
            ids = watch.ids[rows]
            codes[ids < 0 if data.anywhere else ~watch.occupied[ids]] = not_together
        return codes

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        data: _Filter = state.data[self.name]
        not_together, not_apart, not_wanted = data.codes
        for watch in data.together:
            domain = watch.ids.item(row)
            if domain < 0 or not (data.anywhere or watch.occupied.item(domain)):
                return not_together
        for watch in data.apart:
            if watch.occupied.item(watch.ids.item(row)):
                return not_apart
        for watch in data.existing:
            if watch.occupied.item(watch.ids.item(row)):
                return not_wanted
        return 0

    def _look(self, pod: PodShape) -> _Filter:
        """Find out what is to be watched for a pod, and how things stand."""
        affinity, anti = self._targets(pod.required_affinity), self._targets(pod.required_anti)
        together = self._watch_all(affinity)
        apart = [self._watch(self._count(target), target.topology_key) for target in anti]
        counts = self.snapshot.counts
        namespace_labels = self.snapshot.catalog.namespace_labels(pod.namespace)
        existing = [
            _Watch(group, self.snapshot.size)
            for group in counts.terms(REQUIRED_ANTI, pod.labels)
            if group.key.matches(pod.namespace, pod.labels, namespace_labels)
        ]
        itself = bool(affinity) and all(target.matches(pod.namespace, pod.labels) for target in affinity)
        found = sum(int(np.count_nonzero(watch.occupied)) for watch in together)
        return _Filter(together, apart, existing, self._codes(), itself, counts.epoch_of(pod.labels), found)

    def _codes(self) -> tuple[int, int, int]:
        code = self.reasons.code
        return (
            code(Status.UNRESOLVABLE, self.name, "node(s) didn't match pod affinity rules"),
            code(Status.UNSCHEDULABLE, self.name, "node(s) didn't match pod anti-affinity rules"),
            code(Status.UNSCHEDULABLE, self.name, "node(s) didn't satisfy existing pods anti-affinity rules"),
        )

    def _watch_all(self, affinity: tuple[_Target, ...]) -> list[_Watch]:
        if not affinity:
            return []
        counter = self._count_all(affinity)
        return [self._watch(counter, target.topology_key) for target in affinity]

    def _watch(self, counter: PodCounter, topology_key: str) -> _Watch:
        return _Watch(counter.over(self.snapshot.label_column(topology_key)), self.snapshot.size, counter)

    # Score

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        own = bool(pod.preferred_affinity or pod.preferred_anti)
        ignores_others = self.args.ignore_preferred_terms_of_existing_pods
        if not own and (ignores_others or not self.snapshot.counts.may_mean(pod.labels)):
            return SKIP
        counters: list[PodCounter] = []
        sources = self._sources(pod, counters)
        if not any(counts.pods for counts, _ in sources):
            return Skip(lasting=not own)
        by_key: dict[int, _Credits] = {}
        for counts, weight in sources:
            column = counts.column
            credits = by_key.setdefault(id(column), _Credits(column, [], np.zeros(0, dtype=np.int64)))
            credits.sources.append((counts, weight))
        raw: Ints | None = None
        for credits in by_key.values():
            credits.add_up()
            here = credits.credit.take(credits.column.ids[: self.snapshot.size])
            raw = here if raw is None else raw + here
        assert raw is not None, "there are sources"
        state.score_data[self.name] = _Score(list(by_key.values()), raw, counters)
        return None

    def _sources(self, pod: PodShape, counters: list[PodCounter]) -> list[tuple[DomainCounts, int]]:
        """Counts of pods per domain that bear on the score, each with its weight; adds what has to be held."""
        snapshot = self.snapshot
        sources: list[tuple[DomainCounts, int]] = []
        for sign, keys in ((1, pod.preferred_affinity), (-1, pod.preferred_anti)):
            for target in self._targets(keys):
                counter = self._count(target)
                counters.append(counter)
                counts = counter.over(snapshot.label_column(target.topology_key))
                sources.append((counts, sign * target.weight))
        labels = snapshot.catalog.namespace_labels(pod.namespace)
        for kind, sign in ((REQUIRED_AFFINITY, 1), (PREFERRED_AFFINITY, 1), (PREFERRED_ANTI, -1)):
            fixed = self.args.hard_pod_affinity_weight if kind == REQUIRED_AFFINITY else None
            if fixed == 0:
                continue
            sources += [
                (group, sign * (group.key.weight if fixed is None else fixed))
                for group in snapshot.counts.terms(kind, pod.labels)
                if group.key.matches(pod.namespace, pod.labels, labels)
            ]
        return sources

    def rescore(self, state: CycleState, pod: PodShape, codes: Codes, rows: ChangedRows) -> Moved | None:
        data: _Score = state.score_data[self.name]
        moved: list[IntRows] = []
        pods = 0
        for credits in data.credits:
            ids = credits.column.ids
            for row in credits.changed(rows):
                domain = ids.item(row)
                delta = credits.look_again(domain) if domain >= 0 else 0
                if delta:
                    there = credits.column.rows_of(domain)
                    data.raw[there if len(there) < len(data.raw) else EVERY_ROW] += delta
                    moved.append(there)
            pods += sum(counts.pods for counts, _ in credits.sources)
        return joined(moved) if pods else None

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        total: Ints = state.score_data[self.name].raw
        return total[rows]

    def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        data: _Score = state.score_data[self.name]
        return data.raw.item(row)

    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        span = highest - lowest
        if span == 0:
            return np.zeros_like(scores)
        scaled: Ints = (MAX_NODE_SCORE * ((scores - lowest).astype(np.float64) / float(span))).astype(np.int64)
        return scaled

    def scale_one(self, state: CycleState, pod: PodShape, score: int, lowest: int, highest: int) -> int:
        span = highest - lowest
        return int(MAX_NODE_SCORE * (float(score - lowest) / float(span))) if span else 0

    # Terms and domains

    def _targets(self, keys: tuple[TermKey, ...]) -> tuple[_Target, ...]:
        return tuple(self._target(key) for key in keys)

    def _target(self, key: TermKey) -> _Target:
        """What a term of the pod that is scheduled means.

        As in kube-scheduler, a namespace selector that an empty set of labels satisfies takes all namespaces.
        """
        everywhere = key.namespace_selector.matches({})
        namespaces = key.namespaces
        if not everywhere and key.namespace_selector != NOTHING:
            namespaces |= {
                name
                for name, namespace in self.snapshot.catalog.namespaces.items()
                if key.namespace_selector.matches(namespace.metadata.labels)
            }
        return _Target(namespaces, everywhere, key.selector, key.topology_key, key.weight)

    def _count(self, target: _Target) -> PodCounter:
        key = ("affinity", target.question)
        return self.snapshot.counts.counter(key, target.matches, live_only=False, anchor=target.selector.anchor)

    def _count_all(self, targets: tuple[_Target, ...]) -> PodCounter:
        """Counts pods that every one of the terms means."""
        key = ("affinity-all", tuple(target.question for target in targets))

        def matches(namespace: str, labels: Mapping[str, str]) -> bool:
            return all(target.matches(namespace, labels) for target in targets)

        anchor = next((anchor for target in targets if (anchor := target.selector.anchor)), None)
        return self.snapshot.counts.counter(key, matches, live_only=False, anchor=anchor)

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Pod", Action.ADD | Action.POD_LABEL | Action.DELETE, self._pod_matters, per_shape=True),
            EventHint("Pod", Action.POD_LABEL, is_itself),  # other pods may keep it off no more
            EventHint("Node", Action.ADD | Action.NODE_LABEL, self._node_matters, per_shape=True),
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
        if new is not None:
            return False
        affinity = with_annotation_rules(old).spec.affinity
        return affinity is not None and affinity.pod_anti_affinity is not None

    def _node_matters(self, pod: PodInfo, old: Any, new: Any) -> bool:
        keys = {term.topology_key for term in (*pod.shape.required_affinity, *pod.shape.required_anti)}
        labels = new.metadata.labels
        if old is None:
            return not keys or any(key in labels for key in keys)
        before = old.metadata.labels
        return not keys or any(labels.get(key) != before.get(key) for key in keys)
