"""What claims name as the source of their data: claims and snapshots, as handles of the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.quantity import value
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.csi import messages as csi
from bayplan.csi.client import DriverInfo
from bayplan.csi_controller import provision_rules as rules
from bayplan.csi_controller.errors import CsiControllerError, RequestError
from bayplan.csi_controller.ownership import is_here
from bayplan.csi_controller.settings import CsiControllerSettings
from bayplan.informers import Informer

MANAGED_BY = "snapshot.storage.kubernetes.io/managed-by"
"""Label of contents whose snapshots are on one node."""


class DataSources:
    """Looks sources up: claims and volumes in caches, snapshots at the server."""

    def __init__(
        self,
        client: Client,
        claims: Informer[core_v1.PersistentVolumeClaim],
        volumes: Informer[core_v1.PersistentVolume],
    ) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes

    async def resolve(
        self, source: rules.Source, claim: core_v1.PersistentVolumeClaim, driver: DriverInfo
    ) -> csi.VolumeContentSource:
        """The source as the driver knows it. Raises RequestError if it cannot be used (yet)."""
        if source.kind == "PersistentVolumeClaim":
            volume = self._source_volume(source, claim, driver.name)
            assert volume.spec.csi is not None
            return csi.VolumeContentSource(volume=csi.VolumeSource(volume.spec.csi.volume_handle))
        handle = await self._snapshot_handle(source, claim, driver.name)
        return csi.VolumeContentSource(snapshot=csi.SnapshotSource(handle))

    def _source_volume(
        self, source: rules.Source, claim: core_v1.PersistentVolumeClaim, driver: str
    ) -> core_v1.PersistentVolume:
        found = self._claims.cache.get(source.namespace, source.name)
        if found is None:
            raise RequestError(f"error getting PVC {source.name} (namespace {source.namespace!r}): not found")
        if found.status.phase != "Bound":
            raise RequestError(
                f"the PVC DataSource {source.name} must have a status of Bound. Got {found.status.phase}"
            )
        if found.metadata.deletion_timestamp:
            raise RequestError(f"the PVC DataSource {source.name} is currently being deleted")
        wanted, has = (value(one.spec.resources.requests.get("storage", "0")) for one in (claim, found))
        if wanted < has:
            raise RequestError(
                "error, new PVC request must be greater than or equal in size to the specified PVC data source, "
                f"requested {wanted} but source is {has}"
            )
        volume = self._volumes.cache.get("", found.spec.volume_name)
        reference = volume.spec.claim_ref if volume is not None else None
        if volume is None or volume.spec.csi is None or volume.spec.csi.driver != driver:
            raise RequestError("claim in dataSource not bound or invalid")
        if reference is None or reference.uid != found.metadata.uid or volume.status.phase != "Bound":
            raise RequestError("claim in dataSource not bound or invalid")
        modes = [one or "Filesystem" for one in (volume.spec.volume_mode, claim.spec.volume_mode)]
        if modes[0] != modes[1]:
            raise RequestError(
                "the source PVC and destination PVCs must have the same volume mode for cloning. "
                f"Source is {modes[0]}, but new PVC requested {modes[1]}"
            )
        return volume

    async def _snapshot_handle(self, source: rules.Source, claim: core_v1.PersistentVolumeClaim, driver: str) -> str:
        snapshot, content = await self._snapshot(source)
        status, spec = content.get("status") or {}, content.get("spec") or {}
        reference = spec.get("volumeSnapshotRef") or {}
        if reference.get("uid") != snapshot["metadata"]["uid"]:
            raise RequestError(f"snapshotcontent for snapshot {source.name} is bound to a different snapshot")
        if spec.get("driver") != driver:
            raise RequestError(f"snapshotcontent for snapshot {source.name} is not handled by CSI driver {driver}")
        if not (snapshot.get("status") or {}).get("readyToUse") or not status.get("snapshotHandle"):
            raise RequestError(f"snapshot {source.name} is not Ready")
        size = status.get("restoreSize") or 0
        wanted = value(claim.spec.resources.requests.get("storage", "0"))
        if wanted < size:
            raise RequestError(
                f"requested volume size {wanted} is less than the size {size} for the source snapshot {source.name}"
            )
        handle: str = status["snapshotHandle"]
        return handle

    async def _snapshot(self, source: rules.Source) -> tuple[dict[str, Any], dict[str, Any]]:
        group = f"/apis/{rules.SNAPSHOT_GROUP}/v1"
        snapshot = await self._read(f"{group}/namespaces/{source.namespace}/volumesnapshots/{source.name}")
        if snapshot["metadata"].get("deletionTimestamp"):
            raise RequestError(f"snapshot {source.name} is currently being deleted")
        name = (snapshot.get("status") or {}).get("boundVolumeSnapshotContentName")
        if not name:
            raise RequestError(f"snapshot {source.name} not bound")
        return snapshot, await self._read(f"{group}/volumesnapshotcontents/{name}")

    async def _read(self, path: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(await self._client.raw("GET", path))
            return found
        except ApiError as error:
            if error.code != 404:
                raise
            raise RequestError(f"error getting {path.rpartition('/')[2]}: {error.message}") from error

    async def is_here(
        self, claim: core_v1.PersistentVolumeClaim, settings: CsiControllerSettings, segments: Mapping[str, str]
    ) -> bool:
        """Whether the source of a claim (if there is one) is on the node of this instance."""
        try:
            source = rules.source_of(claim)
            if source is None:
                return True
            if source.kind == "PersistentVolumeClaim":
                found = self._claims.cache.get(source.namespace, source.name)
                volume = self._volumes.cache.get("", found.spec.volume_name) if found is not None else None
                return volume is not None and is_here(volume, settings, segments)
            _, content = await self._snapshot(source)
        except CsiControllerError:
            return True  # whoever takes the claim says what is wrong with it
        labels: dict[str, str] = content["metadata"].get("labels") or {}
        return labels.get(MANAGED_BY, settings.node_name) == settings.node_name
