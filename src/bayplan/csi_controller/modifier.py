"""Volumes get the attributes of the VolumeAttributesClass that their claims name. What is next is decided in `modify_rules`."""

from __future__ import annotations

import logging

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import capabilities as uses
from bayplan.csi_controller import modify_rules as rules
from bayplan.csi_controller.errors import RequestError
from bayplan.csi_controller.ownership import is_here
from bayplan.csi_controller.provision_rules import MODIFY_SECRET
from bayplan.csi_controller.resize_rules import is_bound_to
from bayplan.csi_controller.worker import Worker
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)


class Modifier(Worker):
    """See the module. Keys are `namespace/name` of claims."""

    name = "csi-resizer-modify"

    def setup(self) -> None:
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.classes = self.informer(storage_v1.VolumeAttributesClass)
        self.watch_keys(
            self.claims, lambda one: (one.spec, one.status.phase, one.status.current_volume_attributes_class_name)
        )
        self.classes.on_change(add=self._class_seen)
        self._uncertain: set[str] = set()
        """Uids of claims whose last target the driver may still be at."""
        self._infeasible: dict[str, tuple[str, float]] = {}
        """Uid -> target that cannot be, and monotonic time until which it is not tried again."""

    def _class_seen(self, found: storage_v1.VolumeAttributesClass) -> None:
        for claim in self.claims.cache:
            if claim.spec.volume_attributes_class_name == found.metadata.name:
                self.queue.add(key_of(claim))

    async def reconcile(self, key: str) -> None:
        claim: core_v1.PersistentVolumeClaim | None = self.claims.cache.by_key(key)
        if claim is None or claim.status.phase != "Bound":
            return
        volume: core_v1.PersistentVolume | None = self.volumes.cache.get("", claim.spec.volume_name)
        if volume is None or volume.spec.csi is None or volume.spec.csi.driver != self.driver.name:
            return
        if not is_bound_to(volume, claim) or not is_here(volume, self.settings, self.context.segments):
            return
        if rules.is_rolled_back(claim):
            await self.client.update_status(rules.without_conditions(claim))
            self.recorder.event(claim, "Normal", "VolumeModifyCancelled", "Cancelled modify.")
            return
        target = rules.target_of(claim, uncertain=claim.metadata.uid in self._uncertain)
        if target is None:
            return
        name, until = self._infeasible.get(claim.metadata.uid, ("", 0.0))
        rest = until - self.clock.monotonic()
        if name == target.name and rest > 0:
            self.queue.add_after(key, rest)
            return
        await self._modify(claim, volume, target)

    async def _modify(
        self, claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume, target: rules.Target
    ) -> None:
        found: storage_v1.VolumeAttributesClass | None = self.classes.cache.get("", target.name)
        if found is None or found.driver_name != self.driver.name:
            text = f'VAC "{target.name}" does not exist.'
            if found is not None:
                text = f'VAC "{target.name}" is for driver {found.driver_name}, not {self.driver.name}.'
            self.recorder.event(claim, "Warning", "VolumeModifyFailed", text)
            status = claim.status.modify_volume_status
            if target.is_new and (status is None or status.status != rules.PENDING):
                await self.client.update_status(rules.pending(claim, target.name))
            raise RequestError(text)
        if target.is_new:
            now = rfc3339(self.clock.now())
            claim = await self.client.update_status(rules.in_progress(claim, target.name, now))
            text = f"external resizer is modifying volume {claim.metadata.name} with vac {target.name}"
            self.recorder.event(claim, "Normal", "VolumeModify", text)
        try:
            await self._call(claim, volume, found)
        except CsiError as error:
            await self._failed(claim, target.name, error)
            raise
        self._uncertain.discard(claim.metadata.uid)
        self._infeasible.pop(claim.metadata.uid, None)
        metadata = {"uid": volume.metadata.uid}
        patch = {"metadata": metadata, "spec": {"volumeAttributesClassName": target.name}}
        await self.client.patch(core_v1.PersistentVolume, volume.metadata.name, "", patch)
        await self.client.update_status(rules.completed(claim, target.name))
        text = f"external resizer modified volume {claim.metadata.name} with vac {target.name} successfully"
        self.recorder.event(claim, "Normal", "VolumeModifySuccessful", text)

    async def _call(
        self,
        claim: core_v1.PersistentVolumeClaim,
        volume: core_v1.PersistentVolume,
        found: storage_v1.VolumeAttributesClass,
    ) -> None:
        assert volume.spec.csi is not None
        parameters = dict(found.parameters)
        if self.settings.extra_create_metadata:
            parameters |= {
                uses.PVC_NAME: claim.metadata.name,
                uses.PVC_NAMESPACE: claim.metadata.namespace,
                uses.PV_NAME: volume.metadata.name,
            }
        name, namespace = (
            volume.metadata.annotations.get(MODIFY_SECRET.format(one), "") for one in ("name", "namespace")
        )
        reference = core_v1.SecretReference(name=name, namespace=namespace) if name and namespace else None
        secrets = await self.credentials(reference)
        request = csi.ControllerModifyVolumeRequest(volume.spec.csi.volume_handle, secrets, parameters)
        await self.csi.controller_modify_volume(request)

    async def _failed(self, claim: core_v1.PersistentVolumeClaim, target: str, error: CsiError) -> None:
        uid = claim.metadata.uid
        text = str(error)
        if error.is_final:
            self._uncertain.discard(uid)
        else:
            self._uncertain.add(uid)
            text = f"{text}. Still modifying to VAC {target}"
        if error.code == "INVALID_ARGUMENT":
            self._infeasible[uid] = (target, self.clock.monotonic() + self.settings.retry_infeasible)
        await self.tell_failure(rules.failed(claim, target, error, rfc3339(self.clock.now())))
        self.recorder.event(claim, "Warning", "VolumeModifyFailed", text)
