"""Counts of pods per node, kept per distinct question instead of per pod.

Two kinds. A *pod counter* answers "how many pods on each node have these namespaces and labels", for spread constraints
and for the (anti-)affinity of an incoming pod. A *term group* answers "how many pods on each node carry this affinity
term", for the terms of pods that already run.

Pods with equal namespace and labels form one label group, so that a selector is evaluated once per group: a cluster of
100,000 pods of 500 deployments asks it 500 times, and a further pod of a known group costs one addition per counter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import numpy as np

from bayplan.api.selectors import LabelSelector
from bayplan.scheduler.snapshot.labels import Ints, LabelColumn, grow


class LabelGroup:
    """All pods with one namespace and one set of labels. `rows[row]` = (all pods, pods that are not terminating)."""

    __slots__ = ("counters", "labels", "live_rows", "namespace", "rows")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.rows: dict[int, int] = {}
        self.live_rows: dict[int, int] = {}
        self.counters: list[PodCounter] = []


class PodCounter:
    """`per_row[row]` = number of matching pods on that node. `live_only` leaves terminating pods out."""

    __slots__ = ("live_only", "matches", "per_row")

    def __init__(self, matches: Callable[[str, Mapping[str, str]], bool], live_only: bool, capacity: int) -> None:
        self.matches = matches
        self.live_only = live_only
        self.per_row: Ints = np.zeros(capacity, dtype=np.int64)


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


class TermGroup:
    """The pods that carry a term. `per_domain[domain]` = how many run in that domain of the term's topology key.

    Domains are the numbers of `column`; `per_domain` may be shorter than its list of values, the rest being zero.
    `pods` is the sum: pods on nodes without the topology label do not count, since the term means nothing there.
    """

    __slots__ = ("column", "key", "per_domain", "pods")

    def __init__(self, key: TermKey, column: LabelColumn) -> None:
        self.key = key
        self.column = column
        self.pods = 0
        self.per_domain: Ints = np.zeros(len(column.values) + 1, dtype=np.int64)

    def add(self, row: int, delta: int) -> None:
        """Count a pod on a node in or out."""
        domain = self.column.ids.item(row)
        if domain < 0:
            return
        self.pods += delta
        if domain >= len(self.per_domain):
            self.per_domain = grow(self.per_domain, 2 * domain + 1, 0)
        self.per_domain[domain] += delta

    def domains(self) -> Ints:
        """Pods per domain, with one more entry, zero, for nodes without the topology label."""
        wanted = len(self.column.values) + 1
        if len(self.per_domain) < wanted:
            self.per_domain = grow(self.per_domain, 2 * wanted, 0)
        return np.append(self.per_domain[: wanted - 1], 0)


def _bump(rows: dict[int, int], row: int, delta: int) -> None:
    count = rows.get(row, 0) + delta
    if count:
        rows[row] = count
    else:
        rows.pop(row, None)


class PodCounts:
    """All label groups, counters and term groups of a snapshot.

    `term_epoch` changes whenever a term comes up for the first time or goes away with its last pod.
    """

    __slots__ = ("_capacity", "_column", "_counters", "_groups", "_terms", "term_epoch")

    def __init__(self, capacity: int, column: Callable[[str], LabelColumn]) -> None:
        self._capacity = capacity
        self._column = column
        self._groups: dict[Hashable, LabelGroup] = {}
        self._counters: dict[Hashable, PodCounter] = {}
        self._terms: dict[str, dict[TermKey, TermGroup]] = {}
        self.term_epoch = 0

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for counter in self._counters.values():
            counter.per_row = grow(counter.per_row, capacity, 0)

    def group(self, namespace: str, labels: Mapping[str, str]) -> LabelGroup:
        """The label group of a pod, made if it is new."""
        key = (namespace, tuple(sorted(labels.items())))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = LabelGroup(namespace, labels)
            group.counters = [c for c in self._counters.values() if c.matches(namespace, labels)]
        return group

    def counter(
        self, key: Hashable, matches: Callable[[str, Mapping[str, str]], bool], *, live_only: bool
    ) -> PodCounter:
        """The counter for a question, made and filled if it is new. Equal keys must mean equal questions."""
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = PodCounter(matches, live_only, self._capacity)
            for group in self._groups.values():
                if matches(group.namespace, group.labels):
                    group.counters.append(counter)
                    for row, count in (group.live_rows if live_only else group.rows).items():
                        counter.per_row[row] += count
        return counter

    def term(self, key: TermKey) -> TermGroup:
        """The group of a term, made if it is new."""
        by_key = self._terms.setdefault(key.kind, {})
        term = by_key.get(key)
        if term is None:
            term = by_key[key] = TermGroup(key, self._column(key.topology_key))
        return term

    def terms(self, kind: str) -> list[TermGroup]:
        """The term groups of a kind that at least one pod in some domain carries."""
        return [group for group in self._terms.get(kind, {}).values() if group.pods]

    def add(self, group: LabelGroup, terms: tuple[TermGroup, ...], row: int, delta: int, *, live: bool) -> None:
        """Count a pod in (`delta` 1) or out (-1). `live`: it counts for counters that leave terminating pods out."""
        _bump(group.rows, row, delta)
        if live:
            _bump(group.live_rows, row, delta)
        for counter in group.counters:
            if live or not counter.live_only:
                counter.per_row[row] += delta
        for term in terms:
            before = term.pods
            term.add(row, delta)
            if bool(before) is not bool(term.pods):
                self.term_epoch += 1
