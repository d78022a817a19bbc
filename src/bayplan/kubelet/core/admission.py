"""Whether a node takes a pod: what a kubelet checks before it starts anything (pkg/kubelet/lifecycle/predicate.go).

A pod may be bound to a node by anybody, and the scheduler may have decided on old facts, so the node has the last word.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bayplan.api.declared_features import features_of
from bayplan.api.defaults.pods import qos_class
from bayplan.api.pods.resources import pod_total
from bayplan.api.pods.tolerations import untolerated
from bayplan.api.quantity import Quantity, parse
from bayplan.api.selectors.nodes import pod_may_run_on
from bayplan.api.types import core_v1
from bayplan.kubelet.core.pod_status import is_static

OPERATING_SYSTEM = "linux"
_OS_LABEL = "kubernetes.io/os"
NODE_AFFINITY = "NodeAffinity"
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")
CRITICAL_PRIORITY = 2_000_000_000
"""The priority from which pods are critical for the system."""


HostPort = tuple[str, str, int]
"""(protocol, address of the node, port)."""
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node does not take a pod: `status.reason` and the text behind "Pod was rejected: ".

    `resource` and `missing` (milli-units of cpu, whole units of all else) tell what would have to be freed; empty where freeing does not help.
    """

    reason: str
    message: str
    resource: str = ""
    missing: int = 0


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What admission knows of the node."""

    node: core_v1.Node
    supplemental_groups_policy: bool = False
    """Whether the runtime can keep the groups of an image away (`Strict`)."""
    user_namespaces: bool = True


class Requests:
    """What pods request, worked out once for specs that share their parts, as those of one template do: milli-units of cpu, whole units of all else."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, ...], tuple[Mapping[str, int], tuple[Any, ...]]] = OrderedDict()

    def of(self, spec: core_v1.PodSpec) -> Mapping[str, int]:
        """The requests of a pod, without its place."""
        parts = (spec.resources, spec.overhead, *(each.resources for each in (*spec.containers, *spec.init_containers)))
        key = tuple(map(id, parts))
        known = self._known.get(key)
        if known is None:
            total = pod_total(spec, "requests", overhead=True)
            known = {name: _amount(name, value) for name, value in total.items()}, parts  # which keep their ids
            self._known[key] = known
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known[0]


@dataclass(slots=True)
class NodeAccount:
    """What the pods of a node take. A pod counts from `add` to `remove`."""

    requests: Requests
    used: Counter[str] = field(default_factory=Counter)
    _pods: dict[str, tuple[Mapping[str, int], tuple[HostPort, ...]]] = field(default_factory=dict)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, pod: core_v1.Pod) -> None:
        """Count a pod, if it is not counted yet."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            amounts = self.requests.of(pod.spec)
            self._pods[uid] = amounts, tuple(host_ports(pod.spec))
            self.used.update(amounts)
            self.used["pods"] += 1

    def remove(self, uid: str) -> None:
        """Count a pod no longer."""
        found = self._pods.pop(uid, None)
        if found is not None:
            self.used.subtract(found[0])
            self.used["pods"] -= 1

    def ports(self) -> Iterator[HostPort]:
        """The ports of the node that are taken."""
        for _, ports in self._pods.values():
            yield from ports


def rejections(pod: core_v1.Pod, account: NodeAccount, offer: NodeOffer) -> list[Rejection]:
    """All reasons not to take a pod, the one to tell first; none for a pod that fits. account: of the pods that the node has already."""
    found = _kind_rejection(pod, offer)
    if found is not None:
        return [found]
    return [*_resource_rejections(pod, account, offer.node), *_placement_rejections(pod, account, offer.node)]


def _kind_rejection(pod: core_v1.Pod, offer: NodeOffer) -> Rejection | None:
    """What no eviction can help."""
    wanted = pod.metadata.labels.get(_OS_LABEL)
    if wanted is not None and wanted != OPERATING_SYSTEM:
        text = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return Rejection("PodOSSelectorNodeLabelDoesNotMatch", text)
    if pod.spec.os is not None and pod.spec.os.name != OPERATING_SYSTEM:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    security = pod.spec.security_context
    policy = security.supplemental_groups_policy if security is not None else None
    if policy == "Strict" and not offer.supplemental_groups_policy:
        text = "SupplementalGroupsPolicy=Strict is not supported in this node"
        return Rejection("SupplementalGroupsPolicyNotSupported", text)
    return None


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _amount(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == "cpu" else amount.value()


def _resource_rejections(pod: core_v1.Pod, account: NodeAccount, node: core_v1.Node) -> Iterator[Rejection]:
    """Resources of which the node has not enough left; extended resources that the node does not have are somebody else's."""
    wanted = {**account.requests.of(pod.spec), "pods": 1}
    allocatable = node.status.allocatable
    for name in (*_FIRST, *sorted(wanted.keys() - set(_FIRST))):
        amount = wanted.get(name, 0)
        if not amount or (_is_extended(name) and name not in allocatable):
            continue
        capacity = _amount(name, parse(allocatable[name])) if name in allocatable else 0
        used = account.used[name]
        if amount > capacity - used:
            text = f"Node didn't have enough resource: {name}, requested: {amount}, used: {used}, capacity: {capacity}"
            yield Rejection(f"OutOf{name}", text, name, amount - (capacity - used))


def _placement_rejections(pod: core_v1.Pod, account: NodeAccount, node: core_v1.Node) -> Iterator[Rejection]:
    if not pod_may_run_on(pod.spec, node):
        yield _predicate(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name and pod.spec.node_name != node.metadata.name:
        yield _predicate("NodeName", "node(s) didn't match the requested node name")
    ports = tuple(host_ports(pod.spec))
    if ports and any(_collide(port, other) for other in account.ports() for port in ports):
        yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if not is_static(pod) and untolerated(pod.spec.tolerations, node.spec.taints, ("NoExecute",)) is not None:
        yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, text: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {text}")


def host_ports(spec: core_v1.PodSpec) -> Iterator[HostPort]:
    """The ports of its node that a pod takes while it runs."""
    sidecars = (each for each in spec.init_containers if each.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port


def _collide(one: HostPort, other: HostPort) -> bool:
    if one[0] != other[0] or one[2] != other[2]:
        return False
    return one[1] == other[1] or "0.0.0.0" in (one[1], other[1])


def unsupported_features(spec: core_v1.PodSpec, features: frozenset[str]) -> Rejection | None:
    """Features of kubelets that a pod needs and the node does not declare (`declaredFeaturesAdmitHandler`)."""
    missing = sorted(features_of(spec) - features)
    if not missing:
        return None
    text = f"Pod requires node features that are not available: {', '.join(missing)}"
    return Rejection("PodFeatureUnsupported", text)


def is_critical(pod: core_v1.Pod) -> bool:
    """Whether others are evicted to make room for a pod: static pods, mirror pods and those of system priority."""
    return is_static(pod) or (pod.spec.priority or 0) >= CRITICAL_PRIORITY


def rejected_status(pod: core_v1.Pod, rejection: Rejection) -> core_v1.PodStatus:
    """The status of a pod that its node has not taken."""
    status: core_v1.PodStatus = msgspec.structs.replace(
        pod.status,
        observed_generation=pod.metadata.generation,
        phase="Failed",
        reason=rejection.reason,
        message=f"Pod was rejected: {rejection.message}",
        qos_class=qos_class(pod.spec),
    )
    return status
