"""`status`, the part of an object that its controller writes, and the other subresources that take the whole object and let one part of it
change (`approval`, `ephemeralcontainers`, `finalize`, `resize`): what may change is up to the kind's strategy."""

from __future__ import annotations

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
