"""Which pods belong to which pod group, for gang scheduling (`pod.spec.schedulingGroup`)."""

from __future__ import annotations

from collections.abc import Container
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
    """Pods by group: all that exist and have not ended, placed or not."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[str, dict[str, None]] = {}

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

    def count_in(self, group: str, pods: Container[str]) -> int:
        """How many of the group's pods are among `pods`."""
        return sum(pod in pods for pod in self._members.get(group, ()))
