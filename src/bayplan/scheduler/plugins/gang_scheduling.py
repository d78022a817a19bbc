"""GangScheduling: pods of a gang are bound together or not at all (`scheduling.k8s.io` PodGroup, KEP-4671).

A gang's pods stay out of the queue until `minCount` of them exist; after 10 s they, and their group, are told so. The scheduler tries all of them in one cycle; at
Permit each waits until `minCount` are placed, and the last one lets the others go.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from bayplan.scheduler.framework.events import COMPOSITE, Action, EventHint
from bayplan.scheduler.framework.extension_points import PermitPlugin, PreEnqueuePlugin
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import PluginError, Reject, Status
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.group_trees import TreeError, count_is_enough

if TYPE_CHECKING:
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup

PERMIT_SECONDS: Final = 300.0
"""How long a placed pod waits for the rest of its gang."""


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """All or nothing for pod groups with a gang policy."""

    name = "GangScheduling"
    tells = True
    tells_after = 10.0

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        if pod.pod.spec.scheduling_group is None:
            return None
        key = group_key(pod.pod)
        group = self._group(key)
        if group is None:
            name = pod.pod.spec.scheduling_group.pod_group_name
            reason = f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
            return Reject(Status.UNRESOLVABLE, (reason,))
        if self.snapshot.gangs.count(key) < minimum(group):
            reason = "waiting for minCount pods from a gang to appear in scheduling queue"
            return Reject(Status.UNRESOLVABLE, (reason,))
        reason = self._tree_is_incomplete(key)
        return Reject(Status.UNRESOLVABLE, (reason,)) if reason else None

    def _tree_is_incomplete(self, key: str) -> str:
        """Why the tree of a group may not be tried yet; empty if it may, or there is none."""
        trees = self.snapshot.catalog.trees
        if not trees.is_child(key):
            return ""
        try:
            root = trees.root_of(key)
        except TreeError as error:
            return str(error)
        if not trees.is_ready(root, lambda leaf: count_is_enough(self.snapshot.gangs, self._group(leaf), leaf)):
            return f'waiting for composite pod group "{root.partition("/")[2]}" tree to meet quorum'
        return ""

    def explained(self, pod: PodInfo, rejection: Reject) -> str:
        text, key = super().explained(pod, rejection), group_key(pod.pod)
        group = self._group(key)
        if group is None or self.snapshot.gangs.count(key) >= minimum(group):
            return text
        return f"{text}; {self.snapshot.gangs.count(key)} of the {minimum(group)} pods that are needed exist"

    def concerns(self, pod: PodShape) -> bool:
        return pod.spec.scheduling_group is not None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | float | None:
        key = group_key(pod.pod)
        group = self._group(key)
        if group is None:
            raise PluginError(self.name, f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{key}" not found')
        if self.snapshot.gangs.count_placed(key) < minimum(group):
            seconds = group.permit_seconds if isinstance(group, CustomPodGroup) else None
            return PERMIT_SECONDS if seconds is None else seconds
        for waiting in self.handle.waiting:
            if group_key(waiting.pod.pod) == key:
                waiting.allow(self.name)
        return None

    def _group(self, key: str) -> PodGroup | None:
        return self.snapshot.catalog.pod_groups.get(key)

    # Hints

    def partition_of(self, pod: PodInfo) -> Hashable:
        return group_key(pod.pod)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("UnscheduledPod", Action.ADD, self._completes, per_shape=True, partitions=self._of_pod),
            EventHint("Pod", Action.ADD, self._completes, per_shape=True, partitions=self._of_pod),
            EventHint("PodGroup", Action.ADD, self._is_its_group, per_shape=True, partitions=self._of_group),
            EventHint("PodGroup", Action.UPDATE, self._asks_for_less, per_shape=True, partitions=self._of_group),
            EventHint(COMPOSITE, Action.UPDATE, self._completes_tree, per_shape=True),
        )

    def _of_pod(self, old: Any, new: Any) -> tuple[str, ...] | None:
        """The group of a pod; None if the pod means others as well, since they are in one tree."""
        key = group_key(new)
        if self.snapshot.catalog.trees.is_child(key):
            return None
        return (key,) if key else ()

    def _of_group(self, old: Any, new: Any) -> tuple[str, ...] | None:
        """A pod group; None if a change of it may mean others, since there are trees."""
        if self.snapshot.catalog.trees.has_children:
            return None
        return (f"{new.metadata.namespace}/{new.metadata.name}",)

    def _completes(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """A further pod of the gang came, and there are enough now."""
        key = group_key(pod.pod)
        other = group_key(new)
        is_near = other == key or self.snapshot.catalog.trees.is_beside(key, other)
        return bool(key) and is_near and self.pre_enqueue(pod) is None

    def _is_its_group(self, pod: PodInfo, old: Any, new: Any) -> bool:
        key, changed = group_key(pod.pod), f"{new.metadata.namespace}/{new.metadata.name}"
        is_near = self.snapshot.catalog.trees.is_beside(key, changed)
        return key == changed or (is_near and self._completes_tree(pod, old, new))

    def _completes_tree(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """The tree is complete now."""
        return self.snapshot.catalog.trees.is_child(group_key(pod.pod)) and self.pre_enqueue(pod) is None

    def _asks_for_less(self, pod: PodInfo, old: Any, new: Any) -> bool:
        is_own = group_key(pod.pod) == f"{new.metadata.namespace}/{new.metadata.name}"
        return (is_own and minimum(new) < minimum(old)) or self._completes_tree(pod, old, new)


def minimum(group: PodGroup) -> int:
    """How many pods of a group have to be placed together; 0 if the group is no gang."""
    gang = group.spec.scheduling_policy.gang
    return gang.min_count if gang is not None else 0
