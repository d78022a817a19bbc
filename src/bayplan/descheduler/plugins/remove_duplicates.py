"""RemoveDuplicates: several pods of one owner on one node. Source: the descheduler's `removeduplicates`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bayplan.api.pods.tolerations import untolerated
from bayplan.api.selectors.nodes import pod_may_run_on, required_of
from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import Arguments, Namespaces
from bayplan.descheduler.framework import BALANCE, Answer, Candidate, Candidates, Handle, Strategy
from bayplan.descheduler.node_fit import HARD_EFFECTS
from bayplan.descheduler.pods import owner_kinds


class RemoveDuplicatesArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of RemoveDuplicates."""

    namespaces: Namespaces = Namespaces()
    exclude_owner_kinds: tuple[str, ...] = ()

    def errors(self) -> list[str]:
        return self.namespaces.errors()


class Owner(NamedTuple):
    """Whose replicas pods are: equal owners and equal images make equal pods."""

    namespace: str
    kind: str
    name: str
    images: tuple[str, ...]


class RemoveDuplicates(Strategy):
    """Evicts what a node has more of an owner's pods than its share of all nodes where they could be."""

    name = "RemoveDuplicates"
    point = BALANCE
    arguments_type = RemoveDuplicatesArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: RemoveDuplicatesArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods beyond the share of their node, owner by owner."""
        counts: dict[Owner, int] = {}
        duplicates: dict[Owner, dict[str, list[core_v1.Pod]]] = {}
        for node in nodes:
            self._look_at(node, counts, duplicates)
        full: set[str] = set()
        for owner, by_node in duplicates.items():
            targets = _targets(by_node, nodes)
            if targets < 2:
                continue
            share = -(-counts[owner] // targets)
            for node_name, pods in by_node.items():
                for pod in pods[share - 1 :]:
                    if node_name in full:
                        break
                    reason = f"{owner.kind} {owner.name} has more than {share} pods on its node"
                    if (yield Candidate(pod, reason)) is Answer.NODE_LIMIT:
                        full.add(node_name)

    def _look_at(
        self, node: core_v1.Node, counts: dict[Owner, int], duplicates: dict[Owner, dict[str, list[core_v1.Pod]]]
    ) -> None:
        """Count the evictable pods of a node by owner. The first of equal pods is no duplicate."""
        seen: set[tuple[Owner, ...]] = set()
        excluded = set(self._arguments.exclude_owner_kinds)
        for pod in self.snapshot.pods_on(node.metadata.name):
            owners = _owners(pod)
            if not owners or owner_kinds(pod) & excluded:
                continue
            if not self._arguments.namespaces.contain(pod.metadata.namespace) or not self.handle.may_go(pod):
                continue
            for owner in owners:
                counts[owner] = counts.get(owner, 0) + 1
                if owners in seen:
                    duplicates.setdefault(owner, {}).setdefault(node.metadata.name, []).append(pod)
            seen.add(owners)


def _owners(pod: core_v1.Pod) -> tuple[Owner, ...]:
    """Those of a pod, in order of name."""
    images = tuple(sorted(container.image for container in pod.spec.containers))
    namespace = pod.metadata.namespace
    return tuple(sorted(Owner(namespace, one.kind, one.name, images) for one in pod.metadata.owner_references))


def _targets(by_node: Mapping[str, Iterable[core_v1.Pod]], nodes: Sequence[core_v1.Node]) -> int:
    """On how many nodes these pods could be. A pod that could be on one node only does not count."""
    found: set[str] = set()
    looked_at: list[tuple[object, ...]] = []
    for pods in by_node.values():
        for pod in pods:
            rules = (pod.spec.tolerations, pod.spec.node_selector, required_of(pod.spec))
            if rules in looked_at:
                continue
            looked_at.append(rules)
            possible = {
                node.metadata.name
                for node in nodes
                if untolerated(pod.spec.tolerations, node.spec.taints, HARD_EFFECTS) is None
                and pod_may_run_on(pod.spec, node)
            }
            if len(possible) > 1:
                found |= possible
    return len(found)
