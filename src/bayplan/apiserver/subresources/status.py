"""`status`, the part of an object that its controller writes, and the other subresources that take the whole object and let one part of it
change (`approval`, `ephemeralcontainers`, `finalize`, `resize`): what may change is up to the kind's strategy. Also `componentstatuses`."""

from __future__ import annotations

from bayplan.api.errors import not_found_error
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs import patch, read, update


async def handle(call: Call) -> Response:
    """get, update and patch."""
    if call.request.method == "GET":
        return await read.get_converted(call) if call.kind.asks_webhook else read.get(call)
    if call.request.method == "PUT":
        return await update.update(call)
    return await patch.patch(call)


_COMPONENTS = ("scheduler", "controller-manager", "etcd-0")


async def component_statuses(call: Call) -> Response:
    """The old health listing; the API server itself vouches for its store."""
    import msgspec

    healthy = [{"type": "Healthy", "status": "True", "message": "ok"}]
    items = {name: {"metadata": {"name": name}, "conditions": healthy} for name in _COMPONENTS}
    if call.path.name:
        if call.path.name not in items:
            raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
        body = {"kind": "ComponentStatus", "apiVersion": "v1", **items[call.path.name]}
    else:
        body = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": list(items.values())}
    return Response(200, msgspec.json.encode(body), warnings=call.warnings)
