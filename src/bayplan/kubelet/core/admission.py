"""Whether a node takes a pod: what a kubelet checks before it starts anything (pkg/kubelet/lifecycle/predicate.go).

A pod may be bound to a node by anybody, and the scheduler may have decided on old facts, so the node has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bayplan.api.node_selectors import pod_may_run_on
from bayplan.api.pod_resources import pod_total
from bayplan.api.quantity import Quantity, parse
from bayplan.api.tolerations import untolerated
from bayplan.api.types import core_v1
from bayplan.kubelet.core.pod_status import is_static

OPERATING_SYSTEM = "linux"
_OS_LABEL = "kubernetes.io/os"
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")
CRITICAL_PRIORITY = 2_000_000_000
"""The priority from which pods are critical for the system."""


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


def rejections(pod: core_v1.Pod, others: Iterable[core_v1.Pod], offer: NodeOffer) -> list[Rejection]:
    """All reasons not to take a pod, the one to tell first; none for a pod that fits. others: the pods that the node has already."""
    found = _kind_rejection(pod, offer)
    if found is not None:
        return [found]
    running = tuple(others)
    return [*_resource_rejections(pod, running, offer.node), *_placement_rejections(pod, running, offer.node)]


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


def _resource_rejections(pod: core_v1.Pod, others: tuple[core_v1.Pod, ...], node: core_v1.Node) -> Iterator[Rejection]:
    """Resources of which the node has not enough left; extended resources that the node does not have are somebody else's."""
    allocatable = {name: _amount(name, parse(value)) for name, value in node.status.allocatable.items()}
    wanted = {name: _amount(name, value) for name, value in pod_total(pod.spec, "requests", overhead=True).items()}
    wanted["pods"] = 1
    used = dict.fromkeys(wanted, 0)
    used["pods"] = len(others)
    for other in others:
        requests = pod_total(other.spec, "requests", overhead=True)
        for name in wanted.keys() - {"pods"}:
            used[name] += _amount(name, requests[name]) if name in requests else 0
    for name in (*_FIRST, *sorted(wanted.keys() - set(_FIRST))):
        amount = wanted.get(name, 0)
        if not amount or (_is_extended(name) and name not in allocatable):
            continue
        capacity = allocatable.get(name, 0)
        if amount > capacity - used[name]:
            text = (
                f"Node didn't have enough resource: {name}, "
                f"requested: {amount}, used: {used[name]}, capacity: {capacity}"
            )
            yield Rejection(f"OutOf{name}", text, name, amount - (capacity - used[name]))


def _placement_rejections(pod: core_v1.Pod, others: tuple[core_v1.Pod, ...], node: core_v1.Node) -> Iterator[Rejection]:
    if not pod_may_run_on(pod.spec, node):
        yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name and pod.spec.node_name != node.metadata.name:
        yield _predicate("NodeName", "node(s) didn't match the requested node name")
    taken = [port for other in others for port in host_ports(other.spec)]
    if any(_collide(port, other) for port in host_ports(pod.spec) for other in taken):
        yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if not is_static(pod) and untolerated(pod.spec.tolerations, node.spec.taints, ("NoExecute",)) is not None:
        yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, text: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {text}")


HostPort = tuple[str, str, int]
"""(protocol, address of the node, port)."""


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


def is_critical(pod: core_v1.Pod) -> bool:
    """Whether others are evicted to make room for a pod: static pods, mirror pods and those of system priority."""
    return is_static(pod) or (pod.spec.priority or 0) >= CRITICAL_PRIORITY
