"""A connection of a client: aiohttp's, with a short way for requests like those that aiohttp has read before.

Clients send the same headers with each request, but for `Content-Length`. So a request that comes whole, on a connection that waits for one, and whose headers
are known byte for byte needs no parser: only its first line is looked at. All others go aiohttp's way, which teaches the short way their headers:

    data -> known headers:  Desk.answer -> its bytes to the transport
         -> anything else:  aiohttp's parser, tasks and `HttpServer._handle`

An answer that is not a usual one (large, with warnings, a stream) goes out aiohttp's way as well: aiohttp gets the bytes of the request, and the answer waits
for it. That leaves the short way with nothing to decide: what it does not take for certain is not its business.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from multidict import MultiDict, MultiDictProxy

from bayplan.apiserver.http_answer import usual_bytes
from bayplan.apiserver.requests import Impersonation, Request, Response, User

_LINE = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[\w/.:-]*)(?:\?([\w=&.:-]*))? HTTP/1\.1(?=\r\n)", re.ASCII)
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?(\d{1,9})(?=\r\n)")
_OWN_WAYS = re.compile(
    rb"\r\n(?:connection[ \t]*:(?! keep-alive\r\n)|"
    rb"(?:content-encoding|content-length|expect|proxy-connection|te|trailer|transfer-encoding|upgrade)[ \t]*:)",
    re.IGNORECASE,
)
"""Headers that say how a request or its connection is to be taken."""
_LONGEST_BLOCK = 8 << 10
_MOST_BLOCKS = 1000
"""Blocks of headers that are remembered, and their bytes."""


class Head(NamedTuple):
    """What a block of headers says."""

    authorization: str
    content_type: str
    accept: str
    user_agent: str
    impersonation: Impersonation | None
    forwarded_for: str = ""
    real_ip: str = ""


class Heads:
    """The blocks of headers that aiohttp has read, from the end of the first line to the empty one, without `Content-Length`."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}
        self.of = self._known.get

    def learn(self, block: bytes, head: Head) -> None:
        """Remember a block."""
        if len(self._known) >= _MOST_BLOCKS:
            self._known.clear()
        self._known[block] = head


class Desk(Protocol):
    """Who answers requests."""

    heads: Heads

    def request(
        self, connection: Connection, head: Head, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> Request | Response:
        """A request as the API server wants it, or what its sender gets instead."""

    async def answer(self, request: Request) -> Response:
        """Answer a request."""

    def now(self) -> float:
        """Unix seconds."""


class Connection(RequestHandler):
    """See the module. Between two requests it is at rest; the first bytes then decide which way the next request takes."""

    __slots__ = (
        "_ahead",
        "_answered",
        "_at_rest",
        "_block",
        "_desk",
        "_held",
        "_task",
        "has_spoken",
        "rests_since",
        "user",
    )

    def __init__(self, manager: web.Server, desk: Desk, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._desk = desk
        self._at_rest = True
        """Whether no request is being read or answered, and aiohttp's parser is at the beginning of one."""
        self._ahead: int | None = None
        """Bytes of the request in aiohttp's hands that have not come; None if that cannot be told: then all others go its way too."""
        self._block = b""
        """The headers of the request in aiohttp's hands, if they are worth learning."""
        self._answered: tuple[Request, Response] | None = None
        """What aiohttp is to send in answer to the request that it gets."""
        self._task: asyncio.Task[None] | None = None
        """Answers the present request in the short way."""
        self._held = b""
        """What came while it did."""
        self.has_spoken = False
        """Whether a request has come."""
        self.user: User | None = None
        """The user of the client's certificate; known once a request has come."""
        self.rests_since: float | None = desk.now()
        """When the last request was answered (Unix seconds); None while there is one."""

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._task is not None:
            if data:
                self._held += data
                if self.transport is not None:
                    self.transport.pause_reading()
            return
        if self._at_rest and data:
            self._at_rest = False
            if self._take(data):
                return
            self._look(data)
        elif self._ahead is not None:
            if len(data) <= self._ahead:
                self._ahead -= len(data)
            else:
                self._ahead, self._block = None, b""
        super().data_received(data)

    def _take(self, data: bytes) -> bool:
        """Begin to answer in the short way, if that can be done."""
        line = _LINE.match(data)
        end = data.find(b"\r\n\r\n")
        if line is None or end < 0:
            return False
        block, size = _block(data, line.end(), end)
        head = self._desk.heads.of(block)
        if head is None or len(data) != end + 4 + size:
            return False
        method, path, query = line.groups()
        request = self._desk.request(
            self, head, method.decode(), path.decode(), _query(query) if query else NO_QUERY, data[end + 4 :]
        )
        if isinstance(request, Response):
            return False
        if request.origin is not None:
            request.origin.uri = data[line.start(2) : line.end() - len(b" HTTP/1.1")].decode()
        self.rests_since = None
        self._task = self._loop.create_task(self._serve(data, request))
        return True

    def _look(self, data: bytes) -> None:
        """See how long the request is that aiohttp gets, and whether its headers can be learnt."""
        self._ahead, self._block = None, b""
        start, end = data.find(b"\r\n"), data.find(b"\r\n\r\n")
        if end < 0:
            return
        block, size = _block(data, start, end)
        ahead = end + 4 + size - len(data)
        if ahead >= 0 and not _OWN_WAYS.search(block + b"\r\n"):
            self._ahead = ahead
            if len(block) <= _LONGEST_BLOCK:
                self._block = block

    async def _serve(self, data: bytes, request: Request) -> None:
        """Answer in the short way."""
        try:
            response = await self._desk.answer(request)
        except BaseException:
            self.force_close()  # nobody else would tell the client
            raise
        finally:
            self._task = None
        transport = self.transport
        if transport is not None and not transport.is_closing():
            now = self._desk.now()
            usual = usual_bytes(request, response, transport, now)
            if usual is not None:
                transport.write(usual)
                self._rest(now)
            else:
                self._answered = request, response
                self._look(data)
                super().data_received(data)
        elif response.watcher is not None:
            response.watcher.close()
        elif response.trail is not None:
            response.trail.ended()
        if self._held:
            held, self._held = self._held, b""
            if self.transport is not None:
                self.transport.resume_reading()
                self.data_received(held)

    def _rest(self, now: float) -> None:
        """The request is answered. now: Unix seconds."""
        self._at_rest = True
        self.rests_since = now

    def learn(self, head: Head) -> None:
        """Remember the headers of the request in aiohttp's hands, which has come whole and says this."""
        if self._block and self._ahead == 0:
            self._desk.heads.learn(self._block, head)
            self._block = b""

    def take_answered(self) -> tuple[Request, Response] | None:
        """To be called when aiohttp has read a request: that and its answer, if it has been answered already."""
        self.rests_since = None
        answered, self._answered = self._answered, None
        return answered

    async def finish_response(self, *arguments: Any, **options: Any) -> tuple[web.StreamResponse, bool]:
        """Send the answer to the request in aiohttp's hands."""
        result = await super().finish_response(*arguments, **options)
        self._block = b""
        if self._ahead == 0 and result[0].keep_alive:
            self._rest(self._desk.now())
        else:
            self._ahead = None
            self.rests_since = self._desk.now()
        return result

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109
        """Let the present request finish, then close."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout)
        await super().shutdown(timeout)


class ConnectionServer(web.Server):
    """Makes a `Connection` for each client."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], desk: Desk, **settings: Any) -> None:
        super().__init__(handler)
        self._desk = desk
        self._settings = settings

    def __call__(self) -> RequestHandler:
        """The protocol of a new connection."""
        return Connection(self, self._desk, loop=asyncio.get_running_loop(), **self._settings)


NO_QUERY: Mapping[str, str] = {}


@functools.lru_cache(maxsize=256)
def _query(text: bytes) -> Mapping[str, str]:
    """The parameters of a query in which nothing is escaped."""
    pairs = (pair.partition("=") for pair in text.decode().split("&") if pair)
    return MultiDictProxy(MultiDict((name, value) for name, _, value in pairs))


def _block(data: bytes, start: int, end: int) -> tuple[bytes, int]:
    """The headers of a request without `Content-Length`, and what that says."""
    length = _LENGTH.search(data, start, end + 2)
    if length is None:
        return data[start:end], 0
    return data[start : length.start()] + data[length.end() : end], int(length[1])
