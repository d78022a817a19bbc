"""Cluster events, and the hints by which plugins say which of them may help a pod that they rejected."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any, Final

from bayplan.scheduler.snapshot.pods import PodInfo

COMPOSITE: Final = "CompositePodGroup"
"""The resource of events about composite pod groups."""


class Action(enum.Flag):
    """What happened to an object, as far as scheduling is concerned."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE = enum.auto()
    """Something else about it changed, or the resource knows no finer kinds of change."""
    NODE_ALLOCATABLE = enum.auto()
    NODE_LABEL = enum.auto()
    NODE_TAINT = enum.auto()
    NODE_CONDITION = enum.auto()
    NODE_ANNOTATION = enum.auto()
    NODE_FEATURES = enum.auto()
    POD_LABEL = enum.auto()
    POD_SCALE_DOWN = enum.auto()
    POD_TOLERATIONS = enum.auto()
    POD_GATES = enum.auto()
    POD_CLAIMS = enum.auto()


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event: the kind of object (`Node`, `Pod`, `PersistentVolumeClaim`, ...) and what happened to it."""

    resource: str
    action: Action

    @property
    def label(self) -> str:
        """The event's name in metrics and logs, such as `NodeAdd`."""
        return _label(self.resource, self.action)


@functools.cache
def _label(resource: str, action: Action) -> str:
    names = [item.name for item in Action if item in action and item.name is not None]
    return resource + "".join(name.title().replace("_", "") for name in names)


Hint = Callable[[PodInfo, Any, Any], bool]
"""(waiting pod, old object or None, new object or None) -> whether the event may make the pod schedulable."""
Partitions = Callable[[Any, Any], Collection[Hashable] | None]
"""(old object or None, new object or None) -> the partitions with pods that the event may help (see `Plugin.partition_of`); None if any may have some."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """One kind of event that may help, and a closer look at it; without `hint` it always may.

    `per_shape`: the hint looks at nothing of the waiting pod but its shape, so that one answer serves all pods alike. `partitions`: where to look for
    pods at all, for plugins that divide theirs; without it, everywhere.
    """

    resource: str
    actions: Action
    hint: Hint | None = None
    per_shape: bool = False
    partitions: Partitions | None = None

    def may_help(self, event: ClusterEvent, pod: PodInfo, old: Any, new: Any) -> bool:
        """Whether the event may help the pod."""
        if self.resource not in (event.resource, "*") or not (self.actions & event.action):
            return False
        return self.hint is None or self.hint(pod, old, new)


def is_itself(pod: PodInfo, old: Any, new: Any) -> bool:
    """The waiting pod itself changed."""
    return bool(new.metadata.uid == pod.uid)


def left_node(old: Any) -> str:
    """The node that a deleted pod was on, or that it was promised; empty if it had none."""
    return str(old.spec.node_name or old.status.nominated_node_name)


def is_own_claim(pod: PodInfo, old: Any, new: Any) -> bool:
    """A persistent volume claim that the waiting pod names came or changed."""
    mounted = (volume.persistent_volume_claim for volume in pod.shape.volumes)
    names = [source.claim_name for source in mounted if source is not None]
    return new.metadata.namespace == pod.shape.namespace and new.metadata.name in names
