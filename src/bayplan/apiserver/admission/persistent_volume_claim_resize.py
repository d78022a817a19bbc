"""PersistentVolumeClaimResize: a claim grows only where its storage class says that its volumes can."""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import ApiError, forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.quantity import parse
from bayplan.api.quota.claims import class_of
from bayplan.apiserver.admission.chain import UPDATE, AdmissionPlugin, AdmissionRequest


class PersistentVolumeClaimResize(AdmissionPlugin):
    """See the module."""

    name = "PersistentVolumeClaimResize"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "PersistentVolumeClaim" and not kind.group and operation == UPDATE and not subresource

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse growth that cannot happen."""
        new, old = request.obj, request.old
        wanted, had = (claim.spec.resources.requests.get("storage", "0") for claim in (new, old))
        if parse(wanted) <= parse(had):
            return
        if old.status.phase != "Bound":
            raise _refused(request, "Only bound persistent volume claims can be expanded")
        if not _can_grow(request.call.context, class_of(new), class_of(old)):
            detail = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
                "must support resize"
            )
            raise _refused(request, detail)


def _can_grow(context: Any, storage_class: str, former: str) -> bool:
    if not storage_class or storage_class != former:
        return False
    found = context.find("StorageClass", "", storage_class, "storage.k8s.io/v1")
    return found is not None and bool(found.allow_volume_expansion)


def _refused(request: AdmissionRequest, detail: str) -> ApiError:
    return forbidden_error(request.call.kind.plural, "", request.name, detail)
