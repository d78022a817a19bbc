"""Counts of pods per node, kept per distinct question instead of per pod.

Two kinds. A *pod counter* answers "how many pods on each node have these namespaces and labels", for spread constraints
and for the (anti-)affinity of an incoming pod. A *term group* answers "how many pods on each node carry this affinity
term", for the terms of pods that already run.

Pods with equal namespace and labels form one label group, so that a selector is evaluated once per group: a cluster of
100,000 pods of 500 deployments asks it 500 times, and a further pod of a known group costs one addition per counter.
Most questions name a label that has to be there, their *anchor*: they are asked only about groups that have it.

Nothing outlives its use: label groups and term groups go with the last pod shape that refers to them, tallies with the
last holder of their counter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary, ref

import numpy as np

from bayplan.api.selectors.labels import LabelSelector
from bayplan.scheduler.snapshot.labels import Counts, LabelColumn, grow

Label = tuple[str, str]
"""Key and value."""
_FEW_ENTRIES = 1024
"""Entries in lists of groups (or of terms) before those of groups that are gone are looked for."""
_MAX_EPOCHS = 1 << 16
"""Anchors of which it is remembered when their terms came up or went away."""


class LabelGroup:
    """All pods with one namespace and one set of labels.

    `rows[row]`: all pods, `live_rows[row]`: those that are not terminating. `tallies`: those that count the group.
    """

    __slots__ = ("__weakref__", "labels", "live_rows", "namespace", "rows", "tallies")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.rows: dict[int, int] = {}
        self.live_rows: dict[int, int] = {}
        self.tallies: list[Tally] = []


class DomainCounts:
    """Pods per topology domain: `per_domain[domain]`, where domains are the numbers of `column`.

    `per_domain` may be longer or shorter than the column's list of values; what is missing is zero. `pods` is the sum:
    pods on nodes without the topology label do not count. A node's label changes only while its pods are counted out.
    """

    __slots__ = ("column", "per_domain", "pods")

    def __init__(self, column: LabelColumn) -> None:
        self.column = column
        self.pods = 0
        self.per_domain: Counts = np.zeros(len(column.values) + 1, dtype=np.int32)

    def add(self, row: int, delta: int) -> None:
        """Count a pod on a node in or out."""
        domain = self.column.ids.item(row)
        if domain < 0:
            return
        self.pods += delta
        if domain >= len(self.per_domain):
            self.per_domain = grow(self.per_domain, 2 * domain + 1, 0)
        self.per_domain[domain] = self.per_domain.item(domain) + delta

    def at(self, domain: int) -> int:
        """Pods in one domain."""
        return self.per_domain.item(domain) if domain < len(self.per_domain) else 0

    def domains(self) -> Counts:
        """Pods per domain, with one more entry, zero, for nodes without the topology label."""
        return self.padded()[: len(self.column.values) + 1].copy()

    def padded(self) -> Counts:
        """Pods per domain, with more entries, zero, the last of them for nodes without the topology label; not to be changed, nor kept."""
        wanted = len(self.column.values) + 1
        if len(self.per_domain) < wanted:
            self.per_domain = grow(self.per_domain, 2 * wanted, 0)
        return self.per_domain


class Tally:
    """`per_row[row]` = number of matching pods on that node.

    `live_only` leaves terminating pods out. `anchor`: a label that all matching pods have.
    """

    __slots__ = ("anchor", "live_only", "matches", "per_row", "spread")

    def __init__(
        self,
        matches: Callable[[str, Mapping[str, str]], bool],
        live_only: bool,
        capacity: int,
        anchor: Label | None = None,
    ) -> None:
        self.matches = matches
        self.live_only = live_only
        self.anchor = anchor
        self.per_row: Counts = np.zeros(capacity, dtype=np.int32)
        self.spread: list[DomainCounts] = []
        """The same pods per domain of topology keys."""

    def add(self, row: int, delta: int) -> None:
        """Count a pod on a node in or out."""
        self.per_row[row] = self.per_row.item(row) + delta
        for counts in self.spread:
            counts.add(row, delta)


class PodCounter:
    """A hold on a tally: whoever reads counts keeps one, and the tally goes when nobody does any more."""

    __slots__ = ("__weakref__", "_tally")

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    @property
    def per_row(self) -> Counts:
        """Matching pods per node."""
        return self._tally.per_row

    def over(self, column: LabelColumn) -> DomainCounts:
        """Matching pods per domain of a topology key; kept up to date for as long as the counter is held."""
        for counts in self._tally.spread:
            if counts.column is column:
                return counts
        counts = DomainCounts(column)
        for row in np.flatnonzero(self.per_row).tolist():
            counts.add(row, self.per_row.item(row))
        self._tally.spread.append(counts)
        return counts


class TermKey(NamedTuple):
    """Everything that tells affinity terms apart. `namespaces` is None where a namespace selector takes all of them."""

    kind: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    selector: LabelSelector
    topology_key: str
    weight: int

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod is meant by the term."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class TermGroup(DomainCounts):
    """The pods that carry a term, per domain of the term's topology key."""

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: TermKey, column: LabelColumn) -> None:
        super().__init__(column)
        self.key = key


def _bump(rows: dict[int, int], row: int, delta: int) -> None:
    count = rows.get(row, 0) + delta
    if count:
        rows[row] = count
    else:
        rows.pop(row, None)


class Held(NamedTuple):
    """How much a `PodCounts` remembers."""

    groups: int
    tallies: int
    terms: int


class PodCounts:
    """All label groups, counters and term groups of a snapshot.

    `term_epoch` changes whenever a term comes up for the first time or goes away with its last pod; `epoch_of` says when
    that last happened to a term that can mean pods with certain labels.
    """

    __slots__ = (
        "_anchored",
        "_anchors_at_most",
        "_capacity",
        "_column",
        "_counters",
        "_dead",
        "_epochs",
        "_groups",
        "_groups_of",
        "_listed",
        "_listed_at_most",
        "_restored",
        "_tallies",
        "_term_anchors",
        "_terms",
        "term_epoch",
    )

    def __init__(self, capacity: int, column: Callable[[str], LabelColumn]) -> None:
        self._capacity = capacity
        self._column = column
        self._groups: WeakValueDictionary[Hashable, LabelGroup] = WeakValueDictionary()
        self._groups_of: dict[Label, list[ref[LabelGroup]]] = {}
        """Groups by each of their labels. Lists, since most labels of some workloads (names of pods) have one group only."""
        self._listed = 0
        """Entries in these lists."""
        self._listed_at_most = _FEW_ENTRIES
        self._tallies: dict[Hashable, Tally] = {}
        self._anchored: dict[Label | None, dict[Hashable, Tally]] = {}
        """The tallies by their anchors."""
        self._counters: dict[Hashable, ref[PodCounter]] = {}
        self._dead: list[tuple[Hashable, ref[PodCounter]]] = []
        """Counters that nobody holds any more; their tallies are dropped when no counting is going on."""
        self._terms: dict[tuple[str, Label | None], WeakValueDictionary[TermKey, TermGroup]] = {}
        """By kind and by the anchor of the term's selector."""
        self._term_anchors: set[Label | None] = set()
        """The anchors in `_terms`."""
        self._anchors_at_most = _FEW_ENTRIES
        self.term_epoch = 0
        self._epochs: dict[Label | None, int] = {}
        """By anchor, the epoch in which a term with that anchor last came up or went away."""
        self._restored: dict[Label | None, int] | None = None
        """While pods are supposed to come or go: what `_epochs` is to say again afterwards (0: nothing)."""

    @property
    def held(self) -> Held:
        """How much is remembered."""
        self._sweep()
        return Held(len(self._groups), len(self._tallies), sum(map(len, self._terms.values())))

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for tally in self._tallies.values():
            tally.per_row = grow(tally.per_row, capacity, 0)

    def group(self, namespace: str, labels: Mapping[str, str]) -> LabelGroup:
        """The label group of a pod, made if it is new."""
        key = (namespace, tuple(sorted(labels.items())))
        group = self._groups.get(key)
        if group is None:
            self._sweep()
            group = self._groups[key] = LabelGroup(namespace, labels)
            self._list(group)
            anchored = self._anchored
            if anchored:
                asked = [some for anchor in (None, *labels.items()) if (some := anchored.get(anchor))]
                tallies = [tally for some in asked for tally in some.values()]
                group.tallies = [tally for tally in tallies if tally.matches(namespace, labels)]
        return group

    def _list(self, group: LabelGroup) -> None:
        """List a new group under its labels."""
        entry = ref(group)
        for label in group.labels.items():
            self._groups_of.setdefault(label, []).append(entry)
        self._listed += len(group.labels)
        if self._listed > self._listed_at_most:
            alive = {label: [one for one in found if one() is not None] for label, found in self._groups_of.items()}
            self._groups_of = {label: found for label, found in alive.items() if found}
            self._listed = sum(map(len, self._groups_of.values()))
            self._listed_at_most = 2 * self._listed + _FEW_ENTRIES

    def _groups_with(self, anchor: Label | None) -> Iterator[LabelGroup]:
        if anchor is None:
            yield from self._groups.values()
            return
        for entry in self._groups_of.get(anchor, ()):
            group = entry()
            if group is not None:
                yield group

    def counter(
        self,
        key: Hashable,
        matches: Callable[[str, Mapping[str, str]], bool],
        *,
        live_only: bool,
        anchor: Label | None = None,
    ) -> PodCounter:
        """The counter for a question, made and filled if it is new. Equal keys must mean equal questions.

        anchor: a label without which no pod matches, if there is one.
        """
        known = self._counters.get(key)
        counter = known() if known is not None else None
        if counter is None:
            tally = self._tallies.get(key)
            if tally is None:
                self._sweep()
                tally = self._tallies[key] = self._filled(matches, live_only, anchor)
                self._anchored.setdefault(anchor, {})[key] = tally
            counter = PodCounter(tally)
            self._counters[key] = ref(counter, partial(self._died, key))
        return counter

    def _filled(
        self, matches: Callable[[str, Mapping[str, str]], bool], live_only: bool, anchor: Label | None
    ) -> Tally:
        tally = Tally(matches, live_only, self._capacity, anchor)
        for group in self._groups_with(anchor):
            if matches(group.namespace, group.labels):
                group.tallies.append(tally)
                for row, count in (group.live_rows if live_only else group.rows).items():
                    tally.per_row[row] += count
        return tally

    def _died(self, key: Hashable, counter: ref[PodCounter]) -> None:
        # May be called at any moment, even while pods are being counted.
        self._dead.append((key, counter))

    def _sweep(self) -> None:
        """Drop the tallies whose counters nobody holds."""
        while self._dead:
            key, counter = self._dead.pop()
            if self._counters.get(key) is not counter:
                continue
            del self._counters[key]
            tally = self._tallies.pop(key)
            anchored = self._anchored[tally.anchor]
            del anchored[key]
            if not anchored:
                del self._anchored[tally.anchor]
            for group in self._groups_with(tally.anchor):
                if tally in group.tallies:
                    group.tallies.remove(tally)

    def term(self, key: TermKey) -> TermGroup:
        """The group of a term, made if it is new."""
        where = (key.kind, key.selector.anchor)
        by_key = self._terms.get(where)
        if by_key is None:
            if len(self._terms) >= self._anchors_at_most:
                self._terms = {where: terms for where, terms in self._terms.items() if terms}
                self._term_anchors = {anchor for _, anchor in self._terms}
                self._anchors_at_most = 2 * len(self._terms) + _FEW_ENTRIES
            by_key = self._terms[where] = WeakValueDictionary()
            self._term_anchors.add(where[1])
        term = by_key.get(key)
        if term is None:
            term = by_key[key] = TermGroup(key, self._column(key.topology_key))
        return term

    def may_mean(self, labels: Mapping[str, str]) -> bool:
        """Whether there can be a term, of whatever kind, that means a pod with these labels; False is certain."""
        anchors = self._term_anchors
        return bool(anchors) and (None in anchors or not anchors.isdisjoint(labels.items()))

    def terms(self, kind: str, labels: Mapping[str, str]) -> list[TermGroup]:
        """The term groups of a kind that at least one pod in some domain carries and that may mean a pod with these labels.

        Those whose selector asks for a label that the pod does not have are left out; the others are to be looked at.
        """
        found: list[TermGroup] = []
        for anchor in (None, *labels.items()):
            by_key = self._terms.get((kind, anchor))
            if by_key:
                found += [group for group in by_key.values() if group.pods]
        return found

    def epoch_of(self, labels: Mapping[str, str]) -> int:
        """When a term that may mean a pod with these labels last came up or went away. It never goes back."""
        epochs = self._epochs
        if not epochs:
            return 0
        latest = epochs.get(None, 0)
        for label in labels.items():
            epoch = epochs.get(label, 0)
            latest = max(latest, epoch)
        return latest

    @contextmanager
    def what_if(self) -> Iterator[None]:
        """While pods are counted in or out for a while: what comes up or goes away then is forgotten afterwards."""
        before: dict[Label | None, int] = {}
        outer, self._restored = self._restored, before
        try:
            yield
        finally:
            self._epochs.update(before)
            self._restored = outer

    def _new_epoch(self, anchor: Label | None) -> None:
        self.term_epoch += 1
        epochs = self._epochs
        if self._restored is not None:
            self._restored.setdefault(anchor, epochs.get(anchor, 0))
        elif len(epochs) >= _MAX_EPOCHS:
            epochs.clear()
            anchor = None  # What is no longer known one by one counts as having happened to all of them just now.
        epochs[anchor] = self.term_epoch

    def terminate(self, group: LabelGroup, row: int) -> None:
        """A pod that is counted, and was live, terminates now."""
        _bump(group.live_rows, row, -1)
        for tally in group.tallies:
            if tally.live_only:
                tally.add(row, -1)

    def add(self, group: LabelGroup, terms: tuple[TermGroup, ...], row: int, delta: int, *, live: bool) -> None:
        """Count a pod in (`delta` 1) or out (-1). `live`: it counts for counters that leave terminating pods out."""
        _bump(group.rows, row, delta)
        if live:
            _bump(group.live_rows, row, delta)
        for tally in group.tallies:
            if live or not tally.live_only:
                tally.add(row, delta)
        for term in terms:
            before = term.pods
            term.add(row, delta)
            if bool(before) is not bool(term.pods):
                self._new_epoch(term.key.selector.anchor)
