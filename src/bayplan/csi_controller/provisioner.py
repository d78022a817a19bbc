"""Volumes are made for claims. What a claim asks for and what follows from an answer is decided in `provision_rules` and `topology`.

A call whose end is not known is made again until it is, also when its claim has gone: the volume would be lost otherwise. Then the PersistentVolume is made, found
without a claim, and deleted with what is behind it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.quantity import value
from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import provision_rules as rules
from bayplan.csi_controller.data_sources import DataSources
from bayplan.csi_controller.errors import CsiControllerError, ForeignSourceError, MissingError, RequestError
from bayplan.csi_controller.ownership import Owner, owner_of
from bayplan.csi_controller.provision_rules import State
from bayplan.csi_controller.topology import requirement
from bayplan.csi_controller.worker import Worker

logger = logging.getLogger(__name__)

_RESULTS = {True: "success", False: "failed"}


class Provisioner(Worker):
    """See the module. Keys are uids of claims."""

    name = "csi-provisioner"

    def setup(self) -> None:
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.classes = self.informer(storage_v1.StorageClass)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.nodes = self.informer(core_v1.Node)
        self.csi_nodes = self.informer(storage_v1.CSINode)
        self.claims.add_index("uid", lambda claim: (claim.metadata.uid,))
        self.claims.add_index("class", lambda claim: (claim.spec.storage_class_name or "",))
        self.claims.on_change(add=self._touched, update=self._changed)
        self.classes.on_change(add=self._class_seen)
        self._sources = DataSources(self.client, self.claims, self.volumes)
        self._in_background: dict[str, tuple[core_v1.PersistentVolumeClaim, csi.CreateVolumeRequest]] = {}
        """Uid -> claim for which the driver may be at work, and the call that is made again."""
        self._requests: dict[str, csi.CreateVolumeRequest] = {}
        """Uid -> the call that is being made."""
        self._waited: set[str] = set()
        """Uids of claims that are nobody's and for which this instance has waited its time."""
        metrics, label = self.context.metrics, ("class", "source")
        self._total = {
            True: metrics.counter("persistentvolumeclaim_provision_total", "Total number of persistent volumes provisioned succesfully.", label),
            False: metrics.counter("persistentvolumeclaim_provision_failed_total", "Total number of persistent volume provision failed attempts.", label),
        }  # fmt: skip
        self._seconds = metrics.histogram(
            "persistentvolumeclaim_provision_duration_seconds",
            "Latency in seconds to provision persistent volumes.",
            label,
        )

    def _touched(self, claim: core_v1.PersistentVolumeClaim) -> None:
        if rules.provisioner_of(claim) == self.driver.name and not claim.spec.volume_name:
            self.queue.add(claim.metadata.uid)

    def _changed(self, old: core_v1.PersistentVolumeClaim, new: core_v1.PersistentVolumeClaim) -> None:
        if (old.spec, old.metadata.annotations) != (new.spec, new.metadata.annotations):
            self._touched(new)

    def _class_seen(self, storage_class: storage_v1.StorageClass) -> None:
        for claim in self.claims.cache.by_index("class", storage_class.metadata.name):
            self._touched(claim)

    async def reconcile(self, key: str) -> None:
        found = self.claims.cache.by_index("uid", key)
        unfinished = self._in_background.get(key)
        claim = found[0] if found else unfinished[0] if unfinished is not None else None
        if claim is None:
            return
        storage_class = self.classes.cache.get("", claim.spec.storage_class_name or "")
        made = self.volumes.cache.get("", f"{self.settings.volume_name_prefix}-{key}") is not None
        if unfinished is None and (made or not rules.wants_volume(claim, storage_class, self.driver.name)):
            self._waited.discard(key)
            return
        if storage_class is None:
            text = f'storageclass.storage.k8s.io "{claim.spec.storage_class_name}" not found'
            self.recorder.event(claim, "Warning", "ProvisioningFailed", text)
            raise MissingError(text)
        if unfinished is None and not await self._is_ours(claim, storage_class):
            return
        await self._provision(claim, storage_class)

    async def _is_ours(self, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass) -> bool:
        owner = owner_of(claim, storage_class, self.settings, self.context.segments)
        uid = claim.metadata.uid
        if owner is not Owner.OPEN:
            self._waited.discard(uid)
            return owner is Owner.OURS
        if not await self._sources.is_here(claim, self.settings, self.context.segments):
            return False
        if uid not in self._waited:
            self._waited.add(uid)
            share = 2.0 ** self.queue.num_requeues(uid) * self.context.randomness.random()
            self.queue.add_after(uid, share * self.settings.node_deployment_base_delay)
            return False
        self._waited.discard(uid)
        if await self._has_room(claim, storage_class):
            # The answer to this write brings the claim back, as this instance's.
            await self._select_node(claim, self.settings.node_name)
        else:
            self.queue.add_rate_limited(uid)
        return False

    async def _has_room(self, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass) -> bool:
        if csi.ControllerCapability.GET_CAPACITY not in self.driver.controller:
            return True
        request = self._plan(claim, storage_class, {}).request
        topology = csi.Topology(self.context.segments) if self.context.segments else None
        asked = csi.GetCapacityRequest(request.volume_capabilities, request.parameters, topology)
        room = await self.csi.get_capacity(asked)
        wanted = value(claim.spec.resources.requests.get("storage", "0"))
        return room.available_capacity >= wanted

    async def _select_node(self, claim: core_v1.PersistentVolumeClaim, node_name: str | None) -> None:
        """Say on which node the volume is to be, or take that back, unless somebody else has changed the claim."""
        metadata = {
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {rules.SELECTED_NODE: node_name},
        }
        name, namespace = claim.metadata.name, claim.metadata.namespace
        await self.client.patch(core_v1.PersistentVolumeClaim, name, namespace, {"metadata": metadata})

    def _plan(
        self,
        claim: core_v1.PersistentVolumeClaim,
        storage_class: storage_v1.StorageClass,
        mutable_parameters: dict[str, str],
    ) -> rules.Provisioning:
        return rules.plan(
            claim,
            storage_class,
            self.driver,
            prefix=self.settings.volume_name_prefix,
            default_fs_type=self.settings.default_fstype,
            extra_metadata=self.settings.extra_create_metadata,
            mutable_parameters=mutable_parameters,
        )

    async def _provision(self, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass) -> None:
        uid, started = claim.metadata.uid, self.clock.monotonic()
        where = f'"{claim.metadata.namespace}/{claim.metadata.name}"'
        labels = (storage_class.metadata.name, "")
        self.recorder.event(
            claim, "Normal", "Provisioning", f"External provisioner is provisioning volume for claim {where}"
        )
        try:
            volume = await self._make(claim, storage_class)
        except ForeignSourceError as error:
            self.recorder.event(claim, "Normal", "Provisioning", str(error))
            return
        except (CsiError, CsiControllerError) as error:
            self._total[False].labels(*labels).inc()
            text = f'failed to provision volume with StorageClass "{storage_class.metadata.name}": {error}'
            self.recorder.event(claim, "Warning", "ProvisioningFailed", text)
            await self._failed(claim, error)
            return
        finally:
            self._requests.pop(uid, None)
        self._in_background.pop(uid, None)
        self._total[True].labels(*labels).inc()
        self._seconds.labels(*labels).observe(self.clock.monotonic() - started)
        text = f"Successfully provisioned volume {volume.metadata.name}"
        self.recorder.event(claim, "Normal", "ProvisioningSucceeded", text)

    async def _failed(self, claim: core_v1.PersistentVolumeClaim, error: Exception) -> None:
        """Remember what is known of the volume, and see that there is another try. Raises the error again, except where the scheduler has the next word."""
        uid = claim.metadata.uid
        selected = claim.metadata.annotations.get(rules.SELECTED_NODE, "")
        may_reschedule = self.driver.has_topology and bool(selected)
        state = rules.state_after(error, may_reschedule=may_reschedule)
        if state is State.IN_BACKGROUND:
            self._in_background[uid] = (claim, self._requests[uid])
        elif state is not State.NO_CHANGE:
            self._in_background.pop(uid, None)
        if state is State.RESCHEDULE:
            logger.info("claim %s/%s goes back to the scheduler", claim.metadata.namespace, claim.metadata.name)
            await self._select_node_again(claim)
            return
        raise error

    async def _select_node_again(self, claim: core_v1.PersistentVolumeClaim) -> None:
        try:
            latest = await self.client.get(core_v1.PersistentVolumeClaim, claim.metadata.name, claim.metadata.namespace)
        except ApiError as error:
            if error.code == 404:
                return
            raise
        if latest.metadata.uid == claim.metadata.uid and not latest.spec.volume_name:
            await self._select_node(latest, None)

    async def _make(
        self, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass
    ) -> core_v1.PersistentVolume:
        """Have a volume made. Raises CsiError, CsiControllerError."""
        uid, unfinished = claim.metadata.uid, self._in_background.get(claim.metadata.uid)
        attributes_class = claim.spec.volume_attributes_class_name or ""
        planned = self._plan(claim, storage_class, await self._mutable_parameters(attributes_class))
        request = unfinished[1] if unfinished is not None else await self._request(claim, storage_class, planned)
        self._requests[uid] = request
        volume = await self.csi.create_volume(request)
        problem = rules.problem_with(volume, request)
        if problem:
            await self.csi.delete_volume(csi.DeleteVolumeRequest(volume.volume_id, request.secrets))
            raise CsiError("ABORTED", problem)
        identity = f"{self.settings.node_name or 'csi'}-{self.driver.name}"
        made = rules.persistent_volume(claim, storage_class, planned, volume, self.driver, identity)
        try:
            return await self._save(made)
        except BaseException:
            self._in_background[uid] = (claim, request)  # there is a volume that no object names
            raise

    async def _request(
        self, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass, planned: rules.Provisioning
    ) -> csi.CreateVolumeRequest:
        """The whole request. Raises CsiControllerError."""
        source = rules.source_of(claim)
        rules.check_driver(self.driver, source, claim.spec.volume_attributes_class_name or "")
        return replace(
            planned.request,
            secrets=await self.credentials(planned.secrets["provisioner"]),
            volume_content_source=await self._sources.resolve(source, claim, self.driver) if source else None,
            accessibility_requirements=self._requirement(claim, storage_class),
        )

    async def _save(self, made: core_v1.PersistentVolume) -> core_v1.PersistentVolume:
        try:
            return await self.client.create(made)
        except ApiError as error:
            if error.status.reason != "AlreadyExists":
                raise
        return made

    async def _mutable_parameters(self, class_name: str) -> dict[str, str]:
        if not class_name:
            return {}
        try:
            found = await self.client.get(storage_v1.VolumeAttributesClass, class_name)
        except ApiError as error:
            if error.code != 404:
                raise
            raise RequestError(f'volumeattributesclass.storage.k8s.io "{class_name}" not found') from error
        if found.driver_name != self.driver.name:
            raise RequestError(
                f"VAC {class_name} referenced in PVC is for driver {found.driver_name} "
                f"which does not match driver name {self.driver.name}"
            )
        return dict(found.parameters)

    def _requirement(
        self, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass
    ) -> csi.TopologyRequirement | None:
        if not self.driver.has_topology:
            return None
        selected = claim.metadata.annotations.get(rules.SELECTED_NODE, "")
        if (
            self.settings.node_deployment
        ):  # what the driver said of this node counts, whether or not a kubelet has told the cluster
            here = (csi.Topology(self.context.segments),)
            return csi.TopologyRequirement(here, here)
        return requirement(
            self.driver.name,
            claim.metadata.name,
            storage_class.allowed_topologies,
            selected,
            _by_name(self.csi_nodes.cache),
            _by_name(self.nodes.cache),
            strict=self.settings.strict_topology,
            immediate=self.settings.immediate_topology,
        )


def _by_name(objects: Any) -> dict[str, Any]:
    return {one.metadata.name: one for one in objects}
