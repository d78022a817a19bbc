"""OwnerReferencesPermissionEnforcement: who sets owners must be allowed to delete the object, and to set finalizers of owners that block deletion."""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.authorization.attributes import Attributes


class OwnerReferencesPermissionEnforcement(AdmissionPlugin):
    """See the module."""

    name = "OwnerReferencesPermissionEnforcement"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation in (CREATE, UPDATE) and subresource in ("", "status")

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse owners that the user has no say over."""
        owners = _owners(request.obj)
        former = _owners(request.old) if request.old is not None else ()
        if owners == former:
            return
        call = request.call
        if request.old is not None:
            asked = _attributes(request, "delete", call.kind, "", request.name, request.namespace)
            verdict = call.context.authorizer.authorize(asked)
            if not verdict.allowed:
                self._refuse(request, f"cannot set an ownerRef on a resource you can't delete: {verdict.reason}, <nil>")
        for owner in _newly_blocking(owners, former):
            kind = call.context.kinds.of_kind(owner.api_version, owner.kind)
            if kind is None:
                detail = f'no RESTMapping found for resource kind "{owner.kind}" of {owner.api_version}'
                self._refuse(request, f"cannot set blockOwnerDeletion in this case because {detail}")
                return
            place = request.namespace if kind.namespaced else ""
            asked = _attributes(request, "update", kind, "finalizers", owner.name, place)
            verdict = call.context.authorizer.authorize(asked)
            if not verdict.allowed:
                what = "if an ownerReference refers to a resource you can't set finalizers on"
                self._refuse(request, f"cannot set blockOwnerDeletion {what}: {verdict.reason}, <nil>")

    def _refuse(self, request: AdmissionRequest, detail: str) -> None:
        kind = request.call.kind
        raise forbidden_error(kind.plural, kind.group, request.name, detail)


def _owners(obj: Any) -> tuple[meta_v1.OwnerReference, ...]:
    metadata = getattr(obj, "metadata", None)
    owners: tuple[meta_v1.OwnerReference, ...] = tuple(getattr(metadata, "owner_references", ()) or ())
    return owners


def _newly_blocking(
    owners: tuple[meta_v1.OwnerReference, ...], former: tuple[meta_v1.OwnerReference, ...]
) -> list[meta_v1.OwnerReference]:
    """Owners whose deletion the object blocks and did not block before."""
    blocked = {owner.uid for owner in former if owner.block_owner_deletion}
    return [owner for owner in owners if owner.block_owner_deletion and owner.uid not in blocked]


def _attributes(
    request: AdmissionRequest, verb: str, kind: Kind, subresource: str, name: str, namespace: str
) -> Attributes:
    """The question to the authorizer."""
    return Attributes(
        user=request.call.request.user,
        verb=verb,
        group=kind.group,
        version=kind.version,
        resource=kind.plural,
        subresource=subresource,
        name=name,
        namespace=namespace,
    )
