"""Subresources and kinds that are only answered, one file each, in one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bayplan.api.errors import failure, method_not_allowed, not_found_error
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.subresources import binding, eviction, scale, status

Handler = Callable[[Call], Awaitable[Response]]

_VERB_OF_METHOD = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class SubresourceTable:
    """Which function answers which subresource."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers

    async def handle(self, call: Call) -> Response:
        """Answer a request on a subresource. Raises ApiError."""
        subresource = call.path.subresource
        assert subresource is not None
        verb = _VERB_OF_METHOD.get(call.request.method, "")
        if verb not in subresource.verbs:
            raise method_not_allowed()
        handler = self._handlers.get(subresource.name)
        if handler is not None:
            return await handler(call)
        if call.entry(call.path.namespace, call.path.name) is None:
            raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
        raise failure(
            503, "ServiceUnavailable", f"{call.kind.plural}/{subresource.name} needs a node that runs containers; this one does not serve it",
            name=call.path.name, kind=call.kind.plural,
        )  # fmt: skip

    async def handle_virtual(self, call: Call) -> Response:
        """Answer a request on a kind that is not stored."""
        if call.kind.kind == "Binding":
            return await binding.create_binding(call)
        if call.kind.kind == "ComponentStatus":
            return await status.component_statuses(call)
        raise failure(501, "NotImplemented", f"this server does not answer {call.kind.group_resource}", kind=call.kind.plural)


SUBRESOURCES = SubresourceTable(
    {
        "status": status.handle,
        "scale": scale.handle,
        "binding": binding.handle,
        "eviction": eviction.handle,
        "finalize": status.handle,
        "approval": status.handle,
        "ephemeralcontainers": status.handle,
        "resize": status.handle,
    }
)
