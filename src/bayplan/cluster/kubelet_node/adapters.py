"""A node's volumes, cgroups and pods in the form in which pod workers and the kubelet's server use them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from bayplan.api.types import core_v1
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.pods import PodCgroups, QosCgroups
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.pods.pod_syncer import VolumeLimitError, VolumeNotReadyError
from bayplan.kubelet.user_namespaces import UserNamespaces
from bayplan.kubelet.volumes.errors import AttachLimitError, VolumeError
from bayplan.kubelet.volumes.manager import VolumeManager


class WorkerVolumes:
    """`PodVolumes` over the volume manager."""

    def __init__(self, manager: VolumeManager, users: UserNamespaces) -> None:
        self._manager = manager
        self._users = users

    async def mount(self, pod: core_v1.Pod) -> None:
        """See PodVolumes."""
        try:
            await self._manager.mount(pod)
        except AttachLimitError as error:
            raise VolumeLimitError(str(error)) from error
        except VolumeError as error:
            raise VolumeNotReadyError(str(error), is_reported=error.interrupted) from error

    async def unmount(self, pod_uid: str) -> None:
        """See PodVolumes."""
        try:
            await self._manager.unmount(pod_uid)
        except VolumeError as error:
            raise VolumeNotReadyError(str(error)) from error
        await self._users.release(pod_uid)  # its files had owners of the range until now


class WorkerDirectories:
    """`PodDirectories` over cgroups; directories belong to the volumes."""

    def __init__(
        self, qos: QosCgroups | None, cgroups: PodCgroups | None, active: Callable[[], Collection[core_v1.Pod]]
    ) -> None:
        self._qos = qos
        self._cgroups = cgroups
        self._active = active

    async def prepare(self, pod: core_v1.Pod, *, running: bool) -> bool:
        """See PodDirectories."""
        if self._qos is None or self._cgroups is None or self._cgroups.exists(pod):
            return True
        if running:
            return False  # containers that run outside of their pod's cgroup have no limits
        try:
            self._qos.update(self._active())
            self._cgroups.create(pod)
        except CgroupError as error:
            raise OSError(str(error)) from error
        return True

    async def remove(self, pod_uid: str) -> None:
        """See PodDirectories."""
        if self._cgroups is None:
            return
        try:
            await self._cgroups.remove(pod_uid)
        except CgroupError as error:
            raise OSError(str(error)) from error


class ServedPods:
    """`Pods` of the kubelet's server."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet

    def all(self) -> list[core_v1.Pod]:
        """See Pods."""
        return self._kubelet.pods.all()

    def by_name(self, namespace: str, name: str) -> core_v1.Pod | None:
        """See Pods."""
        return next(
            (each for each in self.all() if (each.metadata.namespace, each.metadata.name) == (namespace, name)), None
        )

    def status(self, pod: core_v1.Pod) -> core_v1.PodStatus:
        """See Pods."""
        return self._kubelet.statuses.get(pod.metadata.uid) or pod.status
