"""A simple response over HTTP (JSON, whole, without headers of its own) as one piece of bytes: a third of the cost of aiohttp's general way."""

from __future__ import annotations

import asyncio
import functools
from email.utils import formatdate
from http.client import responses
from math import floor
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from bayplan.apiserver.requests import CHECK_HEADERS, JSON, TEXT, Request, Response

_SMALL = 1 << 16
"""Bytes of a body, and of what a connection may still have to send, up to which nobody needs to wait for the client."""
_JSON_LINES: Final = f"Content-Type: {JSON}\r\n".encode()
_CHECK_LINES: Final = "".join(
    f"{name}: {value}\r\n" for name, value in {"Content-Type": TEXT, **CHECK_HEADERS}.items()
).encode()
_READ_BY_PEOPLE = ("curl", "Wget", "Mozilla/5.0")


def simple_response(http: web.BaseRequest, request: Request, response: Response, now: float) -> SimpleResponse | None:
    """The response, if it and its request are simple ones; None if it has to go aiohttp's way. `now`: Unix seconds."""
    transport = http.transport
    if http.version != HttpVersion11 or not http.keep_alive or http.method == "HEAD" or transport is None:
        return None
    data = simple_response_bytes(request, response, transport, now)
    return SimpleResponse(response.code, data) if data is not None else None


def simple_response_bytes(
    request: Request, response: Response, transport: asyncio.Transport, now: float
) -> bytes | None:
    """A simple response to a request of HTTP 1.1 whose connection goes on, from the status line to the end; None if it is not a simple one."""
    unread, flow = transport.get_write_buffer_size(), response.flow
    if is_simple(request, response, unread):
        body, kind = simple_body(response), _JSON_LINES
    elif _is_check(response, unread):
        body, kind = response.body, _CHECK_LINES
    else:
        return None
    head = _head(response.code, kind, flow.head if flow is not None else b"")
    return b"%b%b\r\nContent-Length: %d\r\n%b%b" % (
        *(head, response.audit_id.encode(), len(body)),
        *(_date(floor(now)), body),
    )


def is_simple(request: Request, response: Response, unread: int) -> bool:
    """Whether a response is a simple one. unread: bytes that the client has not taken yet."""
    return not (
        response.content_type != JSON
        or response.headers
        or response.warnings
        or response.is_final
        or not 0 < len(response.body) < _SMALL
        or unread > _SMALL
        or wants_pretty(request)
    )


def _is_check(response: Response, unread: int) -> bool:
    """Whether a response is that of a health check: a short text. unread: see `is_simple`."""
    return (
        response.content_type == TEXT
        and response.headers == CHECK_HEADERS
        and not response.warnings
        and 0 < len(response.body) < _SMALL
        and unread <= _SMALL
    )


def simple_body(response: Response) -> bytes:
    """The body of a simple response as it is sent."""
    body = response.body
    return body + b"\n" if body[:1] == b"{" else body


def with_close(data: bytes) -> bytes:
    """An answer, from the status line on, after which the connection is closed."""
    return data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


def wants_pretty(request: Request) -> bool:
    """Whether JSON is to be indented: asked for with `pretty`, also of a media type, or for tools that people look at."""
    value = request.query.get("pretty")
    if "pretty=1" in request.accept:
        return True
    return value.lower() in ("1", "t", "true") if value else request.user_agent.startswith(_READ_BY_PEOPLE)


class SimpleResponse(web.StreamResponse):
    """Bytes that are an answer from the status line on."""

    def __init__(self, status: int, data: bytes) -> None:
        super().__init__(status=status)
        self.data = data

    @property
    def keep_alive(self) -> bool:
        """Whether the connection goes on; clients that want it closed get another kind of answer, so that only the server may want that."""
        return self._keep_alive is not False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send everything. Raises ConnectionResetError if the client has gone."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone")
        transport.write(self.data if self.keep_alive else with_close(self.data))
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""


class LastResponse(SimpleResponse):
    """Bytes that are an answer from the status line on, and say that it is the last one."""

    @property
    def keep_alive(self) -> bool:
        """Never."""
        return False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send everything. Raises ConnectionResetError if the client has gone."""
        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError("the client has gone")
        request.transport.write(self.data)
        return None


@functools.lru_cache(maxsize=1024)
def _head(status: int, kind: bytes, flow: bytes) -> bytes:
    """kind: headers that say what the body is; flow: those that say what priority and fairness made of the request."""
    first = f"HTTP/1.1 {status} {responses.get(status, '')}\r\n".encode()
    return first + kind + flow + b"Cache-Control: no-cache, private\r\nAudit-Id: "


@functools.lru_cache(maxsize=4)
def _date(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n\r\n".encode()
