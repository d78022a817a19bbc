"""How a kubelet's status of a pod and that of the API become one, and the patch that writes it (pkg/kubelet/status, pkg/util/pod)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan.api.codec import encode
from bayplan.api.types import core_v1
from bayplan.kubelet.core.conditions import DISRUPTION_TARGET, OWN_CONDITIONS
from bayplan.kubelet.core.pod_status import TERMINAL


def merged_status(
    pod: core_v1.Pod, old: core_v1.PodStatus, new: core_v1.PodStatus, *, may_run: bool
) -> core_v1.PodStatus:
    """The status to write. old: that of the API. new: the kubelet's. may_run: whether containers of the pod may still run."""
    ending = old.phase not in TERMINAL and new.phase in TERMINAL
    conditions = [each for each in old.conditions if each.type not in OWN_CONDITIONS]
    for condition in new.conditions:
        if condition.type in OWN_CONDITIONS:
            conditions.append(condition)
        elif condition.type == DISRUPTION_TARGET and ending and not may_run:
            conditions = [each for each in conditions if each.type != DISRUPTION_TARGET] + [condition]
    phase, reason, message = new.phase, new.reason, new.message
    if ending and may_run:
        phase, reason, message = old.phase, old.reason, old.message
    if phase in TERMINAL:
        conditions = [_unready(each, phase) for each in conditions]
    status: core_v1.PodStatus = msgspec.structs.replace(
        new,
        phase=phase,
        reason=reason,
        message=message,
        conditions=tuple(conditions),
        nominated_node_name=old.nominated_node_name,
        resource_claim_statuses=old.resource_claim_statuses,
        extended_resource_claim_status=old.extended_resource_claim_status,
        node_allocatable_resource_claim_statuses=old.node_allocatable_resource_claim_statuses,
    )
    return status


def _unready(condition: core_v1.PodCondition, phase: str) -> core_v1.PodCondition:
    if condition.type not in ("Ready", "ContainersReady") or condition.status != "True":
        return condition
    reason = "PodFailed" if phase == "Failed" else "PodCompleted"
    changed: core_v1.PodCondition = msgspec.structs.replace(condition, status="False", reason=reason, message="")
    return changed


_MERGE_KEYS: Final = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip"}
"""Lists of a pod's status whose elements a strategic merge patch changes one by one."""


def status_patch(pod: core_v1.Pod, wanted: core_v1.PodStatus) -> dict[str, Any] | None:
    """The strategic merge patch that gives a pod this status; None if it has it.

    It names the pod's uid, so that it fails on another pod of the same name, and only what changes, so that others may write conditions meanwhile.
    """
    old, new = msgspec.json.decode(encode(pod.status)), msgspec.json.decode(encode(wanted))
    changes: dict[str, Any] = {}
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        key = _MERGE_KEYS.get(name)
        if key is None or after is None or before is None:
            changes[name] = after
        else:
            changes[name] = _list_changes(before, after, key)
            changes[f"$setElementOrder/{name}"] = [{key: each[key]} for each in after]
    if not changes:
        return None
    return {"metadata": {"uid": pod.metadata.uid}, "status": changes}


def _list_changes(before: list[Any], after: list[Any], key: str) -> list[Any]:
    known = {each[key]: each for each in before}
    changed = []
    for item in after:
        old = known.pop(item[key], None)
        if old is None:
            changed.append(item)
        elif old != item:
            gone = dict.fromkeys(old.keys() - item.keys())
            changed.append(
                {**{name: value for name, value in item.items() if old.get(name) != value}, **gone, key: item[key]}
            )
    return changed + [{"$patch": "delete", key: value} for value in known]
