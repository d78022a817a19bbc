"""VolcanoPodGroups: the pod groups of Volcano (`scheduling.volcano.sh/v1beta1` PodGroup and Queue).

A pod belongs to the group that its annotation `scheduling.k8s.io/group-name` (or `scheduling.volcano.sh/group-name`) names. A group waits until its queue
exists and is open, its queue's `capability` is not exceeded by it, and the cluster has its `minResources` free. Weights of queues, `minTaskMember` and
`priorityClassName` of groups mean nothing here: pods have priorities, and TenantFairness divides a cluster.

Source of the behaviour: the types of volcano-sh/apis, and the phases that Volcano's scheduler writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.api.types import meta_v1
from bayplan.scheduler.framework.custom_groups import CustomGroupsPlugin, GroupProgress, Tree, amounts
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup, GroupQueue

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod

GROUP_NAMES: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations of pods."""
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"


class VolcanoPodGroups(CustomGroupsPlugin):
    """See the module."""

    name = "VolcanoPodGroups"
    api_group = "scheduling.volcano.sh"
    version = "v1beta1"
    has_queues = True
    default_queue = "default"

    def group_name(self, pod: Pod) -> str:
        annotations = pod.metadata.annotations
        return next((annotations[key] for key in GROUP_NAMES if annotations.get(key)), "")

    def queue_of(self, spec: Tree) -> str:
        return str(spec.get("queue") or self.default_queue)

    def read_queue(self, metadata: meta_v1.ObjectMeta, content: Tree) -> GroupQueue:
        """A queue from its custom resource. Raises MalformedGroup."""
        spec, status = content.get("spec") or {}, content.get("status") or {}
        is_open = status.get("state") not in ("Closed", "Closing")
        return GroupQueue(metadata.name, is_open, amounts(spec.get("capability"), "spec.capability"))

    def status_of(self, group: CustomPodGroup, progress: GroupProgress) -> dict[str, Any]:
        status = dict(group.written_status)
        phases = [pod.status.phase for pod in progress.pods]
        running, succeeded, failed = (phases.count(phase) for phase in ("Running", "Succeeded", "Failed"))
        placed = progress.placed + succeeded + failed
        if placed and placed >= group.min_count:
            phase = "Completed" if succeeded == len(phases) else "Running"
        elif running and progress.refusal:
            phase = "Unknown"
        elif not progress.refusal or status.get("phase") == "Inqueue":
            phase = "Inqueue"
        else:
            phase = "Pending"
        status |= {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}
        if phase in ("Running", "Completed"):
            status["conditions"] = _with(status, _condition(SCHEDULED, "tasks in the gang are ready", progress))
        elif progress.refusal:
            status["conditions"] = _with(status, _condition(UNSCHEDULABLE, progress.refusal, progress))
        return status


def _condition(kind: str, message: str, progress: GroupProgress) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True",
        "transitionID": progress.transition_id,
        "lastTransitionTime": progress.now,
        "reason": "NotEnoughResources" if kind == UNSCHEDULABLE else "Ready",
        "message": message,
    }


def _with(status: Tree, condition: dict[str, Any]) -> list[dict[str, Any]]:
    """The conditions of a status with one that says how the group is now; those that say the same already stay as they are."""
    known = [one for one in status.get("conditions") or () if isinstance(one, dict)]
    same = ("type", "status", "reason", "message")
    if any(all(one.get(key) == condition[key] for key in same) for one in known):
        return known
    return [*(one for one in known if one.get("type") not in (UNSCHEDULABLE, SCHEDULED)), condition]
