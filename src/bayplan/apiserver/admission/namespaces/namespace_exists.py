"""NamespaceExists: nothing is written in a namespace that is not there."""

from __future__ import annotations

from bayplan.api.errors import not_found_error
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, DELETE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.namespaces.lookups import namespace_cache


class NamespaceExists(AdmissionPlugin):
    """See the module."""

    name = "NamespaceExists"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation in (CREATE, UPDATE, DELETE) and kind.namespaced

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the request (404)."""
        if namespace_cache(request).get("", request.namespace) is None:
            raise not_found_error("namespaces", "", request.namespace)
