"""Coscheduling: the pod groups of kubernetes-sigs/scheduler-plugins (`scheduling.x-k8s.io/v1alpha1` PodGroup).

A pod belongs to the group that its label `scheduling.x-k8s.io/pod-group` names. The queue is in the order of PrioritySort: the pods of a group are
taken together when the first of them has its turn, so they need not be neighbours. No group is ever placed in part, so that the timeout
(`scheduleTimeoutSeconds`, or `permitWaitingTimeSeconds` of the arguments) matters only to groups whose pods other Permit plugins hold back.

Source of the behaviour: the types and the PodGroup controller of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.scheduler.framework.custom_groups import CustomGroupsPlugin, GroupProgress, Tree, whole
from bayplan.scheduler.framework.extension_points import QueueSortPlugin
from bayplan.scheduler.framework.extra_arguments import CoschedulingArgs
from bayplan.scheduler.framework.state import PodInfo
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_FINAL: Final = ("Finished", "Failed")


class Coscheduling(CustomGroupsPlugin, QueueSortPlugin):
    """See the module."""

    name = "Coscheduling"
    api_group = "scheduling.x-k8s.io"
    version = "v1alpha1"

    def group_name(self, pod: Pod) -> str:
        return pod.metadata.labels.get(POD_GROUP_LABEL, "")

    def permit_seconds(self, spec: Tree) -> float | None:
        args = self.args if isinstance(self.args, CoschedulingArgs) else CoschedulingArgs()
        return float(whole(spec, "scheduleTimeoutSeconds") or args.permit_waiting_time_seconds)

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[float, ...]:
        return (-pod.priority, queued_at)

    def status_of(self, group: CustomPodGroup, progress: GroupProgress) -> dict[str, Any]:
        status = dict(group.written_status)
        if status.get("phase") in _FINAL:
            return status
        phases = [pod.status.phase for pod in progress.pods]
        running, succeeded, failed = (phases.count(phase) for phase in ("Running", "Succeeded", "Failed"))
        least, ended = group.min_count, succeeded + failed
        if succeeded and succeeded >= least:
            phase = "Finished"
        elif failed and ended + running >= least:
            phase = "Failed"
        elif len(phases) < max(least, 1):
            phase = "Pending"
        else:
            phase = "Running" if running and running + succeeded >= least else "Scheduling"
        status |= {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}
        if phase != "Pending":
            status.setdefault("scheduleStartTime", progress.now)
            if owners := _owners(progress.pods[0]):
                status.setdefault("occupiedBy", owners)
        return status


def _owners(pod: Pod) -> str:
    """The owners of a pod, as the status of its group names them."""
    return ",".join(sorted(f"{pod.metadata.namespace}/{owner.name}" for owner in pod.metadata.owner_references))
