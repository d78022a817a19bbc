"""`namespaces/finalize`: the namespace controller takes its finalizer out of the spec; an emptied namespace that is terminating goes away."""

from __future__ import annotations

from bayplan.api.errors import bad_request
from bayplan.api.types import core_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.write import modify


async def handle(call: Call) -> Response:
    """update."""
    body: core_v1.Namespace = call.body_object(core_v1.Namespace, "Namespace", "v1")
    if body.metadata.name != call.path.name:
        raise bad_request(f"the name of the object ({body.metadata.name}) does not match the name on the URL ({call.path.name})")

    def finalized(namespace: core_v1.Namespace) -> core_v1.Namespace:
        namespace.spec.finalizers = body.spec.finalizers
        if body.metadata.resource_version:
            namespace.metadata.resource_version = body.metadata.resource_version
        return namespace

    return call.answer(200, await modify(call, finalized, plain=True))
