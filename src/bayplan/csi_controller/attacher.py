"""VolumeAttachments are carried out: the driver attaches and detaches, finalizers keep attachment and volume until it has detached. See `attach_rules`.

With a driver that has nothing to attach, attachments are marked as attached at once.
"""

from __future__ import annotations

import logging
from typing import Any

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import attach_rules as rules
from bayplan.csi_controller.errors import CsiControllerError, RequestError
from bayplan.csi_controller.worker import Worker
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
    "UNAUTHENTICATED",
)  # fmt: skip
"""gRPC's codes by their numbers."""


class Attacher(Worker):
    """See the module. Keys are names of VolumeAttachments."""

    name = "csi-attacher-va"

    def setup(self) -> None:
        self.attachments = self.informer(storage_v1.VolumeAttachment)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.csi_nodes = self.informer(storage_v1.CSINode)
        self.attachments.add_index("volume", lambda one: (one.spec.source.persistent_volume_name or "",))
        self._finalizer = rules.finalizer_of(self.driver.name)
        self._done: dict[str, str] = {}
        """Name -> uid of attachments that were just marked as attached, until the cache shows it."""
        self.watch_keys(self.attachments, lambda one: (one.spec, one.metadata.deletion_timestamp, one.status.attached))

    async def reconcile(self, key: str) -> None:
        attachment: storage_v1.VolumeAttachment | None = self.attachments.cache.get("", key)
        if attachment is None or attachment.status.attached:
            self._done.pop(key, None)
        if attachment is None or attachment.spec.attacher != self.driver.name:
            return
        if csi.ControllerCapability.PUBLISH_UNPUBLISH_VOLUME not in self.driver.controller:
            if not attachment.metadata.deletion_timestamp and not attachment.status.attached:
                await self._status(attachment, {"attached": True})
        elif not attachment.metadata.deletion_timestamp:
            await self._attach(attachment)
        elif self._finalizer in attachment.metadata.finalizers:
            await self._detach(attachment)

    def _volume(self, attachment: storage_v1.VolumeAttachment) -> core_v1.PersistentVolume | None:
        found: core_v1.PersistentVolume | None
        found = self.volumes.cache.get("", attachment.spec.source.persistent_volume_name or "")
        return found

    async def _attach(self, attachment: storage_v1.VolumeAttachment) -> None:
        name, uid = attachment.metadata.name, attachment.metadata.uid
        if attachment.status.attached or self._done.get(name) == uid:
            return
        try:
            context = await self._publish(attachment)
        except (CsiError, CsiControllerError) as error:
            await self._status(attachment, {"attachError": self._error(error)})
            raise
        status = {"attached": True, "attachmentMetadata": dict(context), "attachError": None}
        await self._status(attachment, status)
        self._done[name] = uid
        logger.info("%s is attached", name)

    async def _publish(self, attachment: storage_v1.VolumeAttachment) -> csi.Texts:
        """Check all that can be checked before a finalizer stands in the way of a deletion, then call the driver."""
        volume = self._volume(attachment)
        if volume is not None and volume.metadata.deletion_timestamp:
            raise RequestError(f'PersistentVolume "{volume.metadata.name}" is marked for deletion')
        spec = rules.volume_spec(attachment, volume)
        assert spec.csi is not None
        if volume is not None and self._finalizer not in volume.metadata.finalizers:
            await self._add_finalizer(volume)
        secrets = await self.credentials(spec.csi.controller_publish_secret_ref)
        node_name = attachment.spec.node_name
        node = rules.node_id(self.driver.name, node_name, self.csi_nodes.cache.get("", node_name))
        request = rules.publish_request(spec, node, self.driver, self.settings.default_fstype, secrets)
        known = attachment.metadata
        if self._finalizer not in known.finalizers or known.annotations.get(rules.NODE_ID) != node:
            await self._add_finalizer(attachment, {rules.NODE_ID: node})
        return await self.csi.controller_publish_volume(request)

    async def _add_finalizer(self, obj: Any, annotations: dict[str, str] | None = None) -> None:
        finalizers = dict.fromkeys((*obj.metadata.finalizers, self._finalizer))
        metadata = {
            "resourceVersion": obj.metadata.resource_version,
            "finalizers": list(finalizers),
            **({"annotations": annotations} if annotations else {}),
        }
        await self.client.patch(type(obj), obj.metadata.name, "", {"metadata": metadata})

    async def _detach(self, attachment: storage_v1.VolumeAttachment) -> None:
        try:
            spec = rules.volume_spec(attachment, self._volume(attachment))
            assert spec.csi is not None
            secrets = await self.credentials(spec.csi.controller_publish_secret_ref)
            name = attachment.spec.node_name
            node = rules.node_id(self.driver.name, name, self.csi_nodes.cache.get("", name), attachment)
            request = csi.ControllerUnpublishVolumeRequest(spec.csi.volume_handle, node, secrets)
            await self.csi.controller_unpublish_volume(request)
        except (CsiError, CsiControllerError) as error:
            await self._status(attachment, {"detachError": self._error(error)})
            raise
        left = [one for one in attachment.metadata.finalizers if one != self._finalizer]
        metadata = {"uid": attachment.metadata.uid, "finalizers": left}
        status = {"attached": False, "attachmentMetadata": None, "detachError": None}
        if attachment.status.attached:
            await self._status(attachment, status)
        await self.client.patch(storage_v1.VolumeAttachment, attachment.metadata.name, "", {"metadata": metadata})
        logger.info("%s is detached", attachment.metadata.name)

    def _error(self, error: Exception) -> dict[str, Any]:
        found: dict[str, Any] = {"message": str(error), "time": rfc3339(self.clock.now())}
        if isinstance(error, CsiError) and error.code in _CODES:
            found["errorCode"] = _CODES.index(error.code)
        return found

    async def _status(self, attachment: storage_v1.VolumeAttachment, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": attachment.metadata.uid}, "status": status}
        await self.client.patch(storage_v1.VolumeAttachment, attachment.metadata.name, "", patch, subresource="status")


class AttachedVolumes(Worker):
    """Takes the attacher's finalizer from volumes that are to go, once they are attached nowhere. Keys are names of PersistentVolumes."""

    name = "csi-attacher-pv"

    def setup(self) -> None:
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.attachments = self.informer(storage_v1.VolumeAttachment)
        self.attachments.add_index("volume", lambda one: (one.spec.source.persistent_volume_name or "",))
        self._finalizer = rules.finalizer_of(self.driver.name)
        self.watch_keys(self.volumes, lambda one: one.metadata.deletion_timestamp)
        self.attachments.on_change(delete=lambda one: self.queue.add(one.spec.source.persistent_volume_name or ""))

    async def reconcile(self, key: str) -> None:
        volume: core_v1.PersistentVolume | None = self.volumes.cache.get("", key)
        if volume is None or not volume.metadata.deletion_timestamp:
            return
        finalizers = volume.metadata.finalizers
        if self._finalizer not in finalizers or self.attachments.cache.by_index("volume", key):
            return
        left = [one for one in finalizers if one != self._finalizer]
        metadata = {"resourceVersion": volume.metadata.resource_version, "finalizers": left}
        await self.client.patch(core_v1.PersistentVolume, key, "", {"metadata": metadata})
