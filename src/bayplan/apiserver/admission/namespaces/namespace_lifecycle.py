"""NamespaceLifecycle: nothing is created in a namespace that does not exist or is going away, and the system's namespaces stay."""

from __future__ import annotations

from bayplan.api.errors import failure, forbidden_error, internal_error, not_found_error
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import CREATE, DELETE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.reads.storage_key import segment_problem

IMMORTAL = ("default", "kube-system", "kube-public")


class NamespaceLifecycle(AdmissionPlugin):
    """See the module."""

    name = "NamespaceLifecycle"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return (operation == CREATE and kind.namespaced) or (
            operation == DELETE and kind.kind == "Namespace" and not kind.group
        )

    def admit(self, request: AdmissionRequest) -> None:
        """Refuse the creation or deletion."""
        call = request.call
        if request.operation == DELETE:
            if request.name in IMMORTAL:
                raise forbidden_error("namespaces", "", request.name, "this namespace may not be deleted")
            return
        namespaces = call.context.objects.cache(_namespace_kind(call.context.kinds))
        entry = namespaces.get("", request.namespace)
        if entry is None:
            if problem := segment_problem(request.namespace):
                raise internal_error(f'invalid resource name "{request.namespace}": [{problem}]')
            raise not_found_error("namespaces", "", request.namespace)
        if entry.fields.get("status.phase") == "Terminating":
            metadata = namespaces.shared(entry).metadata
            detail = f"unable to create new content in namespace {request.namespace} because it is being terminated"
            error = forbidden_error(call.kind.plural, call.kind.group, request.name, detail)
            cause = meta_v1.StatusCause(
                reason="NamespaceTerminating",
                message=f"namespace {request.namespace} is being terminated",
                field="metadata.namespace",
            )
            if metadata.deletion_timestamp and error.status.details is not None:
                error.status.details.causes = (cause,)
            raise error


def _namespace_kind(kinds: KindTable) -> Kind:
    kind = kinds.of_resource("", "v1", "namespaces")
    if kind is None:
        raise failure(500, "InternalError", "this server has no namespaces")
    return kind
