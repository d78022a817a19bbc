"""Persistent volumes: claims and volumes are bound, made, grown and taken back. What belongs together is decided in `volume_rules`.

Storage classes whose provisioner is `bayplan.dev/local` are served here, with directories on the chosen node; all others by their own provisioners, which
are told through an annotation.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.api.csi_migration import CSI_DRIVERS
from bayplan.api.errors import ApiError
from bayplan.api.quantity import parse
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1, storage_v1
from bayplan.controllers.base import Controller
from bayplan.controllers.pods import claims_of, has_ended
from bayplan.controllers.volumes import volume_rules as rules
from bayplan.informers.cache import SPEC, key_of

PROVISIONER = "bayplan.dev/local"
ROOT = "/var/lib/bayplan/volumes"
"""Directory on nodes below which local volumes are made."""
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_CLAIM, _VOLUME = "claim:", "volume:"
_RETRY_SECONDS = 15.0
"""After this time a claim that waits for a provisioner is looked at again."""


class PersistentVolumeBinder(Controller):
    """See the module. Keys are `claim:namespace/name` and `volume:name`; one worker, so that no two claims choose the same volume."""

    name = "persistentvolume-binder-controller"
    event_source = "persistentvolume-controller"
    workers = 1

    def setup(self) -> None:
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.classes = self.informer(storage_v1.StorageClass)
        self.claims.add_index("waiting", lambda claim: () if claim.spec.volume_name else (rules.class_of_claim(claim),))
        self.volumes.add_index("class", lambda volume: (rules.class_of_volume(volume),))
        self.volumes.add_index("claim", _claim_keys)
        self._written: dict[tuple[str, str], Any] = {}
        """What was written and may not be in the caches yet, by kind and key."""
        self.claims.on_change(
            add=self._claim_seen, update=lambda old, new: self._claim_seen(new), delete=self._claim_gone
        )
        self.volumes.on_change(
            add=self._volume_seen, update=lambda old, new: self._volume_seen(new), delete=self._volume_gone
        )
        self.pods = self.informer(core_v1.Pod)
        self.pods.add_index("claim", claims_of, SPEC)
        self.pods.on_change(add=self._pod_seen)
        self.classes.on_change(add=self._class_seen, update=lambda old, new: self._class_seen(new))

    def _pod_seen(self, pod: core_v1.Pod) -> None:
        """A claim that waits for a pod to be scheduled says so."""
        if not pod.spec.node_name:
            for key in claims_of(pod):
                claim = self.claims.cache.by_key(key)
                if claim is not None and not claim.spec.volume_name:
                    self.queue.add(_CLAIM + key)

    def _waits_for(self, claim: core_v1.PersistentVolumeClaim) -> tuple[str, str]:
        """Why a claim whose class binds late is not bound: reason and message."""
        users = self.pods.cache.by_index("claim", key_of(claim))
        names = sorted(pod.metadata.name for pod in users if not pod.spec.node_name and not has_ended(pod))
        if names:
            return "WaitForPodScheduled", f"waiting for pod{'s' * (len(names) > 1)} {','.join(names)} to be scheduled"
        return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"

    def _claim_seen(self, claim: core_v1.PersistentVolumeClaim) -> None:
        self._settle(_CLAIM, claim)
        self.queue.add(_CLAIM + key_of(claim))

    def _claim_gone(self, claim: core_v1.PersistentVolumeClaim) -> None:
        self._written.pop((_CLAIM, key_of(claim)), None)
        for volume in self.volumes.cache.by_index("claim", key_of(claim)):
            self.queue.add(_VOLUME + volume.metadata.name)

    def _volume_seen(self, volume: core_v1.PersistentVolume) -> None:
        self._settle(_VOLUME, volume)
        self.queue.add(_VOLUME + volume.metadata.name)
        if volume.spec.claim_ref is None:
            self._touch_waiting(rules.class_of_volume(volume))

    def _volume_gone(self, volume: core_v1.PersistentVolume) -> None:
        self._written.pop((_VOLUME, key_of(volume)), None)
        for key in _claim_keys(volume):
            self.queue.add(_CLAIM + key)

    def _class_seen(self, storage_class: storage_v1.StorageClass) -> None:
        self._touch_waiting(storage_class.metadata.name)
        self._touch_waiting("")

    def _touch_waiting(self, class_name: str) -> None:
        for claim in self.claims.cache.by_index("waiting", class_name):
            self.queue.add(_CLAIM + key_of(claim))

    def _settle(self, kind: str, obj: Any) -> None:
        """Forget what was written once the cache has it, or something newer."""
        written = self._written.get((kind, key_of(obj)))
        if written is not None and int(written.metadata.resource_version) <= int(obj.metadata.resource_version):
            del self._written[kind, key_of(obj)]

    def _latest(self, kind: str, obj: Any) -> Any:
        return self._written.get((kind, key_of(obj)), obj)

    async def reconcile(self, key: str) -> None:
        kind, _, name = key.partition(":")
        try:
            if kind == "claim":
                claim = self.claims.cache.by_key(name)
                if claim is not None:
                    await self._sync_claim(self._latest(_CLAIM, claim))
            else:
                volume = self.volumes.cache.by_key(name)
                if volume is not None:
                    await self._sync_volume(self._latest(_VOLUME, volume))
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise

    # Claims

    async def _sync_claim(self, claim: core_v1.PersistentVolumeClaim) -> None:
        if claim.metadata.deletion_timestamp:
            return
        if rules.BIND_COMPLETED in claim.metadata.annotations:
            await self._sync_bound_claim(claim)
        elif claim.spec.volume_name:
            await self._sync_named_claim(claim)
        else:
            await self._sync_free_claim(claim)

    async def _sync_free_claim(self, claim: core_v1.PersistentVolumeClaim) -> None:
        """A claim that takes any volume that fits, or a new one."""
        storage_class = self.classes.cache.get("", rules.class_of_claim(claim))
        if claim.spec.storage_class_name is None and rules.CLASS_ANNOTATION not in claim.metadata.annotations:
            default = self._default_class()
            if default is not None:
                changed = clone(claim)
                changed.spec.storage_class_name = default.metadata.name
                claim, storage_class = await self._update(_CLAIM, changed), default
        delayed = rules.waits_for_consumer(claim, storage_class)
        names = {
            volume.metadata.name: volume
            for volume in (
                *self.volumes.cache.by_index("class", rules.class_of_claim(claim)),
                *self.volumes.cache.by_index("claim", key_of(claim)),
            )
        }
        volumes = [self._latest(_VOLUME, volume) for volume in names.values()]
        found = rules.best_match(claim, volumes, delayed=delayed)
        if found is not None:
            await self._bind(claim, found)
        elif delayed:
            await self._wait(claim, "Normal", *self._waits_for(claim))
        elif rules.class_of_claim(claim):
            await self._provision(claim, storage_class)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            await self._wait(claim, "Normal", "FailedBinding", text)

    def _default_class(self) -> storage_v1.StorageClass | None:
        """The newest of the classes that are marked as default."""
        marked = [one for one in self.classes.cache if one.metadata.annotations.get(_DEFAULT) == "true"]
        marked.sort(key=lambda one: one.metadata.name)
        marked.sort(key=lambda one: one.metadata.creation_timestamp or "", reverse=True)
        return marked[0] if marked else None

    async def _wait(self, claim: core_v1.PersistentVolumeClaim, kind: str, reason: str, message: str) -> None:
        self.recorder.event(claim, kind, reason, message)
        await self._claim_phase(claim, "Pending")

    async def _sync_named_claim(self, claim: core_v1.PersistentVolumeClaim) -> None:
        """A claim that asks for one volume."""
        volume = self.volumes.cache.get("", claim.spec.volume_name)
        volume = self._latest(_VOLUME, volume) if volume is not None else None
        if volume is None:
            await self._claim_phase(claim, "Pending")
        elif volume.spec.claim_ref is None or rules.is_meant_for(volume, claim):
            if volume.spec.claim_ref is None and rules.class_of_volume(volume) != rules.class_of_claim(claim):
                text = f'Cannot bind to requested volume "{volume.metadata.name}": storageClassName does not match'
                await self._wait(claim, "Warning", "VolumeMismatch", text)
            else:
                await self._bind(claim, volume)
        else:
            text = f'volume "{volume.metadata.name}" already bound to a different claim.'
            await self._wait(claim, "Warning", "FailedBinding", text)

    async def _sync_bound_claim(self, claim: core_v1.PersistentVolumeClaim) -> None:
        """A claim that has had a volume keeps it or is lost."""
        volume = self.volumes.cache.get("", claim.spec.volume_name) if claim.spec.volume_name else None
        volume = self._latest(_VOLUME, volume) if volume is not None else None
        if not claim.spec.volume_name:
            text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        elif volume is None:
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        elif volume.spec.claim_ref is None or rules.is_meant_for(volume, claim):
            await self._bind(claim, volume)
            await self._grow(self._latest(_CLAIM, claim), self._latest(_VOLUME, volume))
            return
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
        if claim.status.phase != "Lost":
            reason = "ClaimMisbound" if text.startswith("Two") else "ClaimLost"
            self.recorder.event(claim, "Warning", reason, text)
            await self._claim_phase(claim, "Lost")

    async def _claim_phase(self, claim: core_v1.PersistentVolumeClaim, phase: str) -> None:
        if claim.status.phase != phase:
            status = msgspec.structs.replace(claim.status, phase=phase)
            await self._write_status(_CLAIM, claim, status)

    async def _bind(self, claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume) -> None:
        """The four steps; those that are done already cost nothing."""
        volume = await self._update(_VOLUME, rules.claimed_volume(volume, claim), volume)
        await self._volume_phase(volume, "Bound")
        claim = await self._update(_CLAIM, rules.bound_claim(claim, volume), claim)
        status = rules.bound_status(claim, volume)
        if status != claim.status:
            await self._write_status(_CLAIM, claim, status)

    async def _provision(
        self, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass | None
    ) -> None:
        if storage_class is None:
            text = f'storageclass.storage.k8s.io "{rules.class_of_claim(claim)}" not found'
            await self._wait(claim, "Warning", "ProvisioningFailed", text)
            return
        provisioner = CSI_DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
        if provisioner == "kubernetes.io/no-provisioner":
            text = "no volume plugin matched name: kubernetes.io/no-provisioner"
            await self._wait(claim, "Warning", "ProvisioningFailed", text)
            return
        if claim.metadata.annotations.get(rules.PROVISIONER) != provisioner:
            changed = clone(claim)
            marks = {rules.PROVISIONER: provisioner, rules.OLD_PROVISIONER: provisioner}
            changed.metadata.annotations = {**changed.metadata.annotations, **marks}
            claim = await self._update(_CLAIM, changed)
        if provisioner != PROVISIONER:
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by "
                "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
                "and correctly registered."
            )
            await self._wait(claim, "Normal", "ExternalProvisioning", text)
            self.queue.add_after(_CLAIM + key_of(claim), _RETRY_SECONDS)
            return
        await self._claim_phase(claim, "Pending")
        volume = rules.local_volume(claim, storage_class, PROVISIONER, ROOT)
        try:
            created = await self.client.create(volume)
        except ApiError as error:
            if error.status.reason != "AlreadyExists":
                text = f"failed to create volume: {error.message}"
                self.recorder.event(claim, "Warning", "ProvisioningFailed", text)
                raise
            return  # made before; its event brings the claim back here
        self._written[_VOLUME, key_of(created)] = created
        text = f"Successfully provisioned volume {created.metadata.name} using {PROVISIONER}"
        self.recorder.event(claim, "Normal", "ProvisioningSucceeded", text)

    async def _grow(self, claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume) -> None:
        """Give a claim on a local volume the storage that it has come to ask for: first the volume, then the claim says so."""
        if volume.metadata.annotations.get(rules.PROVISIONED_BY) != PROVISIONER or claim.status.phase != "Bound":
            return
        wanted = rules.requested(claim)
        shown = claim.status.capacity.get("storage")
        if shown is None or wanted <= parse(shown):
            return
        if rules.capacity(volume) < wanted:
            changed = clone(volume)
            changed.spec.capacity = {**changed.spec.capacity, "storage": str(wanted)}
            await self._update(_VOLUME, changed)
        status = msgspec.structs.replace(claim.status, capacity={**claim.status.capacity, "storage": str(wanted)})
        await self._write_status(_CLAIM, claim, status)
        text = f"ExpandVolume succeeded for volume {key_of(claim)}"
        self.recorder.event(claim, "Normal", "VolumeResizeSuccessful", text)

    # Volumes

    async def _sync_volume(self, volume: core_v1.PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            await self._volume_phase(volume, "Available")
            if reference is not None:
                self.queue.add(f"{_CLAIM}{reference.namespace}/{reference.name}")
            return
        claim = await self._claim_named(reference)
        if claim is None:
            await self._reclaim(volume)
        elif not claim.spec.volume_name:
            self.queue.add(_CLAIM + key_of(claim))
        elif claim.spec.volume_name == volume.metadata.name:
            await self._volume_phase(volume, "Bound")
        elif volume.metadata.annotations.get(rules.PROVISIONED_BY) and (
            volume.spec.persistent_volume_reclaim_policy == "Delete"
        ):
            await self._reclaim(volume)  # made for a claim that has found another one meanwhile
        else:
            freed = await self._update(_VOLUME, rules.freed_volume(volume))
            await self._volume_phase(freed, "Available")

    async def _claim_named(self, reference: core_v1.ObjectReference) -> core_v1.PersistentVolumeClaim | None:
        """The claim of a reference; None if it is gone, which the server says and not the cache."""
        claim = self.claims.cache.get(reference.namespace, reference.name)
        if claim is None or claim.metadata.uid != reference.uid:
            try:
                claim = await self.client.get(core_v1.PersistentVolumeClaim, reference.name, reference.namespace)
            except ApiError as error:
                if error.code != 404:
                    raise
                return None
        latest: core_v1.PersistentVolumeClaim = self._latest(_CLAIM, claim)
        return latest if latest.metadata.uid == reference.uid else None

    async def _reclaim(self, volume: core_v1.PersistentVolume) -> None:
        """What becomes of a volume whose claim is gone."""
        policy = volume.spec.persistent_volume_reclaim_policy
        if volume.status.phase == "Failed" and policy != "Retain":
            return
        await self._volume_phase(volume, "Released")
        volume = self._latest(_VOLUME, volume)
        if policy == "Recycle":
            self.recorder.event(volume, "Normal", "VolumeRecycled", "Volume recycled")
            await self._update(_VOLUME, rules.freed_volume(_bound_here(volume)))
        elif policy == "Delete":
            await self._delete(volume)

    async def _delete(self, volume: core_v1.PersistentVolume) -> None:
        maker = volume.metadata.annotations.get(rules.PROVISIONED_BY, "")
        if maker == PROVISIONER:
            name, uid = volume.metadata.name, volume.metadata.uid
            await self.client.delete(core_v1.PersistentVolume, name, uid=uid)
        elif not maker and volume.spec.csi is None:
            name = volume.metadata.name
            text = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
            self.recorder.event(volume, "Warning", "VolumeFailedDelete", text)
            await self._volume_phase(volume, "Failed", text)

    async def _volume_phase(self, volume: core_v1.PersistentVolume, phase: str, message: str = "") -> None:
        if volume.status.phase == phase:
            return
        status = core_v1.PersistentVolumeStatus(phase=phase, message=message)  # since when, the server adds
        await self._write_status(_VOLUME, volume, status)

    async def _update(self, kind: str, changed: Any, before: Any = None) -> Any:
        """Write an object, unless it is the one from before. Raises ApiError (409)."""
        if changed is before:
            return changed
        written = await self.client.update(changed)
        self._written[kind, key_of(written)] = written
        return written

    async def _write_status(self, kind: str, obj: Any, status: Any) -> None:
        changed = clone(obj)
        changed.status = status
        written = await self.client.update_status(changed)
        self._written[kind, key_of(written)] = written


def _bound_here(volume: core_v1.PersistentVolume) -> core_v1.PersistentVolume:
    """A recycled volume forgets its claim, whoever bound it."""
    changed: core_v1.PersistentVolume = clone(volume)
    changed.metadata.annotations = {**changed.metadata.annotations, rules.BOUND_BY_CONTROLLER: "yes"}
    return changed


def _claim_keys(volume: core_v1.PersistentVolume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return (f"{reference.namespace}/{reference.name}",) if reference is not None else ()
