"""NamespaceAutoProvision: a namespace that is not there is made when something is created in it."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.namespaces.lookups import namespace_cache


class NamespaceAutoProvision(AdmissionPlugin):
    """See the module."""

    name = "NamespaceAutoProvision"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation == CREATE and kind.namespaced and not subresource

    async def admit(self, request: AdmissionRequest) -> None:
        """Make the namespace."""
        cache = namespace_cache(request)
        if request.call.dry_run or cache.get("", request.namespace) is not None:
            return
        from bayplan.api.errors import ApiError
        from bayplan.apiserver.requests import Request, ResourcePath
        from bayplan.apiserver.verbs.create import create_object

        call = request.call
        path = ResourcePath(cache.kind, "", "", None)
        inner = Request("POST", cache.kind.path("", ""), {}, call.request.user)
        namespace = core_v1.Namespace(metadata=meta_v1.ObjectMeta(name=request.namespace))
        try:
            await create_object(type(call).of(call.context, inner, path), namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # somebody else was faster, which is as good
                raise
