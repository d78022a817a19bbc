"""What the volumes of drivers need of the API besides pods: CSIDriver objects, attachments, secrets that persistent volumes name, claims that grow."""

from __future__ import annotations

import logging
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.secret_data import secret_texts
from bayplan.api.types import core_v1, storage_v1
from bayplan.api.volume_attachments import attachment_name
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.informers import Informer
from bayplan.kubelet.volumes.errors import SetUpError

logger = logging.getLogger(__name__)


class CsiObjects:
    """Reads and writes as the node. drivers: has to be started by others."""

    def __init__(self, client: Client, node_name: str, drivers: Informer[storage_v1.CSIDriver]) -> None:
        self._client = client
        self._node_name = node_name
        self._drivers = drivers

    def driver(self, name: str) -> storage_v1.CSIDriver | None:
        """The CSIDriver object of a driver; None if it has none, or before the first list."""
        return self._drivers.cache.get("", name)

    async def synced_driver(self, name: str) -> storage_v1.CSIDriver | None:
        """The same, once the first list is there."""
        await self._drivers.wait_for_sync()
        return self.driver(name)

    async def publish_context(self, driver: str, handle: str) -> dict[str, str]:
        """What the driver's controller said when the volume was attached to this node. Raises SetUpError."""
        name = attachment_name(driver, handle, self._node_name)
        try:
            found = await self._client.get(storage_v1.VolumeAttachment, name)
        except (ApiError, TransportError) as error:
            raise SetUpError(str(error)) from error
        return dict(found.status.attachment_metadata)

    async def attach_error(self, driver: str, handle: str) -> storage_v1.VolumeError | None:
        """Why a volume could not be attached to this node; None if that is not known."""
        try:
            found = await self._client.get(
                storage_v1.VolumeAttachment, attachment_name(driver, handle, self._node_name)
            )
        except (ApiError, TransportError) as error:
            logger.warning("attachment of volume %s: %s", handle, error)
            return None
        return found.status.attach_error

    async def credentials(self, reference: core_v1.SecretReference | None, what: str) -> dict[str, str]:
        """What a secret says, which must not be logged. what: the name of the field that names it, for errors. Raises SetUpError."""
        if reference is None:
            return {}
        namespace, name = reference.namespace, reference.name
        try:
            secret = await self._client.get(core_v1.Secret, name, namespace)
        except (ApiError, TransportError) as error:
            text = (
                f"kubernetes.io/csi: failed to find the secret {name} in the namespace {namespace} with error: {error}"
            )
            raise SetUpError(f"fetching {what} {namespace}/{name} failed: {text}") from error
        return secret_texts(secret)

    async def persistent_volume(self, name: str) -> core_v1.PersistentVolume:
        """A volume as it is now. Raises SetUpError."""
        try:
            return await self._client.get(core_v1.PersistentVolume, name)
        except (ApiError, TransportError) as error:
            raise SetUpError(str(error)) from error

    async def claim_of(self, volume: core_v1.PersistentVolume) -> core_v1.PersistentVolumeClaim | None:
        """The claim of a volume as it is now; None if it has none. Raises SetUpError."""
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        try:
            return await self._client.get(core_v1.PersistentVolumeClaim, reference.name, reference.namespace)
        except (ApiError, TransportError) as error:
            raise SetUpError(f"mountVolume.NodeExpandVolume get PVC failed : {error}") from error

    async def patch_claim_status(
        self, claim: core_v1.PersistentVolumeClaim, status: dict[str, Any]
    ) -> core_v1.PersistentVolumeClaim:
        """Change the status of a claim that nobody else has changed meanwhile. Raises SetUpError."""
        metadata = claim.metadata
        patch = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": status,
        }
        try:
            return await self._client.patch(
                core_v1.PersistentVolumeClaim, metadata.name, metadata.namespace, patch, subresource="status"
            )
        except (ApiError, TransportError) as error:
            raise SetUpError(f"mountVolume.NodeExpandVolume update pvc status failed: {error}") from error
