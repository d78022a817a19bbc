"""The contract of a kind of volume.

A kind turns a `VolumeSpec` into something that can be mounted into containers. It holds no state about single volumes: what it needs later it finds in the
volume's directory, because the kubelet may have been restarted meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bayplan.api.types import core_v1
from bayplan.kubelet.objects import ObjectSource
from bayplan.support.blocking import Blocking
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.system.mounts import Mounter

DEVICES: Final = "volumeDevices"
"""Where a pod's directory has its block volumes."""


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume that is to be mounted: one of the pod's, or the persistent volume that its claim is bound to.

    `outer_name` is its name in the pod. `is_block` volumes are devices, not file systems. `gid` is the group that the persistent volume's
    annotation `pv.beta.kubernetes.io/gid` names.
    """

    outer_name: str
    volume: core_v1.Volume | None = None
    persistent_volume: core_v1.PersistentVolume | None = None
    read_only: bool = False
    is_block: bool = False
    gid: int | None = None

    @property
    def name(self) -> str:
        """The name that directories and messages use: the persistent volume's where there is one."""
        return self.persistent_volume.metadata.name if self.persistent_volume is not None else self.outer_name

    @property
    def mount_options(self) -> tuple[str, ...]:
        """Options that the persistent volume asks for."""
        volume = self.persistent_volume
        if volume is None:
            return ()
        old = volume.metadata.annotations.get("volume.beta.kubernetes.io/mount-options")
        return tuple(old.split(",")) if old else tuple(volume.spec.mount_options)


@dataclass(frozen=True, slots=True)
class Mounted:
    """A volume that is set up.

    host_path: what is to be mounted into containers; empty for images, which the runtime mounts. read_only: whatever the container asks for.
    relabel: whether the runtime may change its SELinux label. image: the reference of an image volume. is_device: a block device.
    """

    host_path: str = ""
    read_only: bool = False
    relabel: bool = False
    image: str = ""
    is_device: bool = False


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    """How much a volume uses, in bytes and inodes. capacity and available are those of its file system."""

    used_bytes: int
    capacity_bytes: int
    available_bytes: int
    inodes_used: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True, slots=True)
class VolumeHost:
    """What the node gives to all kinds.

    root: the kubelet's directory. allocatable: the node's allocatable amounts now. event: records an event about a pod (type, reason, message).
    """

    root: Path
    node_name: str
    mounter: Mounter
    objects: ObjectSource
    clock: Clock
    randomness: Randomness
    blocking: Blocking
    allocatable: Callable[[], Mapping[str, str | int | float]]
    event: Callable[[core_v1.Pod, str, str, str], None]

    def pod_directory(self, pod_uid: str) -> Path:
        """ROOT/pods/UID."""
        return self.root / "pods" / pod_uid

    def volume_directory(self, pod_uid: str, kind: str, name: str) -> Path:
        """ROOT/pods/UID/volumes/kubernetes.io~KIND/NAME."""
        return self.pod_directory(pod_uid) / "volumes" / escaped(kind) / name

    def device_link(self, pod_uid: str, kind: str, name: str) -> Path:
        """ROOT/pods/UID/volumeDevices/kubernetes.io~KIND/NAME, which leads to the device of a block volume."""
        return self.pod_directory(pod_uid) / DEVICES / escaped(kind) / name

    def plugin_directory(self, pod_uid: str, kind: str) -> Path:
        """ROOT/pods/UID/plugins/kubernetes.io~KIND."""
        return self.pod_directory(pod_uid) / "plugins" / escaped(kind)


def escaped(kind: str) -> str:
    """A kind's name as part of a path."""
    return kind.replace("/", "~")


@dataclass(frozen=True, slots=True)
class SetUp:
    """A volume that is to be set up for a pod.

    fs_group: the group that is to own it; fs_user: the user all containers run as, where they run as one. attached: the device or path at
    which an attached volume is, from `node.status.volumesAttached`.
    """

    host: VolumeHost
    pod: core_v1.Pod
    spec: VolumeSpec
    directory: Path
    fs_group: int | None = None
    fs_group_change_policy: str = ""
    fs_user: int | None = None
    attached: str = ""


@dataclass(frozen=True, slots=True)
class TearDown:
    """A volume that a pod does not use any more. `name` and `directory` are all that is known after a restart."""

    host: VolumeHost
    pod_uid: str
    name: str
    directory: Path


class VolumeKind(Protocol):
    """A kind of volume, such as kubernetes.io/configmap. What most kinds have no use for does nothing here."""

    name: str
    supports_mount_options: bool

    def needs_remount(self, spec: VolumeSpec) -> bool:
        """Whether `set_up` is to be called again and again, because what the volume shows changes."""
        return False

    def is_attachable(self, spec: VolumeSpec) -> bool:
        """Whether something else attaches it to the node first; `set_up` waits for `node.status.volumesAttached` then."""
        return False

    async def has_reached_limit(self, spec: VolumeSpec) -> bool:
        """Whether a volume that is not attached cannot be, as the node has as many as it can have. Asked about volumes for which a pod has waited long."""
        return False

    async def left_in_use(self, host: VolumeHost) -> Collection[str]:
        """Unique names of attachable volumes that are mounted on the node, whether a pod still has them or not."""
        return ()

    async def clean_up(self, host: VolumeHost) -> None:
        """Undo what volumes have left that no pod has any more, as far as that is possible now."""
        return

    async def close(self) -> None:
        """Stop what goes on; what is mounted stays."""
        return

    def can_support(self, spec: VolumeSpec) -> bool:
        """Whether a volume is of this kind."""

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """The name of the volume in `node.status.volumesInUse`; equal for pods that share it."""

    async def set_up(self, context: SetUp) -> Mounted:
        """Make the volume ready, or bring it up to date. May be called again at any time. Raises SetUpError, MountError, OSError, ApiError."""

    async def tear_down(self, context: TearDown) -> None:
        """Remove what `set_up` made; nothing is done twice. Raises SetUpError, MountError, OSError."""

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """How much it uses; None where that is not known or not the pod's."""
