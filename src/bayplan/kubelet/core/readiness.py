"""What a change of one container's readiness makes of a pod's status (SetContainerReadiness in pkg/kubelet/status/status_manager.go)."""

from __future__ import annotations

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.conditions import containers_ready, pod_ready

_SECTIONS = ("init_container_statuses", "container_statuses")


def with_readiness(
    pod: core_v1.Pod, status: core_v1.PodStatus, container_id: str, ready: bool
) -> core_v1.PodStatus | None:
    """The status with a container's readiness and the conditions that follow from it; None if that changes nothing.

    container_id: as the runtime names it, without its scheme.
    """
    changed = {name: tuple(_changed(each, container_id, ready) for each in getattr(status, name)) for name in _SECTIONS}
    if all(changed[name] == getattr(status, name) for name in _SECTIONS):
        return None
    by_name = {each.name: each for name in _SECTIONS for each in changed[name]}
    own = {
        "Ready": pod_ready(pod, by_name, status.phase, status.conditions),
        "ContainersReady": containers_ready(pod, by_name, status.phase),
    }
    conditions = tuple(own.get(each.type, each) for each in status.conditions)
    result: core_v1.PodStatus = msgspec.structs.replace(status, conditions=conditions, **changed)
    return result


def _changed(status: core_v1.ContainerStatus, container_id: str, ready: bool) -> core_v1.ContainerStatus:
    if status.container_id.partition("://")[2] != container_id or status.ready == ready:
        return status
    changed: core_v1.ContainerStatus = msgspec.structs.replace(status, ready=ready)
    return changed
