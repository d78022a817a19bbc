"""StorageObjectInUseProtection: volumes, claims and volume attributes classes are not deleted while they are in use; a finalizer holds them back, which
a controller takes away."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest

_FINALIZERS = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
    "VolumeAttributesClass": "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(AdmissionPlugin):
    """See the module."""

    name = "StorageObjectInUseProtection"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation == CREATE and not subresource and kind.kind in _FINALIZERS and not kind.is_custom

    def admit(self, request: AdmissionRequest) -> None:
        """Add the finalizer."""
        metadata, finalizer = request.obj.metadata, _FINALIZERS[request.kind.kind]
        if finalizer not in metadata.finalizers:
            metadata.finalizers = (*metadata.finalizers, finalizer)
