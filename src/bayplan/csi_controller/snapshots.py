"""VolumeSnapshots: each gets a content, says what that says, and goes when it has gone. What to write is decided in `snapshot_rules`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.csi_controller import snapshot_rules as rules
from bayplan.csi_controller.errors import CsiControllerError, MissingError, RequestError
from bayplan.csi_controller.ownership import is_here
from bayplan.csi_controller.snapshot_kinds import CLASS, CONTENT, SNAPSHOT
from bayplan.csi_controller.worker import Worker
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import rfc3339


class Snapshots(Worker):
    """See the module. Keys are `namespace/name` of VolumeSnapshots. The kinds must be served before its informers start."""

    name = "snapshot-controller-snapshot"

    def setup(self) -> None:
        kinds = self.context.snapshot_kinds
        self.snapshots = self.informer(kinds[SNAPSHOT])
        self.contents = self.informer(kinds[CONTENT])
        self.classes = self.informer(kinds[CLASS])
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self._snapshot, self._content = kinds[SNAPSHOT], kinds[CONTENT]
        self.snapshots.add_index("claim", _claim_keys)
        self.watch_keys(self.snapshots, _of_interest)
        self.contents.on_change(
            add=self._content_seen, update=lambda old, new: self._content_seen(new), delete=self._content_seen
        )
        self.classes.on_change(add=lambda one: self._retry_all())
        self.claims.on_change(update=self._claim_changed)

    def _content_seen(self, content: CustomObject) -> None:
        reference = rules.spec_of(content).get("volumeSnapshotRef") or {}
        self.queue.add(f"{reference.get('namespace')}/{reference.get('name')}")

    def _retry_all(self) -> None:
        for snapshot in self.snapshots.cache:
            self.queue.add(key_of(snapshot))

    def _claim_changed(self, old: core_v1.PersistentVolumeClaim, new: core_v1.PersistentVolumeClaim) -> None:
        if old.status.phase != new.status.phase:
            for snapshot in self.snapshots.cache.by_index("claim", key_of(new)):
                self.queue.add(key_of(snapshot))

    async def reconcile(self, key: str) -> None:
        snapshot: CustomObject | None = self.snapshots.cache.by_key(key)
        if snapshot is None:
            return
        content: CustomObject | None = self.contents.cache.get("", rules.content_name(snapshot))
        if not self._is_ours(snapshot, content):
            if content is None and snapshot.metadata.deletion_timestamp:
                await self._end_without_content(snapshot)
            return
        if snapshot.metadata.deletion_timestamp:
            await self._end(snapshot, content)
            return
        try:
            if content is None:
                content = await self._begin(snapshot)
            elif not rules.refers_to(content, snapshot):
                raise RequestError(f"VolumeSnapshotContent {content.metadata.name} is bound to a different snapshot")
        except CsiControllerError as error:
            await self._tell(snapshot, str(error))
            raise
        await self._follow(snapshot, content)

    def _is_ours(self, snapshot: CustomObject, content: CustomObject | None) -> bool:
        """Whether this driver, and the instance on this node, takes a snapshot."""
        if content is not None:
            labels = content.metadata.labels
            here = not self.settings.node_deployment or labels.get(rules.MANAGED_BY) == self.settings.node_name
            return here and rules.spec_of(content).get("driver") == self.driver.name
        volume = self._source_volume(snapshot)
        if volume is not None and volume.spec.csi is not None:
            here = is_here(volume, self.settings, self.context.segments)
            return here and volume.spec.csi.driver == self.driver.name
        return self._names_our_class(snapshot)

    def _names_our_class(self, snapshot: CustomObject) -> bool:
        """Whether a snapshot without a source is this driver's by its class, in which case it has to hear what is missing."""
        found = self.classes.cache.get("", rules.spec_of(snapshot).get("volumeSnapshotClassName") or "")
        return (
            found is not None and found.content.get("driver") == self.driver.name and not self.settings.node_deployment
        )

    def _source_volume(self, snapshot: CustomObject) -> core_v1.PersistentVolume | None:
        name = rules.source_of(snapshot).get("persistentVolumeClaimName", "")
        claim = self.claims.cache.get(snapshot.metadata.namespace, name)
        if claim is None or claim.status.phase != "Bound":
            return None
        found: core_v1.PersistentVolume | None = self.volumes.cache.get("", claim.spec.volume_name)
        return found

    async def _begin(self, snapshot: CustomObject) -> CustomObject:
        """Make the content of a snapshot that is to be taken. Raises CsiControllerError."""
        source = rules.source_of(snapshot)
        if source.get("volumeSnapshotContentName"):
            raise MissingError("VolumeSnapshotContent is missing")
        volume = self._source_volume(snapshot)
        if volume is None or volume.spec.csi is None:
            claim = source.get("persistentVolumeClaimName")
            raise MissingError(f"the PVC {claim} is not yet bound to a PV, will not attempt to take a snapshot")
        named = rules.spec_of(snapshot).get("volumeSnapshotClassName")
        found: CustomObject | None = self.classes.cache.get("", named) if named else None
        if named and found is None:
            raise MissingError(f'volumesnapshotclass.snapshot.storage.k8s.io "{named}" not found')
        chosen = found or rules.default_class(self.classes.cache, self.driver.name)
        if chosen.content.get("driver") != self.driver.name:
            raise RequestError(f"snapshot class {named} is for driver {chosen.content.get('driver')}")
        claim_ref = volume.spec.claim_ref
        assert claim_ref is not None
        await self._protect(self.claims.cache.get(claim_ref.namespace, claim_ref.name))
        node = self.settings.node_name if self.settings.node_deployment else ""
        tree = rules.new_content(snapshot, chosen, volume, node)
        await self._finalizers(snapshot, add=(rules.AS_SOURCE, rules.BOUND_SNAPSHOT))
        try:
            created: CustomObject = await self.client.create(from_tree(self._content, tree))
        except ApiError as error:
            if error.status.reason != "AlreadyExists":
                raise
            return await self.client.get(self._content, tree["metadata"]["name"])
        text = f"Waiting for a snapshot {key_of(snapshot)} to be created by the CSI driver."
        self.recorder.event(snapshot, "Normal", "CreatingSnapshot", text)
        return created

    async def _follow(self, snapshot: CustomObject, content: CustomObject) -> None:
        """Bind the two, and let the snapshot say what the content says."""
        reference = rules.spec_of(content)["volumeSnapshotRef"]
        if not reference.get("uid"):
            patch = {"spec": {"volumeSnapshotRef": {"uid": snapshot.metadata.uid}}}
            content = await self.client.patch(self._content, content.metadata.name, "", patch)
        await self._finalizers(snapshot, add=(rules.AS_SOURCE, rules.BOUND_SNAPSHOT))
        wanted, known = rules.snapshot_status(content), rules.status_of(snapshot)
        if rules.differs(known, wanted):
            await self._status(snapshot, wanted)
            if wanted["readyToUse"] and not known.get("readyToUse"):
                text = f"Snapshot {key_of(snapshot)} is ready to use."
                self.recorder.event(snapshot, "Normal", "SnapshotReady", text)
        elif "creationTime" in known:
            await self._release_claim(snapshot)

    async def _end(self, snapshot: CustomObject, content: CustomObject | None) -> None:
        """Let content and snapshot go, once nobody makes a volume from it."""
        if content is not None and rules.refers_to(content, snapshot):
            if any(rules.is_source_of(snapshot, claim) for claim in self.claims.cache):
                text = "Snapshot is being used to restore a PVC"
                self.recorder.event(snapshot, "Warning", "SnapshotDeletePending", text)
                raise RequestError(f"{key_of(snapshot)}: {text}")
            name = content.metadata.name
            if rules.BEING_DELETED not in content.metadata.annotations:
                patch = {"metadata": {"annotations": {rules.BEING_DELETED: "yes"}}}
                await self.client.patch(self._content, name, "", patch)
            if rules.spec_of(content)["deletionPolicy"] == "Delete":
                if not content.metadata.deletion_timestamp:
                    await self.client.delete(self._content, name, uid=content.metadata.uid)
                await self._finalizers(snapshot, remove=(rules.AS_SOURCE,))
                return
        await self._release_claim(snapshot)
        await self._finalizers(snapshot, remove=(rules.AS_SOURCE, rules.BOUND_SNAPSHOT))

    async def _end_without_content(self, snapshot: CustomObject) -> None:
        """Let a snapshot go whose content was named and has gone, so that nothing says any more whose it was. Whoever sees it first does that."""
        name = rules.source_of(snapshot).get("volumeSnapshotContentName")
        if not name or rules.BOUND_SNAPSHOT not in snapshot.metadata.finalizers:
            return
        try:
            await self.client.get(self._content, name)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._finalizers(snapshot, remove=(rules.AS_SOURCE, rules.BOUND_SNAPSHOT))

    async def _finalizers(
        self, snapshot: CustomObject, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
    ) -> None:
        known = snapshot.metadata.finalizers
        wanted = [*(one for one in known if one not in remove), *(one for one in add if one not in known)]
        if tuple(wanted) != tuple(known):
            metadata = {"uid": snapshot.metadata.uid, "finalizers": wanted}
            name, namespace = snapshot.metadata.name, snapshot.metadata.namespace
            await self.client.patch(self._snapshot, name, namespace, {"metadata": metadata})

    async def _protect(self, claim: core_v1.PersistentVolumeClaim | None) -> None:
        """Keep a claim until its snapshot is taken."""
        if claim is not None and rules.CLAIM_AS_SOURCE not in claim.metadata.finalizers:
            await self._claim_finalizers(claim, (*claim.metadata.finalizers, rules.CLAIM_AS_SOURCE))

    async def _release_claim(self, snapshot: CustomObject) -> None:
        """Let a claim go as soon as no snapshot of it is still to be taken."""
        name = rules.source_of(snapshot).get("persistentVolumeClaimName", "")
        claim = self.claims.cache.get(snapshot.metadata.namespace, name)
        if claim is None or rules.CLAIM_AS_SOURCE not in claim.metadata.finalizers:
            return
        others = self.snapshots.cache.by_index("claim", key_of(claim))
        if not any(rules.still_needs(one, name) for one in others):
            left = tuple(one for one in claim.metadata.finalizers if one != rules.CLAIM_AS_SOURCE)
            await self._claim_finalizers(claim, left)

    async def _claim_finalizers(self, claim: core_v1.PersistentVolumeClaim, finalizers: tuple[str, ...]) -> None:
        metadata = {"resourceVersion": claim.metadata.resource_version, "finalizers": list(finalizers)}
        name, namespace = claim.metadata.name, claim.metadata.namespace
        await self.client.patch(core_v1.PersistentVolumeClaim, name, namespace, {"metadata": metadata})

    async def _tell(self, snapshot: CustomObject, text: str) -> None:
        """Say in the status what stands in the way."""
        self.recorder.event(snapshot, "Warning", "SnapshotContentCreationFailed", text)
        message = f"Failed to create snapshot content with error {text}"
        if (rules.status_of(snapshot).get("error") or {}).get("message") != message:
            error = {"message": message, "time": rfc3339(self.clock.now())}
            await self._status(snapshot, {"readyToUse": False, "error": error})

    async def _status(self, snapshot: CustomObject, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": snapshot.metadata.uid}, "status": status}
        name, namespace = snapshot.metadata.name, snapshot.metadata.namespace
        await self.client.patch(self._snapshot, name, namespace, patch, subresource="status")


def _of_interest(snapshot: CustomObject) -> object:
    status = rules.status_of(snapshot)
    return rules.spec_of(snapshot), snapshot.metadata.deletion_timestamp, "creationTime" in status


def _claim_keys(snapshot: CustomObject) -> Iterable[str]:
    name = rules.source_of(snapshot).get("persistentVolumeClaimName")
    return (f"{snapshot.metadata.namespace}/{name}",) if name else ()
