"""DefaultStorageClass: a claim that names no storage class gets the default one, the newest if there are several."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.reads.cache import ResourceCache

DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class DefaultStorageClass(AdmissionPlugin):
    """See the module."""

    name = "DefaultStorageClass"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "PersistentVolumeClaim" and not kind.group and operation == CREATE and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Name the class."""
        claim = request.obj
        if claim.spec.storage_class_name is not None or CLASS_ANNOTATION in claim.metadata.annotations:
            return
        context: Any = request.call.context
        kind = context.kinds.of_kind("storage.k8s.io/v1", "StorageClass")
        found = newest_default(context.objects.cache(kind), DEFAULT_ANNOTATIONS) if kind is not None else None
        if found is not None:
            claim.spec.storage_class_name = found


def newest_default(cache: ResourceCache, annotations: tuple[str, ...]) -> str | None:
    """The name of the newest object that an annotation marks as the default, the first by name of equally new ones; None if there is none."""
    marks = tuple(f'"{annotation}":"true"'.encode() for annotation in annotations)
    best: tuple[str, str] | None = None
    for entry in cache.ordered():
        if any(mark in entry.body for mark in marks):
            metadata = cache.shared(entry).metadata
            if any(metadata.annotations.get(annotation) == "true" for annotation in annotations):
                made = metadata.creation_timestamp or ""
                if best is None or made > best[0]:
                    best = (made, entry.name)
    return best[1] if best is not None else None
