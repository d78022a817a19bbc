"""Volumes are made larger for claims that ask for more. What is asked for and told is decided in `resize_rules`."""

from __future__ import annotations

import logging

from bayplan.api.quantity import Quantity, binary, parse
from bayplan.api.types import core_v1
from bayplan.api.volume_attachments import NODE_EXPANSION_NOT_REQUIRED
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import resize_rules as rules
from bayplan.csi_controller.capabilities import capability_of_volume
from bayplan.csi_controller.errors import CsiControllerError, RequestError
from bayplan.csi_controller.ownership import is_here
from bayplan.csi_controller.worker import Worker
from bayplan.informers.cache import SPEC, key_of
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)


class Resizer(Worker):
    """See the module. Keys are `namespace/name` of claims."""

    name = "csi-resizer"

    def setup(self) -> None:
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.claims.add_index("volume", lambda claim: (claim.spec.volume_name,), SPEC)
        self.watch_keys(self.claims, _of_interest)
        self.volumes.on_change(add=self._volume_seen)
        self._failed_finally: set[str] = set()
        """Uids of claims whose last size is known to have failed."""
        self._in_use: set[str] = set()
        """Uids of claims whose volume the driver refused to make larger while it is used."""
        self._infeasible: dict[str, float] = {}
        """Uid -> monotonic time until which a size that cannot be is not tried again."""

    def _volume_seen(self, volume: core_v1.PersistentVolume) -> None:
        for claim in self.claims.cache.by_index("volume", volume.metadata.name):
            self.queue.add(key_of(claim))

    async def reconcile(self, key: str) -> None:
        claim: core_v1.PersistentVolumeClaim | None = self.claims.cache.by_key(key)
        if claim is None or not rules.needs_resize(claim):
            return
        volume: core_v1.PersistentVolume | None = self.volumes.cache.get("", claim.spec.volume_name)
        if volume is None or volume.spec.csi is None or volume.spec.csi.driver != self.driver.name:
            return
        if not rules.is_bound_to(volume, claim) or not is_here(volume, self.settings, self.context.segments):
            return
        uid = claim.metadata.uid
        size = rules.next_size(claim, volume, failed_finally=uid in self._failed_finally)
        if size is None:
            return
        rest = self._infeasible.get(uid, 0.0) - self.clock.monotonic()
        if rest > 0 and rules.is_same(claim, size):
            self.queue.add_after(key, rest)
            return
        claim = await self.client.update_status(rules.in_progress(claim, size, self._now()))
        if NODE_EXPANSION_NOT_REQUIRED in claim.metadata.annotations:
            claim = await self._annotate(claim, None)
        await self._expand(claim, volume, size)

    def _now(self) -> str:
        return rfc3339(self.clock.now())

    async def _annotate(self, claim: core_v1.PersistentVolumeClaim, value: str | None) -> core_v1.PersistentVolumeClaim:
        patch = {"metadata": {"uid": claim.metadata.uid, "annotations": {NODE_EXPANSION_NOT_REQUIRED: value}}}
        name, namespace = claim.metadata.name, claim.metadata.namespace
        return await self.client.patch(core_v1.PersistentVolumeClaim, name, namespace, patch)

    async def _expand(
        self, claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume, size: Quantity
    ) -> None:
        uid = claim.metadata.uid
        try:
            if uid in self._in_use and await self._is_used(claim):
                raise RequestError(
                    f"Unable to expand {key_of(claim)} because CSI driver {self.driver.name} only supports offline expansion "
                    "and volume is currently in-use"
                )
            text = f"External resizer is resizing volume {volume.metadata.name}"
            self.recorder.event(claim, "Normal", "Resizing", text)
            self._in_use.discard(uid)
            made, node_has_to = await self._call(volume, size)
        except (CsiError, CsiControllerError) as error:
            self.recorder.event(claim, "Warning", "VolumeResizeFailed", self._text(volume, error))
            await self._failed(claim, error)
            raise
        self._failed_finally.discard(uid)
        self._infeasible.pop(uid, None)
        if parse(volume.spec.capacity.get(rules.STORAGE, "0")) < made:
            metadata = {"resourceVersion": volume.metadata.resource_version}
            patch = {"metadata": metadata, "spec": {"capacity": {rules.STORAGE: str(made)}}}
            await self.client.patch(core_v1.PersistentVolume, volume.metadata.name, "", patch)
        if node_has_to:
            await self.client.update_status(rules.waits_for_node(claim, self._now()))
            text = "Require file system resize of volume on node"
            self.recorder.event(claim, "Normal", "FileSystemResizeRequired", text)
        else:
            claim = await self._annotate(claim, "true")
            await self.client.update_status(rules.finished(claim, made))
            self.recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")

    def _text(self, volume: core_v1.PersistentVolume, error: Exception) -> str:
        if not isinstance(error, CsiError):
            return str(error)
        return f'resize volume "{volume.metadata.name}" by resizer "{self.driver.name}" failed: {error}'

    async def _call(self, volume: core_v1.PersistentVolume, size: Quantity) -> tuple[Quantity, bool]:
        """The new size and whether the node has to do the rest. Drivers that grow volumes on nodes only are not called."""
        source = volume.spec.csi
        assert source is not None
        if csi.ControllerCapability.EXPAND_VOLUME not in self.driver.controller:
            return size, True
        several = csi.ControllerCapability.SINGLE_NODE_MULTI_WRITER in self.driver.controller
        request = csi.ControllerExpandVolumeRequest(
            source.volume_handle,
            csi.CapacityRange(size.value()),
            await self.credentials(source.controller_expand_secret_ref),
            capability_of_volume(volume.spec, single_node_multi_writer=several),
        )
        response = await self.csi.controller_expand_volume(request)
        return parse(binary(response.capacity_bytes)), response.node_expansion_required

    async def _failed(self, claim: core_v1.PersistentVolumeClaim, error: Exception) -> None:
        """Remember and tell what is known of the size that was tried."""
        uid = claim.metadata.uid
        self._infeasible.pop(uid, None)
        if not isinstance(error, CsiError):
            return
        if error.code == "FAILED_PRECONDITION" and self.settings.handle_volume_inuse_error:
            self._in_use.add(uid)
        if not error.is_final:
            self._failed_finally.discard(uid)
            return
        self._failed_finally.add(uid)
        if error.is_infeasible:
            self._infeasible[uid] = self.clock.monotonic() + self.settings.retry_infeasible
        await self.tell_failure(rules.failed(claim, error, self._now(), infeasible=error.is_infeasible))

    async def _is_used(self, claim: core_v1.PersistentVolumeClaim) -> bool:
        pods = (await self.client.list(core_v1.Pod, claim.metadata.namespace)).items
        return any(
            one.persistent_volume_claim is not None and one.persistent_volume_claim.claim_name == claim.metadata.name
            for pod in pods
            if pod.status.phase not in ("Succeeded", "Failed") and pod.spec.node_name
            for one in pod.spec.volumes
        )


def _of_interest(claim: core_v1.PersistentVolumeClaim) -> object:
    status = claim.status
    refused = rules.NODE_INFEASIBLE in status.allocated_resource_statuses.values()
    return claim.spec, status.phase, status.capacity, refused
