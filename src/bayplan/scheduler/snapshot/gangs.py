"""Which pods belong to which pod group, for gang scheduling (`pod.spec.schedulingGroup`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup

PREFERRED_TOPOLOGY: Final = "bayplan.dev/preferred-topology"
"""Annotation of a pod group: topology keys, of which the group is to be within one domain if that can be, narrowest first."""


def is_constrained(group: PodGroup) -> bool:
    """Whether a group is placed on one set of nodes out of several."""
    return group.spec.scheduling_constraints is not None or PREFERRED_TOPOLOGY in group.metadata.annotations


def group_key(pod: Pod) -> str:
    """`namespace/name` of a pod's group; empty if it belongs to none."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ""
    return f"{pod.metadata.namespace}/{group.pod_group_name}"


class Gangs:
    """Pods by group: all that exist and have not ended, placed or not; and how many pods of a group are on nodes."""

    __slots__ = ("_members", "_placed")

    def __init__(self) -> None:
        self._members: dict[str, dict[str, None]] = {}
        self._placed: dict[str, int] = {}

    def add(self, group: str, pod: str) -> None:
        """A pod (`namespace/name`) belongs to a group."""
        self._members.setdefault(group, {})[pod] = None

    def remove(self, group: str, pod: str) -> None:
        """A pod is gone or has ended."""
        members = self._members.get(group)
        if members is not None:
            members.pop(pod, None)
            if not members:
                del self._members[group]

    def members(self, group: str) -> list[str]:
        """The group's pods, in the order in which they came."""
        return list(self._members.get(group, ()))

    def count(self, group: str) -> int:
        """How many pods the group has."""
        return len(self._members.get(group, ()))

    def count_placed(self, group: str) -> int:
        """How many of the group's pods are on nodes."""
        return self._placed.get(group, 0)

    def note_placed(self, pod: Pod, delta: int) -> None:
        """A pod of a group came to a node (1) or left it (-1)."""
        group = group_key(pod)
        count = self._placed.get(group, 0) + delta
        if count:
            self._placed[group] = count
        else:
            self._placed.pop(group, None)
