"""RemovePodsViolatingTopologySpreadConstraint: domains that have too many pods. Source: the descheduler's plugin of that name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import msgspec

from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import PodSelection
from bayplan.descheduler.framework import BALANCE, Candidate, Candidates, Handle, Strategy, each
from bayplan.descheduler.node_fit import fits_any_other
from bayplan.descheduler.snapshot import PodKey, key_of
from bayplan.descheduler.spread import SpreadConstraint, constraints_of

_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")


class RemovePodsViolatingTopologySpreadConstraintArguments(PodSelection, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingTopologySpreadConstraint."""

    constraints: tuple[str, ...] = ()
    """Actions (whenUnsatisfiable) of the constraints that are looked at; hard ones if there is none."""
    topology_balance_node_fit: bool = True
    """Evict only what fits on a node of a domain that has too few pods."""

    def errors(self) -> list[str]:
        found = super().errors()
        return found + [
            f"constraint {one} is not one of [{' '.join(_ACTIONS)}]" for one in self.constraints if one not in _ACTIONS
        ]


@dataclass(slots=True)
class Domain:
    """A topology domain with its pods; those that go first are at the end."""

    name: str
    pods: list[core_v1.Pod]


class RemovePodsViolatingTopologySpreadConstraint(Strategy):
    """Evicts as few pods as bring the domains of each constraint within its maximal skew, if the scheduler plays along."""

    name = "RemovePodsViolatingTopologySpreadConstraint"
    point = BALANCE
    arguments_type = RemovePodsViolatingTopologySpreadConstraintArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: RemovePodsViolatingTopologySpreadConstraintArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods, namespace by namespace and constraint by constraint."""
        selects = self._arguments.selects()
        by_namespace: dict[str, list[core_v1.Pod]] = {}
        for node in nodes:
            for pod in self.snapshot.pods_on(node.metadata.name):
                if selects(pod) and self.handle.is_evictable(pod):
                    by_namespace.setdefault(pod.metadata.namespace, []).append(pod)
        found: dict[PodKey, Candidate] = {}
        for namespace in sorted(by_namespace):
            pods = by_namespace[namespace]
            actions = self._arguments.constraints or ("DoNotSchedule",)
            for constraint in dict.fromkeys(one for pod in pods for one in constraints_of(pod, actions)):
                for candidate in self._beyond(constraint, pods, nodes):
                    found.setdefault(key_of(candidate.pod), candidate)
        yield from each([candidate for candidate in found.values() if self.handle.may_go(candidate.pod)])

    def _beyond(
        self, constraint: SpreadConstraint, pods: Sequence[core_v1.Pod], nodes: Sequence[core_v1.Node]
    ) -> list[Candidate]:
        """The pods that should go for the sake of one constraint."""
        by_name = {node.metadata.name: node for node in nodes}
        domains: dict[str, list[core_v1.Pod]] = {name: [] for name in constraint.domain_names(nodes)}
        for pod in pods:
            domain = by_name[pod.spec.node_name].metadata.labels.get(constraint.topology_key)
            terminating = pod.metadata.deletion_timestamp is not None
            if domain is not None and not terminating and constraint.selector.matches(pod.metadata.labels):
                domains.setdefault(domain, []).append(pod)
        sizes = [len(one) for one in domains.values()]
        if not sizes or max(sizes) - min(sizes) <= constraint.max_skew:
            return []
        return self._balance(constraint, domains, nodes)

    def _balance(
        self, constraint: SpreadConstraint, domains: Mapping[str, list[core_v1.Pod]], nodes: Sequence[core_v1.Node]
    ) -> list[Candidate]:
        """Move pods on paper from the largest domains to the smallest, neither beyond the average.

        Example: domains of [2, 3, 5, 5, 7, 8] pods with a maximal skew of 1 come to [5, 5, 5, 5, 5, 5].
        """
        average = sum(map(len, domains.values())) / len(domains)
        ordered = sorted((_ordered(name, pods) for name, pods in domains.items()), key=lambda one: len(one.pods))
        targets = _below(average, ordered, constraint, nodes)
        found: list[Candidate] = []
        known: dict[tuple[object, ...], bool] = {}
        low, high = 0, len(ordered) - 1
        while low < high:
            small, large = ordered[low], ordered[high]
            if len(large.pods) <= average:
                high -= 1
                large = ordered[high]
            count = _to_move(len(small.pods), len(large.pods), average, constraint.max_skew)
            if count <= 0:
                low += 1
                continue
            fitting = {key_of(pod): self._fits(pod, targets, known) for pod in large.pods}
            large.pods.sort(key=lambda pod: fitting[key_of(pod)])
            moved = large.pods[-count:]
            reason = f"{constraint.topology_key} {large.name} has more pods than maxSkew {constraint.max_skew} allows"
            found += [
                Candidate(pod, reason)
                for pod in moved
                if fitting[key_of(pod)] or not self._arguments.topology_balance_node_fit
            ]
            del large.pods[-count:]
            small.pods.extend(moved)
        return found

    def _fits(self, pod: core_v1.Pod, targets: Sequence[core_v1.Node], known: dict[tuple[object, ...], bool]) -> bool:
        """Whether a pod fits on a target. Equal pods are asked once: they are in other domains than all targets."""
        spec = pod.spec
        rules = msgspec.json.encode((spec.tolerations, spec.node_selector, spec.affinity))
        requests = tuple(sorted((name, str(amount)) for name, amount in self.snapshot.requests(pod).items()))
        shape = (pod.metadata.namespace, rules, requests)
        if shape not in known:
            known[shape] = fits_any_other(pod, targets, self.snapshot)
        return known[shape]


def _to_move(small: int, large: int, average: float, max_skew: int) -> int:
    """How many pods a large domain gives to a small one: at most half of what the skew is too much, neither passes the average."""
    skew = large - small
    if skew <= max_skew:
        return 0
    return min(ceil(large - average), ceil(average - small), ceil((skew - max_skew) / 2))


def _ordered(name: str, pods: Sequence[core_v1.Pod]) -> Domain:
    """Pods with a node selector or node affinity come first and stay longest, then those of high priority."""

    def rank(pod: core_v1.Pod) -> tuple[bool, bool, int]:
        affinity = pod.spec.affinity
        bound = bool(pod.spec.node_selector) or (affinity is not None and affinity.node_affinity is not None)
        return (not bound, pod.spec.priority is None, -(pod.spec.priority or 0))

    return Domain(name, sorted(pods, key=rank))


def _below(
    average: float, domains: Sequence[Domain], constraint: SpreadConstraint, nodes: Sequence[core_v1.Node]
) -> list[core_v1.Node]:
    """The nodes that count, of domains with fewer pods than the average."""
    small = {domain.name for domain in domains if len(domain.pods) < average}
    return [
        node for node in nodes if node.metadata.labels.get(constraint.topology_key) in small and constraint.counts(node)
    ]
