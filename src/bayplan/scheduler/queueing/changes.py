"""Which cluster events a change of an object amounts to, as far as scheduling is concerned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayplan.scheduler.framework.events import Action, ClusterEvent
from bayplan.scheduler.snapshot.resources import ResourceTable, pod_requests

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, Pod


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """What changed of a node; nothing for a mere heartbeat."""
    actions = []
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        actions.append(Action.NODE_TAINT)
    if old.metadata.labels != new.metadata.labels:
        actions.append(Action.NODE_LABEL)
    if old.status.allocatable != new.status.allocatable:
        actions.append(Action.NODE_ALLOCATABLE)
    if old.status.declared_features != new.status.declared_features:
        actions.append(Action.NODE_FEATURES)
    if _conditions(old) != _conditions(new):
        actions.append(Action.NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(Action.NODE_ANNOTATION)
    return [ClusterEvent("Node", action) for action in actions]


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_changes(old: Pod, new: Pod) -> list[ClusterEvent]:
    """What changed of a pod."""
    actions = []
    has_same_spec = old.spec == new.spec
    if old.metadata.labels != new.metadata.labels:
        actions.append(Action.POD_LABEL)
    if not has_same_spec and len(new.spec.scheduling_gates) < len(old.spec.scheduling_gates):
        actions.append(Action.POD_GATES)
    if not has_same_spec and old.spec.tolerations != new.spec.tolerations:
        actions.append(Action.POD_TOLERATIONS)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        actions.append(Action.POD_CLAIMS)
    if not (has_same_spec and old.status.container_statuses == new.status.container_statuses) and _scaled_down(
        old, new
    ):
        actions.append(Action.POD_SCALE_DOWN)
    if not actions and not has_same_spec:
        actions.append(Action.UPDATE)
    return [ClusterEvent("Pod", action) for action in actions]


def _scaled_down(old: Pod, new: Pod) -> bool:
    table = ResourceTable()
    before = dict(table.vector(pod_requests(old.spec, old.status)))
    after = dict(table.vector(pod_requests(new.spec, new.status)))
    return any(after.get(column, 0) < amount for column, amount in before.items())


def object_change(kind: str, old: Any, new: Any) -> ClusterEvent:
    """The event of any other object: added, changed or deleted."""
    if old is None:
        return ClusterEvent(kind, Action.ADD)
    return ClusterEvent(kind, Action.UPDATE if new is not None else Action.DELETE)
