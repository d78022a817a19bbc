"""Volumes of claims that have gone are deleted in the driver, and then their PersistentVolumes; a finalizer keeps these until then."""

from __future__ import annotations

import logging

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import provision_rules as rules
from bayplan.csi_controller.errors import CsiControllerError, RequestError
from bayplan.csi_controller.ownership import is_here
from bayplan.csi_controller.worker import Worker

logger = logging.getLogger(__name__)


class VolumeDeletion(Worker):
    """See the module. Keys are names of PersistentVolumes."""

    name = "csi-provisioner-volumes"

    def setup(self) -> None:
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.attachments = self.informer(storage_v1.VolumeAttachment)
        self.attachments.add_index("volume", lambda one: (one.spec.source.persistent_volume_name or "",))
        self.watch_keys(self.volumes, lambda one: (one.spec, one.status.phase, one.metadata.deletion_timestamp))
        metrics, label = self.context.metrics, ("class",)
        self._total = {
            True: metrics.counter("persistentvolume_delete_total", "Total number of persistent volumes deleted succesfully.", label),
            False: metrics.counter("persistentvolume_delete_failed_total", "Total number of persistent volume delete failed attempts.", label),
        }  # fmt: skip

    async def reconcile(self, key: str) -> None:
        volume: core_v1.PersistentVolume | None = self.volumes.cache.get("", key)
        if volume is None or not is_here(volume, self.settings, self.context.segments):
            return
        finalizers = rules.wanted_finalizers(volume, self.driver.name)
        if finalizers != volume.metadata.finalizers:
            await self._set_finalizers(volume, finalizers)
        elif rules.is_to_be_deleted(volume, self.driver.name):
            await self._delete(volume)

    async def _set_finalizers(self, volume: core_v1.PersistentVolume, finalizers: tuple[str, ...]) -> None:
        metadata = {"resourceVersion": volume.metadata.resource_version, "finalizers": list(finalizers)}
        await self.client.patch(core_v1.PersistentVolume, volume.metadata.name, "", {"metadata": metadata})

    async def _delete(self, volume: core_v1.PersistentVolume) -> None:
        labels = (volume.spec.storage_class_name,)
        try:
            await self._delete_in_driver(volume)
        except (CsiError, CsiControllerError) as error:
            self._total[False].labels(*labels).inc()
            self.recorder.event(volume, "Warning", "VolumeFailedDelete", str(error))
            raise
        self._total[True].labels(*labels).inc()
        logger.info("deleted the volume of %s", volume.metadata.name)
        name, uid = volume.metadata.name, volume.metadata.uid
        if not volume.metadata.deletion_timestamp:
            await self.client.delete(core_v1.PersistentVolume, name, uid=uid)
        latest = await self.client.get(core_v1.PersistentVolume, name)
        if latest.metadata.uid == uid and rules.FINALIZER in latest.metadata.finalizers:
            left = tuple(one for one in latest.metadata.finalizers if one != rules.FINALIZER)
            await self._set_finalizers(latest, left)

    async def _delete_in_driver(self, volume: core_v1.PersistentVolume) -> None:
        assert volume.spec.csi is not None
        if csi.ControllerCapability.CREATE_DELETE_VOLUME not in self.driver.controller:
            raise RequestError("CSI driver does not support dynamic provisioning")
        for one in self.attachments.cache.by_index("volume", volume.metadata.name):
            node = one.spec.node_name
            raise RequestError(f"persistentvolume {volume.metadata.name} is still attached to node {node}")
        secrets = await self.credentials(rules.deletion_secret(volume))
        await self.csi.delete_volume(csi.DeleteVolumeRequest(volume.spec.csi.volume_handle, secrets))
