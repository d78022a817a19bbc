"""Volume expansion: a claim that asks for more than it has is told that somebody outside has to give it, as all volumes are expanded by their drivers.

Source of the behaviour: Kubernetes' `pkg/controller/volume/expand`, for volumes that no plugin within the controller manager expands; 1.36 has no others.
"""

from __future__ import annotations

from bayplan.api.quantity import parse
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller
from bayplan.informers.cache import key_of

_STORAGE = "storage"


def wants_more(claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether a bound claim asks for more than its volume has."""
    wanted, held = claim.spec.resources.requests.get(_STORAGE, "0"), claim.status.capacity.get(_STORAGE, "0")
    return claim.status.phase == "Bound" and parse(wanted).compare(parse(held)) > 0


class VolumeExpander(Controller):
    """See the module. Keys are those of claims."""

    name = "persistentvolume-expander-controller"
    event_source = "volume_expand"
    workers = 1

    def setup(self) -> None:
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self.claims.on_change(add=self._seen, update=self._changed)

    def _seen(self, claim: core_v1.PersistentVolumeClaim) -> None:
        if wants_more(claim):
            self.queue.add(key_of(claim))

    def _changed(self, old: core_v1.PersistentVolumeClaim, new: core_v1.PersistentVolumeClaim) -> None:
        if old.spec.resources.requests != new.spec.resources.requests or old.status.capacity != new.status.capacity:
            self._seen(new)

    async def reconcile(self, key: str) -> None:
        claim = self.claims.cache.by_key(key)
        if claim is None or not wants_more(claim):
            return
        volume = self.volumes.cache.by_key(claim.spec.volume_name)
        reference = volume.spec.claim_ref if volume is not None else None
        if reference is None or reference.uid != claim.metadata.uid:
            raise LookupError(f"persistent volume of claim {key} is not bound to it")
        text = "waiting for an external controller to expand this PVC"
        self.recorder.event(claim, "Normal", "ExternalExpanding", text)
