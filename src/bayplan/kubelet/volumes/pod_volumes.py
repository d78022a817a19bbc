"""The volumes of one pod: which there are to be, which are there, and what keeps the others from being there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.field_values import every_container
from bayplan.kubelet.volumes.interface import Mounted, SetUp, VolumeHost, VolumeKind, VolumeSpec


@dataclass(slots=True)
class PodVolume:
    """One volume.

    `mounted` is None until it was set up once; `task` is what sets it up, or brings it up to date, now; `again` says that this is to be done once more.
    """

    spec: VolumeSpec
    kind: VolumeKind
    unique_name: str
    mounted: Mounted | None = None
    task: asyncio.Task[None] | None = None
    again: asyncio.Event = field(default_factory=asyncio.Event)
    waits_for_attachment: bool = False


@dataclass(slots=True)
class PodVolumes:
    """All volumes of a pod that containers use, by their names in the pod."""

    pod: core_v1.Pod
    volumes: dict[str, PodVolume] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one was mounted."""

    def unmounted(self, names: set[str]) -> list[str]:
        """Which of these are not there."""
        return sorted(each for each in names if each not in self.volumes or self.volumes[each].mounted is None)

    def unattached(self) -> list[str]:
        """Which wait to be attached to the node."""
        return sorted(name for name, each in self.volumes.items() if each.waits_for_attachment)


def set_up_context(host: VolumeHost, pod: core_v1.Pod, volume: PodVolume, attached: str = "") -> SetUp:
    """What a kind needs to set up a volume."""
    security = pod.spec.security_context
    return SetUp(
        host=host,
        pod=pod,
        spec=volume.spec,
        directory=host.volume_directory(pod.metadata.uid, volume.kind.name, volume.spec.name),
        fs_group=security.fs_group if security is not None else None,
        fs_group_change_policy=(security.fs_group_change_policy or "") if security is not None else "",
        fs_user=fs_user(pod),
        attached=attached,
    )


def fs_user(pod: core_v1.Pod) -> int | None:
    """The user that all containers run as; None if one does not say or they differ."""
    security = pod.spec.security_context
    default = security.run_as_user if security is not None else None
    users = set()
    for container in every_container(pod.spec):
        own = container.security_context.run_as_user if container.security_context is not None else None
        users.add(default if own is None else own)
    return users.pop() if len(users) == 1 else None
