"""Whether a pod would fit on a node: the checks of the scheduler that upstream's `nodeFit` makes.

Source: the descheduler's NodeFit: unschedulable, node selector and required node affinity, taints, anti-affinity to the
pods of the node itself, requests. Volumes, ports and topology spread are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bayplan.api.pods.tolerations import untolerated
from bayplan.api.quantity import Quantity
from bayplan.api.selectors.nodes import NodeTerm, pod_may_run_on
from bayplan.api.types import core_v1
from bayplan.descheduler.pod_affinity import forbidden_on
from bayplan.descheduler.snapshot import SnapshotIndex

HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
_ZERO: Final = Quantity(0)


def is_ready(node: core_v1.Node) -> bool:
    """Whether pods of a node are looked at: no Ready condition that is not true. Whether it is schedulable does not matter."""
    return all(one.status == "True" for one in node.status.conditions if one.type == "Ready")


def misfit(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> str:
    """Why a pod does not fit on a node; empty if it does. The requests do not matter for its own node."""
    return refusal_of(pod, node) or _occupied(pod, node, snapshot)


def refusal_of(pod: core_v1.Pod, node: core_v1.Node) -> str:
    """Why a node does not take a pod whatever else runs there; empty if it would."""
    if node.spec.unschedulable:
        return "node is not schedulable"
    if not pod_may_run_on(pod.spec, node):
        return "pod node selector does not match the node label"
    if untolerated(pod.spec.tolerations, node.spec.taints, HARD_EFFECTS) is not None:
        return "pod does not tolerate taints on the node"
    return ""


def _occupied(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> str:
    if forbidden_on(pod, node, snapshot):
        return "pod matches inter-pod anti-affinity rule of other pod on node"
    if pod.spec.node_name == node.metadata.name:
        return ""
    lacking = next(_lacking(pod, node, snapshot), "")
    return f"insufficient {lacking}" if lacking else ""


def _lacking(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> Iterator[str]:
    """The resources of which a node has less left than a pod requests."""
    offered = snapshot.capacity_of(node)
    used = snapshot.requested_on(node.metadata.name)
    if offered.get("pods", _ZERO).value() <= snapshot.count_on(node.metadata.name):
        yield "pods"
    for name, amount in snapshot.requests(pod).items():
        left = offered.get(name, _ZERO).sub(used.get(name, _ZERO))
        if amount.sign() > 0 and amount > left:
            yield name


def fits_any_other(pod: core_v1.Pod, nodes: Iterable[core_v1.Node], snapshot: SnapshotIndex) -> bool:
    """Whether a pod fits on one of these nodes other than its own."""
    return any(not misfit(pod, node, snapshot) for node in nodes if node.metadata.name != pod.spec.node_name)


def fits_any(pod: core_v1.Pod, nodes: Iterable[core_v1.Node], snapshot: SnapshotIndex) -> bool:
    """Whether a pod fits on one of these nodes, its own among them."""
    return any(not misfit(pod, node, snapshot) for node in nodes)


def preferred_weight(pod: core_v1.Pod, node: core_v1.Node) -> int:
    """The sum of the weights of a pod's preferred node affinity that a node satisfies."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is None:
        return 0
    metadata = node.metadata
    return sum(
        item.weight
        for item in affinity.preferred_during_scheduling_ignored_during_execution
        if NodeTerm(item.preference).match_labels(metadata.labels, metadata.name)
    )
