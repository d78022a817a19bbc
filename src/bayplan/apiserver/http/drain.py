"""The end of the HTTP server: every request that has come is answered before its connection is closed.

Source: kube-apiserver's graceful termination (`genericapiserver.go`, `filters/with_retry_after.go`, `filters/waitgroup.go`).

    the listening socket closes -> each connection gets `Connection: close` with its next answer, and is closed when the client has closed it
    nothing is left to answer   -> watches and relays end
    a connection is idle        -> it is closed after a moment, in which its client may be sending
    too much time has passed    -> what is left is cut off

With `shutdown_send_retry_after` the socket closes after the second step.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bayplan.api.errors import failure
from bayplan.apiserver.http.connections import ConnectionServer
from bayplan.apiserver.http.listener import Listener
from bayplan.apiserver.refusals import error_response
from bayplan.apiserver.request_info import is_below
from bayplan.apiserver.requests import TEXT, Request, Response
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_STEP_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 1.0
"""How long an idle connection may still bring a request: from the end of the last answer, or from the beginning of the end."""
_FAREWELL_SECONDS: Final = 0.1
"""For clients to answer the end of TLS; who does not would keep the connection open."""
_EXEMPT_FROM_RETRY_AFTER: Final = ("/readyz", "/livez", "/healthz", "/metrics")


async def drain(
    listener: Listener,
    connections: ConnectionServer,
    clock: Clock,
    *,
    most_seconds: float,
    listens_on: bool,
    end_long_running: Callable[[], Awaitable[None]],
) -> None:
    """Close all connections, each when nothing is left to answer on it, within `most_seconds`.

    listens_on: whether new connections are accepted until the requests that have come are answered. end_long_running: ends watches and relays.
    """
    began = clock.now()
    ends = began + most_seconds
    closed_at = float("inf")
    if not listens_on:
        listener.close()
        closed_at = began

    async def until(is_done: Callable[[], bool]) -> None:
        while not is_done() and (now := clock.now()) < ends:
            if now - closed_at >= _IDLE_SECONDS:
                listener.abort()
            if now - began >= _IDLE_SECONDS:
                for one in connections.all():
                    one.close_idle(now - _IDLE_SECONDS)
            await clock.sleep(_STEP_SECONDS)

    await until(lambda: not any(one.is_busy and not one.is_long_running for one in connections.all()))
    if listens_on:
        listener.close()
        closed_at = clock.now()
    await end_long_running()
    await until(lambda: not listener.has_handshakes and all(one.transport is None for one in connections.all()))
    listener.abort()
    if left := connections.all():
        await clock.sleep(_FAREWELL_SECONDS)
        if cut_off := sum(one.is_busy and one.transport is not None for one in left):
            logger.warning("%d requests were not answered in time, and are cut off", cut_off)
        connections.end()


def refusal_while_draining(request: Request, settings: ApiServerSettings) -> Response | None:
    """What a request gets that comes while the server ends; None if it is answered as ever."""
    if settings.shutdown_send_retry_after and not is_below(request.path, _EXEMPT_FROM_RETRY_AFTER):
        headers = {"Retry-After": "5", "X-Content-Type-Options": "nosniff"}
        return Response(429, _COME_BACK, TEXT, headers, is_final=True)
    if not request.info.is_long_running:
        return None
    refusal = error_response(failure(503, "ServiceUnavailable", "apiserver is shutting down", details=False))
    refusal.headers |= {"Retry-After": "1", "X-Content-Type-Options": "nosniff"}
    return refusal


_COME_BACK: Final = b"The apiserver is shutting down, please try again later.\n"
