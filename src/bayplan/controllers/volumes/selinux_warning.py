"""Warns pods by events of others that want the same volume under another SELinux label, before nodes mount volumes with labels. Off unless it is named.

Of interest are volumes that can be mounted with a label: those of CSI drivers that say so (`seLinuxMount`), iSCSI and Fibre Channel.
Source of the behaviour: Kubernetes' `pkg/controller/volume/selinuxwarning` (KEP-1710).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayplan.api.types import core_v1, storage_v1
from bayplan.controllers.base import Controller
from bayplan.controllers.pods import claims_of, has_ended
from bayplan.controllers.volumes.selinux_conflicts import Conflict, VolumeUses, mount_labels, use_of
from bayplan.informers.cache import SPEC, key_of


class MissingVolumeError(Exception):
    """A claim is not bound yet, or not there."""


class _Volume(NamedTuple):
    """name: what tells it apart, of CSI beginning as `_names_of` says. mounts_with_label: whether it can be mounted with a label."""

    name: str
    mounts_with_label: bool


def _names_of(driver: str) -> str:
    """What the names of the volumes of a CSI driver begin with."""
    return f"csi {driver} "


class SELinuxWarningController(Controller):
    """See the module. Keys are pods."""

    name = "selinux-warning-controller"
    event_source = "selinux_warning"
    workers = 1

    def setup(self) -> None:
        self._uses = VolumeUses()
        self.pods = self.informer(core_v1.Pod)
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.drivers = self.informer(storage_v1.CSIDriver)
        self.pods.add_index("claim", claims_of, SPEC)
        self.pods.on_change(add=self._touch, update=self._pod_changed, delete=self._touch)
        self.claims.on_change(add=self._claim_added, update=self._claim_changed)
        self.volumes.on_change(add=self._volume_added, update=self._volume_changed)
        self.drivers.on_change(add=self._driver_touched, update=self._driver_changed, delete=self._driver_touched)
        if self.context.metrics is not None:
            self._conflicts = self.context.metrics.gauge(
                "selinux_warning_controller_selinux_volume_conflict",
                "Conflict between two Pods using the same volume",
                ("property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value"),
            )
            self.context.metrics.on_render(self._count)

    def _touch(self, pod: core_v1.Pod) -> None:
        self.queue.add(key_of(pod))

    def _pod_changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if has_ended(new) and not has_ended(old):
            self._touch(new)

    def _claim_added(self, claim: core_v1.PersistentVolumeClaim) -> None:
        if claim.spec.volume_name:
            self._touch_users(key_of(claim))

    def _claim_changed(self, old: core_v1.PersistentVolumeClaim, new: core_v1.PersistentVolumeClaim) -> None:
        if old.spec.volume_name != new.spec.volume_name:
            self._touch_users(key_of(new))

    def _volume_added(self, volume: core_v1.PersistentVolume) -> None:
        owner = volume.spec.claim_ref
        if owner is not None and owner.uid:
            self._touch_users(f"{owner.namespace}/{owner.name}")

    def _volume_changed(self, old: core_v1.PersistentVolume, new: core_v1.PersistentVolume) -> None:
        before, after = old.spec.claim_ref, new.spec.claim_ref
        if after is not None and (before is None or before.uid != after.uid):
            self._volume_added(new)

    def _driver_changed(self, old: storage_v1.CSIDriver, new: storage_v1.CSIDriver) -> None:
        if bool(old.spec.se_linux_mount) != bool(new.spec.se_linux_mount):
            self._driver_touched(new)

    def _driver_touched(self, driver: storage_v1.CSIDriver) -> None:
        begin = _names_of(driver.metadata.name)
        for pod in self.pods.cache:
            if any(one.startswith(begin) for one in self._uses.volumes(key_of(pod))):
                self._touch(pod)

    def _touch_users(self, claim: str) -> None:
        for pod in self.pods.cache.by_index("claim", claim):
            self._touch(pod)

    async def reconcile(self, key: str) -> None:
        pod = self.pods.cache.by_key(key)
        if pod is None or has_ended(pod):
            self._uses.remove(key)
            return
        missing = []
        for name, labels in mount_labels(pod).items():
            try:
                volume = self._volume_of(pod, name)
            except MissingVolumeError as error:
                missing.append(error)
                continue
            if volume is None:
                continue
            if len(labels) > 1:
                text = f'Volume "{name}" is mounted twice with different SELinux labels inside this pod'
                self.recorder.event(pod, "Warning", "MultipleSELinuxLabels", text)
                continue
            use = use_of(pod, next(iter(labels), ""), mounts_with_label=volume.mounts_with_label)
            for conflict in self._uses.add(volume.name, key, use):
                self._tell(conflict)
        if missing:
            raise missing[0]

    def _volume_of(self, pod: core_v1.Pod, name: str) -> _Volume | None:
        """A volume of a pod, if it is of a kind that may be mounted with a label. Raises MissingVolumeError."""
        volume = next((one for one in pod.spec.volumes if one.name == name), None)
        if volume is None:
            return None
        claim_name = f"{pod.metadata.name}-{name}" if volume.ephemeral is not None else ""
        if volume.persistent_volume_claim is not None:
            claim_name = volume.persistent_volume_claim.claim_name
        if not claim_name:
            return _shared(volume.iscsi, volume.fc)
        claim = self.claims.cache.get(pod.metadata.namespace, claim_name)
        bound = claim.spec.volume_name if claim is not None else ""
        found = self.volumes.cache.get("", bound) if bound else None
        if found is None:
            raise MissingVolumeError(f"claim {claim_name} has no volume yet")
        source = found.spec.csi
        if source is None:
            return _shared(found.spec.iscsi, found.spec.fc)
        driver = self.drivers.cache.get("", source.driver)
        mounts = driver is not None and bool(driver.spec.se_linux_mount)
        return _Volume(_names_of(source.driver) + source.volume_handle, mounts)

    def _tell(self, conflict: Conflict) -> None:
        pod = self.pods.cache.by_key(conflict.pod)
        if pod is not None:
            self.recorder.event(pod, "Normal", conflict.reason, conflict.message)

    def _count(self) -> None:
        """Show the conflicts that there are now."""
        self._conflicts.children.clear()
        for one in self._uses.conflicts():
            pods = one.pod.split("/"), one.other.split("/")
            self._conflicts.labels(one.subject, *pods[0], one.value, *pods[1], one.other_value).set(1)


def _shared(iscsi: Any, fc: core_v1.FCVolumeSource | None) -> _Volume | None:
    """iscsi: of a volume or a persistent volume."""
    if iscsi is not None:
        return _Volume(f"iscsi {iscsi.target_portal}:{iscsi.iqn}:{iscsi.lun}", mounts_with_label=True)
    if fc is not None:
        return _Volume(f"fc {fc.target_wwns}:{fc.lun}:{fc.wwids}", mounts_with_label=True)
    return None
