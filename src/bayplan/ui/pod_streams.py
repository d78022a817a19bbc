"""Terminals in containers, and logs that are followed: the server opens the stream of the cluster, and passes on what comes.

A terminal is a WebSocket of the page: binary messages are what is typed and what is shown, texts are JSON: `{"resize": [columns, rows]}` from the page, and
`{"ended": "why"}` to it. It ends with the page, or with the server. Only a page that may change the cluster has terminals.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, Final

import msgspec
from aiohttp import WSMsgType, web

from bayplan.api.errors import ApiError
from bayplan.client.errors import TransportError
from bayplan.client.http_streams import ExecSession, HttpStreams
from bayplan.ui.access import HEADERS
from bayplan.ui.cluster_source import ClusterSource, kind_of
from bayplan.ui.errors import RequestError
from bayplan.ui.objects import answer
from bayplan.ui.questions import named

_MOST: Final = 16
"""Terminals and followed logs at a time, each."""
_MOST_MESSAGE: Final = 1 << 16
_LARGEST_SIDE: Final = 1000
_SHELL: Final = ("/bin/sh", "-c", "TERM=xterm-256color; export TERM; [ -x /bin/bash ] && exec /bin/bash; exec /bin/sh")
_NONE: Final = "containers of this cluster cannot be reached"


class PodStreams:
    """The streams of one page's server. streams: None for a copy."""

    def __init__(self, cluster: ClusterSource, streams: HttpStreams | None, *, allow_terminals: bool) -> None:
        self._cluster = cluster
        self._streams = streams
        self._allow_terminals = allow_terminals
        self._terminals = 0
        self._logs = 0

    @property
    def are_there(self) -> bool:
        """Whether there are streams at all."""
        return self._streams is not None

    def add_routes(self, app: web.Application) -> None:
        """Serve them."""
        app.router.add_get("/api/terminal", self._terminal)
        app.router.add_get("/api/logs/follow", self._follow)

    async def stop(self) -> None:
        """Close all connections to the cluster."""
        if self._streams is not None:
            await self._streams.close()

    async def read(self, path: str, query: Mapping[str, str]) -> bytes:
        """What a path answers; over HTTP if that is there, since an API server in this process reads no logs of kubelets. Raises RequestError."""
        if self._streams is None:
            return await answer(self._cluster, path, query)
        with _refusals():
            return b"".join([piece async for piece in self._streams.text(path, query)])

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        """The log of a container, as it is written, for as long as the page reads."""
        if self._streams is None:
            raise RequestError(404, _NONE)
        if self._logs >= _MOST:
            raise RequestError(503, f"{_MOST} logs are followed already; close some")
        path = _path(self._cluster, request, "log")
        query = {"follow": "true", "tailLines": "500"}
        query |= {"container": request.query["container"]} if request.query.get("container") else {}
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/plain; charset=utf-8"})
        pieces = self._streams.text(path, query)
        self._logs += 1
        try:
            await _passed_on(pieces, request, response)
        finally:
            self._logs -= 1
            await pieces.aclose()  # type: ignore[attr-defined]
        return response

    async def _terminal(self, request: web.Request) -> web.StreamResponse:
        if not self._allow_terminals:
            raise RequestError(403, "this page is read-only; start bayplan with --allow-changes")
        if self._streams is None:
            raise RequestError(404, _NONE)
        if request.headers.get("Origin") is None:  # any other origin was refused before
            raise RequestError(403, "a terminal is opened by the page alone")
        if self._terminals >= _MOST:
            raise RequestError(503, f"{_MOST} terminals are open already; close some")
        path = _path(self._cluster, request, "exec")
        socket = web.WebSocketResponse(heartbeat=30.0, max_msg_size=_MOST_MESSAGE)
        await socket.prepare(request)
        self._terminals += 1
        try:
            ended = await self._run(socket, path, request.query.get("container", ""))
            with contextlib.suppress(ConnectionError):
                await socket.send_str(msgspec.json.encode({"ended": ended}).decode())
        finally:
            self._terminals -= 1
            await socket.close()
        return socket

    async def _run(self, socket: web.WebSocketResponse, path: str, container: str) -> str:
        """Let the page and a shell talk. Returns why that ended."""
        assert self._streams is not None
        try:
            session = await self._streams.exec(path, _SHELL, container)
        except ApiError as error:
            return error.message
        except TransportError as error:
            return str(error)
        try:
            await _first_of(_typed(socket, session), _shown(session, socket))
        finally:
            await session.close()
        return session.outcome


def _path(cluster: ClusterSource, request: web.Request, subresource: str) -> str:
    return kind_of(cluster, "Pod").path(
        named(request.query.get("namespace")), named(request.query.get("name")), subresource
    )


async def _passed_on(pieces: AsyncIterator[bytes], request: web.Request, response: web.StreamResponse) -> None:
    """Raises RequestError if nothing comes at all because the cluster refuses."""
    try:
        with _refusals():
            async for piece in pieces:
                if not response.prepared:
                    await response.prepare(request)
                await response.write(piece)
    except ConnectionError:
        return  # the page is gone
    if not response.prepared:
        await response.prepare(request)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Errors of the cluster as those of requests."""
    try:
        yield
    except ApiError as error:
        raise RequestError(error.code if error.code in (400, 403, 404) else 502, error.message) from error
    except TransportError as error:
        raise RequestError(502, str(error)) from error


async def _typed(socket: web.WebSocketResponse, session: ExecSession) -> None:
    """What the page sends, until it closes."""
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await session.send(message.data)
        elif message.type is WSMsgType.TEXT and (size := _size(message.data)) is not None:
            await session.resize(*size)


def _size(text: str) -> tuple[int, int] | None:
    """Columns and rows of a message; None if it says anything else."""
    with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
        said: dict[str, tuple[int, int]] = msgspec.json.decode(text, type=dict[str, tuple[int, int]])
        size = said.get("resize")
        if size is not None and all(0 < side <= _LARGEST_SIDE for side in size):
            return size
    return None


async def _shown(session: ExecSession, socket: web.WebSocketResponse) -> None:
    """What the shell prints, until it ends."""
    async for data in session:
        await socket.send_bytes(data)


async def _first_of(*parts: Coroutine[Any, Any, None]) -> None:
    """Until one of them has ended; the others are cancelled."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
