"""VolumeSnapshotContents: snapshots are taken and deleted in the driver. What to write is decided in `snapshot_rules`."""

from __future__ import annotations

import logging
from typing import Any

from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.types import core_v1
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import snapshot_rules as rules
from bayplan.csi_controller.errors import CsiControllerError, MissingError, RequestError
from bayplan.csi_controller.snapshot_kinds import CLASS, CONTENT
from bayplan.csi_controller.worker import Worker
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

_C = csi.ControllerCapability


class SnapshotContents(Worker):
    """See the module. Keys are names of VolumeSnapshotContents."""

    name = "csi-snapshotter-content"

    def setup(self) -> None:
        kinds = self.context.snapshot_kinds
        self.contents = self.informer(kinds[CONTENT])
        self.classes = self.informer(kinds[CLASS])
        self._content = kinds[CONTENT]
        self._ready: set[str] = set()
        """Uids of contents whose snapshot is known to be ready, whatever the cache still says."""
        self.watch_keys(self.contents, _of_interest)

    async def reconcile(self, key: str) -> None:
        content: CustomObject | None = self.contents.cache.get("", key)
        if content is None or rules.spec_of(content).get("driver") != self.driver.name:
            return
        managed = content.metadata.labels.get(rules.MANAGED_BY, "")
        if self.settings.node_deployment and managed != self.settings.node_name:
            if not managed:
                await self._take_if_here(content)
            return
        if rules.may_go(content):
            await self._delete(content)
        elif not content.metadata.deletion_timestamp or rules.BEING_CREATED in content.metadata.annotations:
            await self._make(content)

    async def _take_if_here(self, content: CustomObject) -> None:
        """Take a content that somebody wrote for a snapshot of this node, without saying which node manages it."""
        handle = rules.source_of(content).get("snapshotHandle")
        can_tell = not self.driver.controller.isdisjoint((_C.GET_SNAPSHOT, _C.LIST_SNAPSHOTS))
        if not handle or not can_tell or content.metadata.deletion_timestamp:
            return
        try:
            await self._known(handle)
        except MissingError:
            return
        except CsiError as error:
            if error.code != "NOT_FOUND":
                raise
            return
        version = content.metadata.resource_version
        await self._metadata(content, resourceVersion=version, labels={rules.MANAGED_BY: self.settings.node_name})

    async def _make(self, content: CustomObject) -> None:
        """Take the snapshot, or find the one that is named, and ask for it until it is ready."""
        if content.metadata.uid in self._ready and not content.metadata.deletion_timestamp:
            return
        if rules.status_of(content).get("readyToUse") and rules.BEING_CREATED not in content.metadata.annotations:
            return
        if not content.metadata.deletion_timestamp and rules.BOUND_CONTENT not in content.metadata.finalizers:
            await self._metadata(content, finalizers=[*content.metadata.finalizers, rules.BOUND_CONTENT])
        try:
            found = await self._found(content)
        except (CsiError, CsiControllerError) as error:
            await self._failed(content, error)
            raise
        await self._status(content, rules.content_status(found, self.clock.now()))
        if not found.ready_to_use:
            raise RequestError(f"snapshot {found.snapshot_id} is not ready yet")
        self._ready.add(content.metadata.uid)
        await self._created(content)

    async def _found(self, content: CustomObject) -> csi.Snapshot:
        """The snapshot in the driver. Raises CsiError, CsiControllerError."""
        handle = rules.source_of(content).get("snapshotHandle")
        if handle:
            return await self._known(handle)
        name = rules.spec_of(content).get("volumeSnapshotClassName") or ""
        chosen: CustomObject | None = self.classes.cache.get("", name)
        if chosen is None:
            raise MissingError(f'volumesnapshotclass.snapshot.storage.k8s.io "{name}" not found')
        reference = rules.spec_of(content)["volumeSnapshotRef"]
        parameters = rules.driver_parameters(chosen.content.get("parameters") or {})
        if self.settings.extra_create_metadata:
            parameters |= {
                "csi.storage.k8s.io/volumesnapshot/name": reference["name"],
                "csi.storage.k8s.io/volumesnapshot/namespace": reference["namespace"],
                "csi.storage.k8s.io/volumesnapshotcontent/name": content.metadata.name,
            }
        secrets = await self.credentials(self._secret(content))
        if rules.BEING_CREATED not in content.metadata.annotations:
            await self._metadata(content, annotations={rules.BEING_CREATED: "yes"})
        name = f"{self.settings.snapshot_name_prefix}-{reference['uid']}"
        volume = rules.source_of(content)["volumeHandle"]
        return await self.csi.create_snapshot(csi.CreateSnapshotRequest(volume, name, secrets, parameters))

    async def _known(self, handle: str) -> csi.Snapshot:
        """A snapshot that was taken before; drivers that cannot say anything of it are believed to have it."""
        if _C.GET_SNAPSHOT in self.driver.controller:
            return await self.csi.get_snapshot(csi.SnapshotRequest(handle))
        if _C.LIST_SNAPSHOTS not in self.driver.controller:
            return csi.Snapshot(0, handle, ready_to_use=True)
        listed = await self.csi.list_snapshots(csi.ListSnapshotsRequest(snapshot_id=handle))
        found = [one.snapshot for one in listed.entries if one.snapshot is not None]
        if not found:
            raise MissingError(f"can not find snapshot for snapshotID {handle}")
        return found[0]

    def _secret(self, content: CustomObject) -> core_v1.SecretReference | None:
        name, namespace = (
            content.metadata.annotations.get(rules.DELETION_SECRET.format(one), "") for one in ("name", "namespace")
        )
        return core_v1.SecretReference(name=name, namespace=namespace) if name and namespace else None

    async def _failed(self, content: CustomObject, error: Exception) -> None:
        text = f"Failed to create snapshot: {error}"
        if not isinstance(error, CsiError) or error.is_final:
            await self._created(content)
        self.recorder.event(content, "Warning", "SnapshotCreationFailed", text)
        if (rules.status_of(content).get("error") or {}).get("message") != text:
            told = {"message": text, "time": rfc3339(self.clock.now())}
            await self._status(content, {"readyToUse": False, "error": told})

    async def _delete(self, content: CustomObject) -> None:
        handle = rules.status_of(content).get("snapshotHandle") or rules.source_of(content).get("snapshotHandle")
        if rules.spec_of(content)["deletionPolicy"] == "Delete" and handle:
            try:
                secrets = await self.credentials(self._secret(content))
                await self.csi.delete_snapshot(csi.SnapshotRequest(handle, secrets))
            except (CsiError, CsiControllerError) as error:
                self.recorder.event(content, "Warning", "SnapshotDeleteError", f"Failed to delete snapshot: {error}")
                raise
            logger.info("deleted snapshot %s", handle)
        self._ready.discard(content.metadata.uid)
        left = [one for one in content.metadata.finalizers if one != rules.BOUND_CONTENT]
        await self._metadata(content, finalizers=left)

    async def _created(self, content: CustomObject) -> None:
        """Nothing goes on in the driver any more."""
        if rules.source_of(content).get("volumeHandle"):
            await self._metadata(content, annotations={rules.BEING_CREATED: None})

    async def _metadata(self, content: CustomObject, **changes: Any) -> None:
        patch = {"metadata": {"uid": content.metadata.uid, **changes}}
        await self.client.patch(self._content, content.metadata.name, "", patch)

    async def _status(self, content: CustomObject, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": content.metadata.uid}, "status": status}
        await self.client.patch(self._content, content.metadata.name, "", patch, subresource="status")


def _of_interest(content: CustomObject) -> object:
    metadata, annotations = content.metadata, content.metadata.annotations
    waits = bool(metadata.deletion_timestamp) and rules.BEING_CREATED in annotations
    managed = metadata.labels.get(rules.MANAGED_BY)
    return rules.spec_of(content), metadata.deletion_timestamp, waits, rules.BEING_DELETED in annotations, managed
