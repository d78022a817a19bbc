"""Pod groups and queues that come from custom resources of other schedulers, in the form in which the scheduler keeps them.

A custom group is kept among the pod groups of Kubernetes under the name `API group/name`. No object of Kubernetes has a slash in its name, so
that a group of the same name in another API group is another group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from bayplan.api.types.core_v1 import PodSchedulingGroup
from bayplan.api.types.scheduling_v1alpha2 import PodGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bayplan.api.types.core_v1 import Pod


class CustomPodGroup(PodGroup):
    """A pod group with what only other schedulers' groups say."""

    origin: str = ""
    """The API group of the custom resource."""
    min_resources: dict[str, int] = msgspec.field(default_factory=dict)
    """What has to be free before any pod of the group is tried, by resource, in the units of the scheduler's columns."""
    permit_seconds: float | None = None
    """How long placed pods wait for others of the group at Permit; None for what the plugin says."""
    queue: str = ""
    """The queue to which the group belongs; empty where there are none."""
    written_status: dict[str, Any] = msgspec.field(default_factory=dict)
    """The status of the custom resource as the API shows it."""

    @property
    def own_name(self) -> str:
        """The name of the custom resource."""
        return self.metadata.name.rpartition("/")[2]

    @property
    def min_count(self) -> int:
        """How many pods have to be placed together."""
        gang = self.spec.scheduling_policy.gang
        return gang.min_count if gang is not None else 0


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """A queue of custom groups."""

    name: str
    is_open: bool = True
    capability: Mapping[str, int] = field(default_factory=dict)
    """What the pods of all its groups may request together, by resource, in the units of the scheduler's columns."""


def custom_name(origin: str, name: str) -> str:
    """The name under which a custom group is kept."""
    return f"{origin}/{name}"


def in_custom_group(pod: Pod, origin: str, name: str) -> Pod:
    """The pod as a member of a custom group."""
    group = PodSchedulingGroup(pod_group_name=custom_name(origin, name))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_group=group))
