"""Deleting a pod that somebody else needs gone: first its status says why (`DisruptionTarget`), then it goes."""

from __future__ import annotations

from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.controllers.base import with_condition
from bayplan.controllers.pods import disruption_target


async def evict(client: Client, pod: core_v1.Pod, reason: str, message: str, now: float) -> None:
    """Mark a pod and delete it, if it is still that pod. `now`: Unix seconds. Raises ApiError (404, 409)."""
    changed: core_v1.Pod = clone(pod)
    condition = disruption_target(pod, now, reason, message)
    changed.status.conditions = with_condition(pod.status.conditions, condition)
    await client.update_status(changed)
    await client.delete(core_v1.Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
