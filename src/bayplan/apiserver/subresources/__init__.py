"""Subresources and kinds that are only answered, one file each, in one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bayplan.api.errors import ApiError, failure, method_not_allowed
from bayplan.api.kinds import METRICS_GROUP, Subresource
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.subresources import (
    binding,
    component_statuses,
    connect,
    eviction,
    metrics,
    reviews,
    scale,
    status,
    tokens,
)

Handler = Callable[[Call], Awaitable[Response]]


class SubresourceTable:
    """Which function answers which subresource."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers

    def handle(self, call: Call) -> Awaitable[Response]:
        """Answer a request on a subresource that has a route (`check_routed`). Raises ApiError."""
        subresource = call.path.subresource
        assert subresource is not None
        handler = self._handlers.get(subresource.name)
        if handler is not None:
            return handler(call)
        raise not_served(call, f"{call.kind.plural}/{subresource.name}")

    async def handle_virtual(self, call: Call) -> Response:
        """Answer a request on a kind that is not stored."""
        if call.kind.kind == "Binding":
            return await binding.create_binding(call)
        if call.kind.kind == "ComponentStatus":
            return await component_statuses.handle(call)
        if call.kind.group == METRICS_GROUP:
            return await metrics.handle(call)
        review = reviews.REVIEWS.get(call.kind.kind)
        if review is not None:
            return await review(call)
        raise not_served(call, call.kind.group_resource)


def check_routed(call: Call, subresource: Subresource) -> None:
    """Raises ApiError (405) if the server has no route for the request's method on a subresource."""
    if not _has_route(call, subresource):
        raise method_not_allowed()


def _has_route(call: Call, subresource: Subresource) -> bool:
    """Whether the server has a route for the request's method. Proxies take any method, custom resources whatever means a verb that they have."""
    method, verb = call.request.method, call.path.verb
    if subresource.name == "proxy" and method == "OPTIONS":
        return True
    return verb in subresource.verbs and (method != "HEAD" or subresource.name == "proxy" or call.kind.is_custom)


def not_served(call: Call, what: str) -> ApiError:
    """501: the resource is known, but nothing here answers it."""
    return failure(501, "NotImplemented", f"this server does not answer {what}", kind=call.kind.plural)


SUBRESOURCES = SubresourceTable(
    {
        "status": status.handle,
        "scale": scale.handle,
        "binding": binding.handle,
        "eviction": eviction.handle,
        "token": tokens.handle,
        "finalize": status.handle,
        "approval": status.handle,
        "ephemeralcontainers": status.handle,
        "resize": status.handle,
        "log": connect.handle,
        "exec": connect.handle,
        "attach": connect.handle,
        "portforward": connect.handle,
        "proxy": connect.handle_proxy,
    }
)
