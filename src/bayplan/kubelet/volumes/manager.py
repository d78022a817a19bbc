"""Sets up the volumes of this node's pods, keeps them up to date, and tears them down (pkg/kubelet/volumemanager).

What is to be there follows from the pods that wait for their volumes; what is there is on disk. After a restart nothing is remembered: pods that come again have
their volumes set up again, which changes nothing where they are, and directories of pods that do not come are torn down as they are found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from bayplan.api.types import core_v1
from bayplan.kubelet.objects import ObjectError
from bayplan.kubelet.volumes.claims import check_node_affinity, used_volumes, volume_spec
from bayplan.kubelet.volumes.disk import make_pod_directories, orphans, remove_pod_directory, tear_down_volumes
from bayplan.kubelet.volumes.errors import AttachLimitError, SetUpError, VolumeError
from bayplan.kubelet.volumes.interface import Mounted, VolumeHost, VolumeSpec, VolumeUsage
from bayplan.kubelet.volumes.kinds import VolumeKinds
from bayplan.kubelet.volumes.pod_volumes import PodVolume, PodVolumes, set_up_context
from bayplan.support.system.mounts import MountError

logger = logging.getLogger(__name__)

WAIT_SECONDS = 123.0
"""How long one `wait_for_mounts` waits (podAttachAndMountTimeout)."""
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 122.0
REFRESH_SECONDS = 60.0
"""How often volumes are brought up to date that show what changes."""
ATTACHMENT_SECONDS = 0.3
FAILED = "FailedMount"
_FAILURES = (SetUpError, MountError, ObjectError, OSError)


class VolumeManager:
    """See the module."""

    def __init__(
        self,
        host: VolumeHost,
        kinds: VolumeKinds,
        *,
        node: Callable[[], core_v1.Node | None],
        in_use_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """node: this node as the API shows it. in_use_changed: called when `volumes_in_use` has more or less to say."""
        self._host = host
        self.kinds = kinds
        self._node = node
        self._in_use_changed = in_use_changed
        self._pods: dict[str, PodVolumes] = {}
        self._tearing_down: dict[str, asyncio.Lock] = {}
        host.objects.on_change(self._refresh)

    async def wait_for_mounts(self, pod: core_v1.Pod) -> Mapping[str, Mounted]:
        """Return when all volumes that the pod's containers use are there, by their names in the pod. Volumes that are there and show what changes are brought up to
        date meanwhile. Raises VolumeError: after two minutes, or at once if it is not known what is to be mounted."""
        self._host.objects.register(pod)
        uid = pod.metadata.uid
        entry = self._pods.setdefault(uid, PodVolumes(pod))
        entry.pod = pod
        try:
            await self._host.blocking(lambda: make_pod_directories(self._host.pod_directory(uid)))
        except OSError as error:
            raise VolumeError(f"unable to make pod data directories: {error}") from error
        mounts, devices = used_volumes(pod)
        names = {each.name for each in pod.spec.volumes if each.name in mounts or each.name in devices}
        errors = await self._resolve(entry, mounts, devices)
        for volume in entry.volumes.values():
            self._work_on(entry, volume)
        if errors:
            raise self._error(entry, names, "; ".join(errors), interrupted=False)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while entry.unmounted(names):
                    entry.changed.clear()
                    await entry.changed.wait()
        except TimeoutError:
            late = self._error(entry, names, "context deadline exceeded", interrupted=True)
            if await self._has_reached_limit(entry):
                text = f"Node has reached its volume attachment limit, rejecting pod. {late}"
                raise AttachLimitError(text, unmounted=late.unmounted, interrupted=True) from None
            raise late from None
        return self.mounted(uid)

    async def mount(self, pod: core_v1.Pod) -> None:
        """As `wait_for_mounts`, for those who ask for the volumes later."""
        await self.wait_for_mounts(pod)

    def mounted(self, pod_uid: str) -> Mapping[str, Mounted]:
        """The volumes of a pod that are there, by their names in the pod."""
        entry = self._pods.get(pod_uid)
        volumes = entry.volumes if entry is not None else {}
        return {name: each.mounted for name, each in volumes.items() if each.mounted is not None}

    def inner_name(self, pod_uid: str, name: str) -> str:
        """The name by which directories call a pod's volume: that of the persistent volume where there is one."""
        entry = self._pods.get(pod_uid)
        return entry.volumes[name].spec.name if entry is not None and name in entry.volumes else name

    def extra_groups(self, pod: core_v1.Pod) -> list[int]:
        """Groups that the pod's persistent volumes ask for by annotation, besides those that the pod has."""
        security = pod.spec.security_context
        known = set(security.supplemental_groups) if security is not None else set()
        entry = self._pods.get(pod.metadata.uid)
        found = {each.spec.gid for each in entry.volumes.values()} if entry is not None else set()
        return sorted(gid for gid in found if gid is not None and gid not in known)

    async def volumes_in_use(self) -> list[str]:
        """What `node.status.volumesInUse` is to say: attachable volumes that are mounted or are to be."""
        volumes = (each for entry in self._pods.values() for each in entry.volumes.values())
        names = {each.unique_name for each in volumes if each.kind.is_attachable(each.spec)}
        for kind in self.kinds:
            names.update(await kind.left_in_use(self._host))
        return sorted(names)

    async def usage(self, pod_uid: str) -> dict[str, VolumeUsage]:
        """How much a pod's volumes use, by their names in the pod. What cannot be measured is left out."""
        entry = self._pods.get(pod_uid)
        found = {}
        for name, volume in list(entry.volumes.items()) if entry is not None else ():
            if entry is None or volume.mounted is None:
                continue
            try:
                usage = await volume.kind.usage(set_up_context(self._host, entry.pod, volume))
            except OSError as error:
                logger.warning("usage of volume %s of pod %s: %s", name, pod_uid, error)
                continue
            if usage is not None:
                found[name] = usage
        return found

    async def unmount(self, pod_uid: str) -> None:
        """Return when no volume of a pod is mounted any more, and its directory is gone. Does nothing where it is. Raises VolumeError."""
        async with self._tearing_down.setdefault(pod_uid, asyncio.Lock()):
            entry = self._pods.pop(pod_uid, None)
            if entry is not None:
                await _stop(entry)
            errors = await tear_down_volumes(self._host, self.kinds, pod_uid)
            if errors:
                if entry is not None:
                    self._pods.setdefault(pod_uid, entry)
                raise VolumeError("; ".join(errors))
            try:
                await remove_pod_directory(self._host, pod_uid)
            except (SetUpError, MountError, OSError) as error:
                raise VolumeError(str(error)) from error
            self._host.objects.unregister(pod_uid)
            self._tearing_down.pop(pod_uid, None)
            if entry is not None and any(each.kind.is_attachable(each.spec) for each in entry.volumes.values()):
                self._in_use_changed()

    async def remove_orphans(self, known: Collection[str]) -> None:
        """Tear down what is on disk of pods that are not known: those that ended while no kubelet ran. What cannot be removed now is tried next time."""
        for uid in await self._host.blocking(lambda: orphans(self._host.root, known)):
            if uid in self._pods:
                continue
            try:
                await self.unmount(uid)
            except VolumeError as error:
                logger.warning("orphaned pod %s: %s", uid, error)

    async def run(self) -> None:
        """Bring volumes up to date every minute, until cancelled; then stop all work on volumes. What is mounted stays."""
        try:
            while True:
                await self._host.clock.sleep(self._host.randomness.jitter(REFRESH_SECONDS, 0.5) * 0.8)
                for uid in list(self._pods):
                    self._refresh(uid)
                for kind in self.kinds:
                    await kind.clean_up(self._host)
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop all work on volumes. What is mounted stays."""
        for entry in self._pods.values():
            await _stop(entry)
        for kind in self.kinds:
            await kind.close()

    def _refresh(self, pod_uid: str) -> None:
        """Something has changed that a pod's volumes may show. Volumes that are not there yet are tried again at once."""
        entry = self._pods.get(pod_uid)
        for volume in entry.volumes.values() if entry is not None else ():
            if entry is not None and not self._work_on(entry, volume):
                volume.again.set()

    async def _resolve(self, entry: PodVolumes, mounts: set[str], devices: set[str]) -> list[str]:
        """Find out what is to be mounted; why it is not known of some, a text each."""
        pod, errors = entry.pod, []
        for each in pod.spec.volumes:
            if each.name in entry.volumes or not (each.name in mounts or each.name in devices):
                continue
            try:
                spec = await volume_spec(
                    self._host.objects, pod, each, is_mount=each.name in mounts, is_device=each.name in devices
                )
            except SetUpError as error:
                errors.append(str(error))
                continue
            try:
                kind = self.kinds.of(spec)
            except SetUpError as error:
                errors.append(f'failed to get Plugin from volumeSpec for volume "{spec.name}" err={error}')
                continue
            entry.volumes[each.name] = PodVolume(spec, kind, kind.unique_name(spec, pod.metadata.uid))
        return errors

    def _error(self, entry: PodVolumes, names: set[str], reason: str, *, interrupted: bool) -> VolumeError:
        unmounted = entry.unmounted(names)
        unknown = sorted(names - entry.volumes.keys())
        text = (
            f"unmounted volumes={_go_list(unmounted)}, unattached volumes={_go_list(entry.unattached())}, "
            f"failed to process volumes={_go_list(unknown)}: {reason}"
        )
        return VolumeError(text, unmounted=unmounted, interrupted=interrupted)

    async def _has_reached_limit(self, entry: PodVolumes) -> bool:
        """Whether a volume of a pod waits for a place on the node that there is not."""
        for volume in list(entry.volumes.values()):
            if volume.waits_for_attachment and await volume.kind.has_reached_limit(volume.spec):
                return True
        return False

    def _work_on(self, entry: PodVolumes, volume: PodVolume) -> bool:
        """See that a volume gets there, or is brought up to date; False if that is being done."""
        if volume.task is not None and not volume.task.done():
            return False
        if volume.mounted is not None and not volume.kind.needs_remount(volume.spec):
            return True
        name = f"volume {volume.spec.name} of pod {entry.pod.metadata.uid}"
        volume.task = asyncio.create_task(self._set_up_until_done(entry, volume), name=name)
        return True

    async def _set_up_until_done(self, entry: PodVolumes, volume: PodVolume) -> None:
        """Set a volume up; until it is there, again and again with growing pauses."""
        pause = FIRST_RETRY_SECONDS
        while True:
            volume.again.clear()
            try:
                attached = await self._attached(volume)
                self._check(entry, volume)
                volume.mounted = await volume.kind.set_up(set_up_context(self._host, entry.pod, volume, attached))
            except _FAILURES as error:
                self._report(entry.pod, volume.spec, error)
                if volume.mounted is None:
                    await _wait(volume.again, pause)
                    pause = min(pause * 2, LONGEST_RETRY_SECONDS)
                    continue
            entry.changed.set()
            if not volume.again.is_set():
                return

    def _report(self, pod: core_v1.Pod, spec: VolumeSpec, error: Exception) -> None:
        doing, reason = ("MapVolume.SetUpDevice", "FailedMapVolume") if spec.is_block else ("MountVolume.SetUp", FAILED)
        if isinstance(error, SetUpError) and error.doing:
            doing = error.doing
        text = f'{doing} failed for volume "{spec.name}" : {error}'
        self._host.event(pod, "Warning", reason, text)

    async def _attached(self, volume: PodVolume) -> str:
        """Where an attachable volume is attached, as soon as it is, and once the API server knows that it is used here: before that it could be detached."""
        if not volume.kind.is_attachable(volume.spec):
            volume.waits_for_attachment = False
            return ""
        is_announced = False
        while True:
            node = self._node()
            in_use = node is not None and volume.unique_name in node.status.volumes_in_use
            if not in_use and not is_announced:
                self._in_use_changed()
                is_announced = True
            for each in node.status.volumes_attached if node is not None else ():
                if each.name == volume.unique_name and in_use:
                    volume.waits_for_attachment = False
                    return each.device_path
            volume.waits_for_attachment = True
            await self._host.clock.sleep(ATTACHMENT_SECONDS)

    def _check(self, entry: PodVolumes, volume: PodVolume) -> None:
        """Raises SetUpError if the volume may not be mounted here and now."""
        persistent = volume.spec.persistent_volume
        if persistent is None:
            return
        check_node_affinity(persistent, self._node())
        if volume.spec.mount_options and not volume.kind.supports_mount_options:
            raise SetUpError("mount options are not supported for this volume type")
        if tuple(persistent.spec.access_modes) == ("ReadWriteOncePod",) and self._is_used_elsewhere(entry, volume):
            raise SetUpError("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

    def _is_used_elsewhere(self, entry: PodVolumes, volume: PodVolume) -> bool:
        return any(
            each.unique_name == volume.unique_name and each.mounted is not None
            for other in self._pods.values()
            if other is not entry
            for each in other.volumes.values()
        )


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, at the latest after so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _go_list(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


async def _stop(entry: PodVolumes) -> None:
    """End the work on a pod's volumes; blocking calls that were submitted end first."""
    tasks = [each.task for each in entry.volumes.values() if each.task is not None and not each.task.done()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
