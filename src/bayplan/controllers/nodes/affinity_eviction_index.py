"""Which pods have rules that hold while they run, and for which of them a rule has ceased to hold. Pure; one change costs what it touches.

    set_node, set_pod, set_namespace, ...  -> keys of pods to look at again
    broken(key)                            -> the rules of a pod that do not hold

Rules about other pods are never compared pod by pod. Pods with the same namespace and labels are one *label class*; whether a term means a class is
worked out once. Each distinct term keeps the pods that it means by value of its topology key, and beside them the pods that have the term as a rule. For
example, with the term (app=db, zone) and two pods of class {app: db} in zone a:

    members["a"] = {db-1, db-2}    owners["a"] = {web-1, web-2, ...}

When db-2 goes, nothing follows for pods that want a db near themselves; when db-1 goes too, the owners of "a" are looked at again. Pods that want no db near
themselves are looked at again when the number of members passes 0, 1 or 2: one of them may be the pod itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bayplan.api.pods.execution_rules import ANNOTATION
from bayplan.api.types import core_v1
from bayplan.controllers.nodes.affinity_eviction_terms import AFFINITY, ANTI_AFFINITY, Rule, Target, Term, rules_of
from bayplan.controllers.pods import has_ended
from bayplan.informers.cache import key_of

_SAME_RULES: Final = 3
"""Of the facts of a pod, so many say whether its rules and their subject are the same as before."""
_FEW: Final = 2
"""Up to so many members of a domain, one more or less can break or mend a rule."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that does not hold, and why."""

    rule: Rule
    why: str


@dataclass(slots=True)
class _LabelClass:
    """Pods with equal namespace and labels, and the terms that mean them."""

    namespace: str
    labels: Mapping[str, str]
    pods: dict[str, None] = field(default_factory=dict)
    terms: dict[Term, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Domains:
    """Of one term, by value of its topology key."""

    members: dict[str, dict[str, None]] = field(default_factory=dict)
    """Keys of running pods that the term means."""
    owners: dict[str, dict[str, None]] = field(default_factory=dict)
    """Keys of pods that have the term as a rule."""
    users: int = 0
    """Rules of all pods that have the term; without any the term is forgotten."""


@dataclass(slots=True)
class _Entry:
    """What is kept of a running pod."""

    uid: str
    facts: tuple[object, ...]
    node: str
    label_class: _LabelClass
    rules: tuple[Rule, ...]
    rank: tuple[int, str, str]
    """Pods with a lower rank give way to those with a higher one: priority, and who was there first."""
    leaving: bool
    held: set[int] = field(default_factory=set)
    """Indices of preferred rules that have held on this node."""


class ExecutionIndex:
    """See the module. Nodes and pods may come in any order."""

    def __init__(self) -> None:
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._pods: dict[str, _Entry] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._classes: dict[tuple[object, ...], _LabelClass] = {}
        self._terms: dict[Term, _Domains] = {}
        self._by_namespace: dict[str, dict[tuple[object, ...], _LabelClass]] = {}

    @property
    def terms(self) -> int:
        """How many distinct terms the rules of all pods have."""
        return len(self._terms)

    # Nodes and namespaces

    def set_node(self, name: str, labels: Mapping[str, str] | None) -> list[str]:
        """A node has these labels now; None if it is gone. Returns pods to look at again."""
        before = self._nodes.get(name)
        if before == labels:
            return []
        there = self._on_node.get(name, {})
        touched: dict[str, None] = {}
        changed = {
            term: domains
            for term, domains in self._terms.items()
            if (before or {}).get(term.topology_key) != (labels or {}).get(term.topology_key)
        }
        for key in there:
            self._leave(key, changed, touched)
        if labels is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = labels
        for key in there:
            self._enter(key, changed, touched)
            if self._pods[key].rules:
                touched[key] = None
        return list(touched)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> list[str]:
        """A namespace has these labels now; None if it is gone. Returns pods to look at again."""
        if self._namespaces.get(name) == labels:
            return []
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = labels
        touched: dict[str, None] = {}
        for one in self._by_namespace.get(name, {}).values():
            for term, domains in self._terms.items():
                means = self._means(term, one)
                if means == (term in one.terms):
                    continue
                if means:
                    one.terms[term] = None
                for key in one.pods:
                    self._change_member(key, term, domains, touched, present=means)
                if not means:
                    del one.terms[term]
        return list(touched)

    # Pods

    def set_pod(self, pod: core_v1.Pod) -> list[str]:
        """A pod has come or changed. Returns pods to look at again, it included."""
        key = key_of(pod)
        known = self._pods.get(key)
        if not pod.spec.node_name or has_ended(pod):
            return self.remove_pod(key)
        metadata = pod.metadata
        leaving = metadata.deletion_timestamp is not None
        stated = metadata.annotations.get(ANNOTATION)
        facts = (metadata.uid, pod.spec.node_name, stated, metadata.labels, leaving)
        if known is not None and known.facts == facts:
            return []
        touched = dict.fromkeys(self.remove_pod(key))
        entry = self._pods[key] = _Entry(
            metadata.uid,
            facts,
            pod.spec.node_name,
            self._class_of(metadata.namespace, metadata.labels),
            rules_of(pod),
            (pod.spec.priority or 0, _descending(metadata.creation_timestamp or ""), key),
            leaving,
        )
        if known is not None and known.facts[:_SAME_RULES] == facts[:_SAME_RULES]:
            entry.held = known.held
        entry.label_class.pods[key] = None
        self._on_node.setdefault(entry.node, {})[key] = None
        for rule in entry.rules:
            if rule.term is not None:
                self._use(rule.term)
        self._enter(key, self._terms, touched)
        if entry.rules:
            touched[key] = None
        return list(touched)

    def remove_pod(self, key: str) -> list[str]:
        """A pod is gone or has ended. Returns pods to look at again."""
        entry = self._pods.get(key)
        if entry is None:
            return []
        touched: dict[str, None] = {}
        self._leave(key, self._terms, touched)
        del self._pods[key]
        for rule in entry.rules:
            if rule.term is not None:
                self._release(rule.term)
        _discard(self._on_node, entry.node, key)
        del entry.label_class.pods[key]
        if not entry.label_class.pods:
            one = entry.label_class
            class_key = _class_key(one.namespace, one.labels)
            del self._classes[class_key]
            del self._by_namespace[one.namespace][class_key]
        touched.pop(key, None)
        return list(touched)

    def _class_of(self, namespace: str, labels: Mapping[str, str]) -> _LabelClass:
        key = _class_key(namespace, labels)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = _LabelClass(namespace, labels)
            self._by_namespace.setdefault(namespace, {})[key] = found
            found.terms = dict.fromkeys(term for term in self._terms if self._means(term, found))
        return found

    # Terms

    def _means(self, term: Term, one: _LabelClass) -> bool:
        return all(self._is_meant(target, one) for target in term.targets)

    def _is_meant(self, target: Target, one: _LabelClass) -> bool:
        if one.namespace not in target.namespaces:
            labels = self._namespaces.get(one.namespace)
            if labels is None or not target.namespace_selector.matches(labels):
                return False
        return target.selector.matches(one.labels)

    def _use(self, term: Term) -> None:
        """One more rule has a term; a term that is new gets its members."""
        domains = self._terms.get(term)
        if domains is None:
            domains = self._terms[term] = _Domains()
            for one in self._classes.values():
                if self._means(term, one):
                    one.terms[term] = None
                    for key in one.pods:
                        self._change_member(key, term, domains, {}, present=True)
        domains.users += 1

    def _release(self, term: Term) -> None:
        domains = self._terms[term]
        domains.users -= 1
        if not domains.users:
            del self._terms[term]
            for one in self._classes.values():
                one.terms.pop(term, None)

    def _enter(self, key: str, terms: Mapping[Term, _Domains], touched: dict[str, None]) -> None:
        """A pod joins the domains of these terms where its node is."""
        entry = self._pods[key]
        for term in entry.label_class.terms:
            if term in terms:
                self._change_member(key, term, terms[term], touched, present=True)
        for term, value in self._owned(entry):
            if term in terms:
                terms[term].owners.setdefault(value, {})[key] = None

    def _leave(self, key: str, terms: Mapping[Term, _Domains], touched: dict[str, None]) -> None:
        entry = self._pods[key]
        for term in entry.label_class.terms:
            if term in terms:
                self._change_member(key, term, terms[term], touched, present=False)
        for term, value in self._owned(entry):
            if term in terms:
                _discard(terms[term].owners, value, key)

    def _owned(self, entry: _Entry) -> Iterator[tuple[Term, str]]:
        labels = self._nodes.get(entry.node, {})
        for rule in entry.rules:
            if rule.term is not None and rule.term.topology_key in labels:
                yield rule.term, labels[rule.term.topology_key]

    def _change_member(
        self, key: str, term: Term, domains: _Domains, touched: dict[str, None], *, present: bool
    ) -> None:
        """A pod is a member of its domain of a term, or is no more. Its owners are touched if that can matter to them."""
        value = self._nodes.get(self._pods[key].node, {}).get(term.topology_key)
        if value is None:
            return
        members = domains.members.setdefault(value, {})
        if present == (key in members):
            return
        fewest = len(members)
        if present:
            members[key] = None
        else:
            del members[key]
            fewest -= 1
            if not members:
                del domains.members[value]
        if fewest <= _FEW:
            touched.update(domains.owners.get(value, {}))

    # Questions

    def uid_of(self, key: str) -> str:
        """The uid of a pod that runs; "" if there is none of that key."""
        entry = self._pods.get(key)
        return "" if entry is None else entry.uid

    def broken(self, key: str) -> list[Broken]:
        """The rules of a pod that do not hold and because of which it has to go, in the order of its spec."""
        entry = self._pods.get(key)
        labels = None if entry is None else self._nodes.get(entry.node)
        if entry is None or labels is None or entry.leaving:
            return []
        found = []
        for index, rule in enumerate(entry.rules):
            why = self._why_broken(key, entry, rule, labels)
            if why is None:
                entry.held.add(index)
            elif why and (rule.is_required or index in entry.held):
                found.append(Broken(rule, why))
        return found

    def _why_broken(self, key: str, entry: _Entry, rule: Rule, labels: Mapping[str, str]) -> str | None:
        """Why a rule does not hold; None if it holds, "" if others are to go because of it."""
        if rule.term is None:
            if any(term.match_labels(labels, entry.node) for term in rule.node_terms):
                return None
            return f"the labels of node {entry.node} do not match"
        value = labels.get(rule.term.topology_key)
        members = self._terms[rule.term].members.get(value, {}) if value is not None else {}
        if rule.kind == AFFINITY:
            if value is None:
                return f"node {entry.node} has no label {rule.term.topology_key}"
            if members:
                return None
            return f"no pod that it means is left in {rule.term.topology_key}={value}"
        others = [other for other in members if other != key and not self._pods[other].leaving]
        if not others:
            return None
        if all(self._gives_way(other, key, entry, rule.term) for other in others):
            return ""
        return f"{others[0]} is in {rule.term.topology_key}={value}"

    def _gives_way(self, other: str, key: str, entry: _Entry, term: Term) -> bool:
        """Whether another pod has a rule against this one in the same domain, and is the one of both that goes."""
        theirs = self._pods[other]
        if theirs.rank > entry.rank:
            return False
        labels, mine = self._nodes.get(theirs.node, {}), self._nodes.get(entry.node, {})
        return any(
            rule.kind == ANTI_AFFINITY
            and rule.is_required
            and rule.term in entry.label_class.terms
            and rule.term is not None
            and labels.get(rule.term.topology_key, "") == mine.get(rule.term.topology_key, None)
            for rule in theirs.rules
        )


def _descending(time: str) -> str:
    """A text that is the greater, the earlier an RFC 3339 time is."""
    return "".join(chr(0x7F - ord(letter)) for letter in time)


def _class_key(namespace: str, labels: Mapping[str, str]) -> tuple[object, ...]:
    return (namespace, *labels.items())


def _discard(table: dict[str, dict[str, None]], value: str, key: str) -> None:
    """Take a key out of a table of keys; a value without any goes."""
    keys = table.get(value)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del table[value]
