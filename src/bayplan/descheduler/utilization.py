"""How full nodes are, which of them are too full or too empty, and moving pods from the ones to the others.

LowNodeUtilization and HighNodeUtilization are two uses of it. Usage is what pods request, or what they really use where
somebody collects that. Source: the descheduler's `nodeutilization`. Percentages are of what a node offers to pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bayplan.api.pods.tolerations import untolerated
from bayplan.api.quantity import Quantity
from bayplan.api.quota.amounts import ONE, ZERO, Amounts
from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import Namespaces, Thresholds
from bayplan.descheduler.errors import StrategyError
from bayplan.descheduler.framework import Answer, Candidate, Candidates, Handle
from bayplan.descheduler.pods import priority_order
from bayplan.descheduler.snapshot import SnapshotIndex, key_of

BASIC: Final = ("cpu", "memory", "pods")
"""Resources that are always looked at."""
_EVERY_EFFECT: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")


class UsageSource(Protocol):
    """Where usage comes from."""

    def of_node(self, node: core_v1.Node, names: Iterable[str]) -> Amounts:
        """What is used of a node. Raises StrategyError if that is not known."""

    def of_pod(self, pod: core_v1.Pod, names: Iterable[str]) -> Amounts | None:
        """What a pod uses; None if that is not known."""


class RequestedUsage:
    """Usage is what pods request."""

    def __init__(self, snapshot: SnapshotIndex) -> None:
        self._snapshot = snapshot

    def of_node(self, node: core_v1.Node, names: Iterable[str]) -> Amounts:
        """The sum of the requests of its pods, and their number."""
        name = node.metadata.name
        requested, count = self._snapshot.requested_on(name), self._snapshot.count_on(name)
        return {one: Quantity(count) if one == "pods" else requested.get(one, ZERO) for one in names}

    def of_pod(self, pod: core_v1.Pod, names: Iterable[str]) -> Amounts:
        """What it requests."""
        requests = self._snapshot.requests(pod)
        return {name: ONE if name == "pods" else requests.get(name, ZERO) for name in names}


class MeasuredUsage:
    """Usage is what metrics.k8s.io says."""

    def __init__(self, snapshot: SnapshotIndex) -> None:
        if snapshot.usage is None:
            raise StrategyError(
                "metrics client not initialized: metricsProviders needs source KubernetesMetrics, and the cluster metrics.k8s.io"
            )
        self._usage = snapshot.usage
        self._snapshot = snapshot

    def of_node(self, node: core_v1.Node, names: Iterable[str]) -> Amounts:
        """What was measured, and the number of its pods."""
        name = node.metadata.name
        measured = self._usage.nodes.get(name)
        if measured is None:
            raise StrategyError(f'unable to find node "{name}" in the collected metrics')
        known = {**measured, "pods": Quantity(self._snapshot.count_on(name))}
        missing = [one for one in names if one not in known]
        if missing:
            raise StrategyError(f'unable to find "{missing[0]}" resource for collected "{name}" node metric')
        return {one: known[one] for one in names}

    def of_pod(self, pod: core_v1.Pod, names: Iterable[str]) -> Amounts | None:
        """What was measured; None for a pod that is too new."""
        measured = self._usage.pods.get(key_of(pod))
        return None if measured is None else {one: ONE if one == "pods" else measured.get(one, ZERO) for one in names}


@dataclass(slots=True)
class NodeUse:
    """A node with what is used of it. `usage` shrinks as its pods are evicted."""

    node: core_v1.Node
    usage: Amounts
    percent: Mapping[str, float]
    target: Amounts
    """How much of it may be used."""
    pods: list[core_v1.Pod]

    def is_above_target(self) -> bool:
        """Whether more than the target is used, of any resource."""
        return any(amount > self.target[name] for name, amount in self.usage.items())


@dataclass(frozen=True, slots=True)
class Measure:
    """The nodes of a pass, measured once; `names` are the resources that are looked at."""

    names: tuple[str, ...]
    usages: Mapping[str, Amounts]
    percents: Mapping[str, Mapping[str, float]]


def measure(
    nodes: Sequence[core_v1.Node], names: Iterable[str], source: UsageSource, snapshot: SnapshotIndex
) -> Measure:
    """Measure nodes by name. Raises StrategyError."""
    known = tuple(dict.fromkeys(names))
    usages = {node.metadata.name: source.of_node(node, known) for node in nodes}
    percents = {node.metadata.name: _percents(usages[node.metadata.name], snapshot.capacity_of(node)) for node in nodes}
    return Measure(known, usages, percents)


def _percents(usage: Amounts, capacity: Amounts) -> dict[str, float]:
    """Resources that a node does not have are left out."""
    found = {}
    for name, amount in usage.items():
        if name in capacity:
            of_cpu = name == "cpu"
            used = amount.milli_value() if of_cpu else amount.value()
            total = capacity[name].milli_value() if of_cpu else capacity[name].value()
            found[name] = used / total * 100 if total > 0 else 0.0
    return found


def is_below(percent: Mapping[str, float], thresholds: Thresholds) -> bool:
    """Whether no resource is above its threshold."""
    return all(percent.get(name, 0.0) <= threshold for name, threshold in thresholds.items())


def is_above(percent: Mapping[str, float], thresholds: Thresholds) -> bool:
    """Whether any resource is above its threshold."""
    return any(percent.get(name, 0.0) > threshold for name, threshold in thresholds.items())


def around_average(percents: Iterable[Mapping[str, float]], deviations: Thresholds, sign: int) -> Thresholds:
    """Thresholds that are deviations from the average of all nodes, between 0 and 100. `sign` is 1 or -1."""
    found = {}
    known = list(percents)
    for name, deviation in deviations.items():
        values = [one[name] for one in known if name in one]
        if values:
            found[name] = min(100.0, max(0.0, sum(values) / len(values) + sign * deviation))
    return found


def use_of(node: core_v1.Node, measured: Measure, target: Thresholds, snapshot: SnapshotIndex) -> NodeUse:
    """A measured node with the target in its own amounts."""
    name = node.metadata.name
    return NodeUse(
        node, dict(measured.usages[name]), measured.percents[name], _capped(snapshot.capacity_of(node), measured.names, target),
        snapshot.pods_on(name),
    )  # fmt: skip


def _capped(capacity: Amounts, names: Iterable[str], percents: Thresholds) -> Amounts:
    """What a node offers, down to these percentages; all of it where there is none."""
    found = {}
    for name in names:
        offered = capacity.get(name, ZERO)
        if name not in percents or name not in capacity:
            found[name] = offered
        elif name == "cpu":
            found[name] = Quantity(int(percents[name] * 0.01 * offered.milli_value()), 3)
        else:
            found[name] = Quantity(int(percents[name] * 0.01 * offered.value()))
    return found


def in_order(uses: Iterable[NodeUse], *, emptiest_first: bool) -> list[NodeUse]:
    """Nodes by the sum of their amounts, as upstream adds up milli-cpus, bytes and pods."""

    def total(use: NodeUse) -> int:
        return sum(amount.milli_value() if name == "cpu" else amount.value() for name, amount in use.usage.items())

    return sorted(uses, key=total, reverse=not emptiest_first)


@dataclass(frozen=True, slots=True)
class Relocation:
    """Evictions from source nodes, in the hope that destination nodes take the pods."""

    handle: Handle
    source: UsageSource
    names: tuple[str, ...]
    reason: Callable[[NodeUse], str]
    selects: Callable[[core_v1.Pod], bool]
    """Whether a pod may be evicted, as far as the strategy is concerned."""
    goes_on: Callable[[NodeUse, Amounts], bool]
    """Whether a source node should lose more pods, given what destinations have left."""
    namespaces: Namespaces
    node_limit: int | None = None
    """Most evictions of this strategy from a node."""

    def candidates(self, sources: Iterable[NodeUse], destinations: Sequence[NodeUse]) -> Candidates:
        """Yield pods of one source after the other, those of low priority first."""
        left = _left(destinations, self.names)
        for use in sources:
            yield from self._from(use, left, destinations)

    def _from(self, use: NodeUse, left: Amounts, destinations: Sequence[NodeUse]) -> Candidates:
        evicted = 0
        removable = [pod for pod in use.pods if self.handle.is_evictable(pod) and self.selects(pod)]
        for pod in priority_order(removable):
            if not self.goes_on(use, left) or (self.node_limit is not None and evicted >= self.node_limit):
                return
            amounts = self._movable(pod, destinations)
            if amounts is None:
                continue
            answer = yield Candidate(pod, self.reason(use))
            if answer is Answer.NODE_LIMIT:
                return
            if answer is Answer.EVICTED:
                evicted += 1
                for name in left:
                    use.usage[name] = use.usage[name].sub(amounts[name])
                    left[name] = left[name].sub(amounts[name])

    def _movable(self, pod: core_v1.Pod, destinations: Iterable[NodeUse]) -> Amounts | None:
        """What a pod uses if a destination would take it; else None."""
        if not self.namespaces.contain(pod.metadata.namespace):
            return None
        tolerated = any(
            untolerated(pod.spec.tolerations, one.node.spec.taints, _EVERY_EFFECT) is None for one in destinations
        )
        return self.source.of_pod(pod, self.names) if tolerated and self.handle.may_go(pod) else None


def _left(destinations: Iterable[NodeUse], names: Iterable[str]) -> Amounts:
    """What destinations can take altogether until they are at their targets."""
    total = dict.fromkeys(names, ZERO)
    for use in destinations:
        for name in total:
            total[name] = total[name].add(use.target[name]).sub(use.usage[name])
    return total


def has_room(left: Amounts) -> bool:
    """Whether destinations have something left of every resource."""
    return all(amount.sign() > 0 for amount in left.values())


def shown(percent: Mapping[str, float], names: Iterable[str]) -> str:
    """Percentages for a sentence: `cpu 80 %, memory 10 %`."""
    return ", ".join(f"{name} {percent[name]:.0f} %" for name in sorted(names) if name in percent)
