"""`status`, the part of an object that its controller writes, and the other subresources that take the whole object and let one part of it
change (`approval`, `ephemeralcontainers`, `finalize`, `resize`): what may change is up to the kind's strategy. Also `componentstatuses`."""

from __future__ import annotations

from bayplan.api.errors import not_found_error
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs import patch, read, update


async def handle(call: Call) -> Response:
    """get, update and patch."""
    if call.path.verb == "get":
        return await read.get_converted(call) if call.kind.asks_webhook else read.get(call)
    if call.path.verb == "update":
        return await update.update(call)
    return await patch.patch(call)


_COMPONENTS = {"scheduler": ("scheduler", 10259), "controller-manager": ("controllers", 10257)}
"""Name in Kubernetes -> name in a cluster, and the port at which kube-apiserver looks for it."""


async def component_statuses(call: Call) -> Response:
    """The old health listing: the components of the same cluster, and the store."""
    import msgspec

    failures = {name: _component_failure(call, *found) for name, found in _COMPONENTS.items()}
    failures |= {name: failure() for name, failure in call.context.add_on_failures.items()}
    conditions = {name: _condition(message=text or "ok", is_healthy=not text) for name, text in failures.items()}
    problem = call.context.objects.store.write_error
    conditions["etcd-0"] = _condition(error=problem, is_healthy=False) if problem else _condition(message="ok")
    items = {name: {"metadata": {"name": name}, "conditions": [one]} for name, one in conditions.items()}
    if call.path.name:
        if call.path.name not in items:
            raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
        body = {"kind": "ComponentStatus", "apiVersion": "v1", **items[call.path.name]}
    else:
        body = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": list(items.values())}
    return Response(200, msgspec.json.encode(body), warnings=call.warnings)


def _component_failure(call: Call, name: str, port: int) -> str:
    """Why a component is not healthy; "" if it is. A component that this process knows nothing of is not reached, in kube-apiserver's words."""
    failure = call.context.component_failures.get(name)
    if failure is None:
        return f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}: connect: connection refused'
    return failure()


def _condition(*, message: str = "", error: str = "", is_healthy: bool = True) -> dict[str, str]:
    """The condition of a ComponentStatus."""
    found = {"type": "Healthy", "status": "True" if is_healthy else "False", "message": message, "error": error}
    return {name: value for name, value in found.items() if value}
