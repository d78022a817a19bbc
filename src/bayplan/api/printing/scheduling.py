"""How priority classes, pod groups and workloads look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import NONE, name_and_age, object_age, printers
from bayplan.api.types import scheduling_v1, scheduling_v1alpha2


def _priority_class(obj: scheduling_v1.PriorityClass, now: float) -> list[Any]:
    return [obj.metadata.name, obj.value, obj.global_default, object_age(obj, now), obj.preemption_policy or ""]


def _pod_group(obj: scheduling_v1alpha2.PodGroup, now: float) -> list[Any]:
    conditions = {one.type: one for one in obj.status.conditions}
    scheduled, disrupted = conditions.get("PodGroupScheduled"), conditions.get("DisruptionTarget")
    status = "Pending"
    if scheduled is not None:
        status = "Scheduled" if scheduled.status == "True" else "Unschedulable"
    if disrupted is not None:
        status = disrupted.reason
    reference = obj.spec.pod_group_template_ref
    workload = reference.workload.workload_name if reference is not None and reference.workload is not None else NONE
    policy = "Gang" if obj.spec.scheduling_policy.gang is not None else "Basic"
    return [obj.metadata.name, policy, workload, status, object_age(obj, now)]


PRINTERS = printers(
    "scheduling",
    {"PriorityClass": _priority_class, "PodGroup/v1alpha2": _pod_group, "Workload/v1alpha2": name_and_age},
)
