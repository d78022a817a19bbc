"""Volume protection: claims that pods use, volumes that are bound and attribute classes in use stay until they are free.

The API server puts a finalizer on each (admission plugin StorageObjectInUseProtection); here it is taken off once the object is being deleted and nobody needs it.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.types import core_v1, storage_v1
from bayplan.controllers.base import Controller, set_finalizers
from bayplan.controllers.pods import claims_of, has_ended
from bayplan.informers.cache import SPEC

CLAIM, VOLUME, ATTRIBUTES = (
    "kubernetes.io/pvc-protection",
    "kubernetes.io/pv-protection",
    "kubernetes.io/vac-protection",
)


def holds_claim(pod: core_v1.Pod) -> bool:
    """Whether a pod keeps its claims from going: one that has a node and has not ended."""
    return bool(pod.spec.node_name) and not has_ended(pod)


class _Protection(Controller):
    """Takes one finalizer off objects of one kind that are being deleted and not in use."""

    cls: type[Any]
    finalizer = ""

    def setup(self) -> None:
        self.objects = self.informer(self.cls)
        self.watch_keys(self.objects)

    def in_use(self, key: str, obj: Any) -> bool:
        """Whether somebody needs the object."""
        raise TypeError(f"{type(self).__name__} does not say what is in use")

    async def reconcile(self, key: str) -> None:
        obj = self.objects.cache.by_key(key)
        if (
            obj is None
            or not obj.metadata.deletion_timestamp
            or self.finalizer not in obj.metadata.finalizers
            or self.in_use(key, obj)
        ):
            return
        left = [name for name in obj.metadata.finalizers if name != self.finalizer]
        if not await set_finalizers(self.client, obj, left):
            self.queue.add_rate_limited(key)


class ClaimProtectionController(_Protection):
    """Persistent volume claims: in use while a pod with a node mounts them."""

    name = "persistentvolumeclaim-protection-controller"
    cls = core_v1.PersistentVolumeClaim
    finalizer = CLAIM

    def setup(self) -> None:
        super().setup()
        self.pods = self.informer(core_v1.Pod)
        self.pods.add_index("claim", claims_of, SPEC)
        self.pods.on_change(update=lambda old, new: self._released(new), delete=self._released)

    def _released(self, pod: core_v1.Pod) -> None:
        for key in claims_of(pod):
            self.queue.add(key)

    def in_use(self, key: str, obj: core_v1.PersistentVolumeClaim) -> bool:
        return any(holds_claim(pod) for pod in self.pods.cache.by_index("claim", key))


class VolumeProtectionController(_Protection):
    """Persistent volumes: in use while they are bound to a claim."""

    name = "persistentvolume-protection-controller"
    cls = core_v1.PersistentVolume
    finalizer = VOLUME

    def in_use(self, key: str, obj: core_v1.PersistentVolume) -> bool:
        return obj.status.phase == "Bound"


class AttributesClassProtectionController(_Protection):
    """Volume attributes classes: in use while a claim or a volume names them."""

    name = "volumeattributesclass-protection-controller"
    cls = storage_v1.VolumeAttributesClass
    finalizer = ATTRIBUTES

    def setup(self) -> None:
        super().setup()
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.volumes = self.informer(core_v1.PersistentVolume)
        for informer in (self.claims, self.volumes):
            informer.add_index("attributes", _attributes_of)
            informer.on_change(update=lambda old, new: self._touch(old), delete=self._touch)

    def _touch(self, obj: Any) -> None:
        for name in _attributes_of(obj):
            self.queue.add(name)

    def in_use(self, key: str, obj: storage_v1.VolumeAttributesClass) -> bool:
        return bool(self.claims.cache.by_index("attributes", key) or self.volumes.cache.by_index("attributes", key))


def _attributes_of(obj: Any) -> tuple[str, ...]:
    """Names of the attributes classes that a claim or volume names."""
    names = (obj.spec.volume_attributes_class_name, getattr(obj.status, "current_volume_attributes_class_name", None))
    return tuple(name for name in dict.fromkeys(names) if name)
