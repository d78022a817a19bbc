"""One stream: the request that its frames bring, and its response.

A stream stands where `HttpServer` finds the connection of a request, and for aiohttp's requests where they find their protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import HttpVersion, web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler
from h2.errors import ErrorCodes
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from bayplan.apiserver.authentication.client_certificates import Certified
from bayplan.apiserver.http.headers import ParsedHeaders
from bayplan.apiserver.http.http2.fields import Field, RequestFields
from bayplan.apiserver.http.http2.output import StreamOutput, StreamWriter
from bayplan.apiserver.requests import Request, Response

if TYPE_CHECKING:
    from bayplan.apiserver.http.http2.connection import Http2Connection

_VERSION: Final = HttpVersion(2, 0)
_AHEAD: Final = 1 << 16
"""Bytes of a body that are held before the client has to wait for them to be read; twice as many come at most."""


class Http2Stream:
    """A request from its header fields to the end of its response."""

    __slots__ = (
        "_answered",
        "_body",
        "_reading_paused",
        "_unacknowledged",
        "body",
        "connection",
        "fields",
        "is_complete",
        "is_held",
        "is_long_running",
        "key",
        "length",
        "output",
        "since",
        "task",
        "unanswered",
    )

    def __init__(self, connection: Http2Connection, stream_id: int, fields: Sequence[Field], since: float) -> None:
        """since: when it came (seconds of the connection's clock)."""
        self.connection = connection
        self.fields = fields
        self.output = StreamOutput(connection.sender, stream_id)
        self.since = since
        self.key = b""
        """By which its header fields may be remembered; b"" if they may not."""
        self.length: int | None = None
        """Bytes of the body, if the client has said that."""
        self.body = b""
        """What has come of the body before the request was taken up."""
        self.is_complete = False
        """Whether the body has come whole."""
        self.is_held = False
        """Whether it waits to be taken up (see `intake`)."""
        self.is_long_running = False
        """Whether the request lasts until its client or the server ends it."""
        self.task: asyncio.Task[None] | None = None
        """Which answers the request."""
        self.unanswered: Request | None = None
        """The request, while it is answered on the fast path."""
        self._answered: tuple[Request, Response] | None = None
        self._body: StreamReader | None = None
        self._reading_paused = False
        self._unacknowledged = 0

    @property
    def stream_id(self) -> int:
        """The number of the stream."""
        return self.output.stream_id

    # What aiohttp's requests and bodies read of their protocol.

    @property
    def transport(self) -> asyncio.Transport | None:
        """The sending side, as a transport."""
        return self.output

    @property
    def connected(self) -> bool:
        """See BaseProtocol."""
        return not self.output.is_done

    @property
    def ssl_context(self) -> Any:
        """See RequestHandler."""
        return self.output.get_extra_info("sslcontext")

    @property
    def peername(self) -> Any:
        """See RequestHandler."""
        return self.output.get_extra_info("peername")

    @property
    def sockname(self) -> Any:
        """See RequestHandler."""
        return self.output.get_extra_info("sockname")

    def pause_reading(self) -> None:
        """See BaseProtocol: the client's window of this stream stays as it is."""
        self._reading_paused = True

    def resume_reading(self, resume_parser: bool = True) -> None:
        """See BaseProtocol."""
        self._reading_paused = False
        if self._unacknowledged:
            size, self._unacknowledged = self._unacknowledged, 0
            self.connection.acknowledge(self.stream_id, size)

    # What the server sees of the connection of a request: see `Exchange`.

    @property
    def certified(self) -> Certified | None:
        """What the certificate of the client is good for."""
        return self.connection.certified

    @certified.setter
    def certified(self, found: Certified | None) -> None:
        self.connection.certified = found

    @property
    def has_spoken(self) -> bool:
        """Whether a request has come on the connection."""
        return self.connection.has_spoken

    @has_spoken.setter
    def has_spoken(self, value: bool) -> None:
        self.connection.has_spoken = value

    @property
    def user(self) -> str | None:
        """Whose requests come on the connection."""
        return self.connection.user

    @user.setter
    def user(self, value: str | None) -> None:
        self.connection.user = value

    def take_answered(self) -> tuple[Request, Response] | None:
        """See Exchange."""
        answered, self._answered = self._answered, None
        return answered

    def learn(self, head: ParsedHeaders) -> None:
        """See Exchange."""
        if self.key:
            self.connection.handler.header_cache.put(self.key, head, 2 * len(self.key))

    def expect_body(self) -> None:
        """See Exchange."""
        if not self.output.is_done and not self.is_complete:
            self.connection.sender.send_fields(self.stream_id, [(b":status", b"100")], ends=False)

    def bad_request(self) -> web.StreamResponse:
        """See Exchange: a body that breaks off takes its stream with it."""
        self.output.abort()
        return web.Response(status=400)

    # What the connection does with it.

    def answered_by(self, request: Request, response: Response) -> None:
        """The request has been answered on the fast path, with a response that has to be sent on the slow one."""
        self._answered = request, response

    def feed(self, data: bytes, size: int) -> None:
        """Bytes of the body. size: what they take of the client's windows."""
        if self._body is None:
            self.body += data
            self.connection.acknowledge(self.stream_id, size)
            return
        self._body.feed_data(data)
        if self._reading_paused:
            self._unacknowledged += size
        else:
            self.connection.acknowledge(self.stream_id, size)

    def complete(self) -> None:
        """The body has come whole."""
        self.is_complete = True
        if self._body is not None:
            self._body.feed_eof()

    def request(self, given: RequestFields, loop: asyncio.AbstractEventLoop) -> web.BaseRequest:
        """The request as aiohttp would have it. To be called in its task."""
        headers = CIMultiDictProxy(CIMultiDict(given.headers))
        url = URL(given.target, encoded=True)
        message = RawRequestMessage(given.method, given.target, _VERSION, headers, (), False, None, False, False, url)
        protocol = cast("RequestHandler", self)
        payload: StreamReader = EMPTY_PAYLOAD
        if self.body or not self.is_complete:
            payload = self._body = StreamReader(protocol, _AHEAD, loop=loop)
            data, self.body = self.body, b""
            if data:
                payload.feed_data(data)
            if self.is_complete:
                payload.feed_eof()
        writer = StreamWriter(self.connection.sender, self.output)
        task = asyncio.current_task()
        assert task is not None
        return web.BaseRequest(message, payload, protocol, writer, task, loop)

    def lost(self) -> None:
        """The client has ended the stream, or the connection."""
        self.output.finished()
        if self._body is not None and not self.is_complete:
            self._body.set_exception(ConnectionResetError("the client has gone"))
        if self.unanswered is not None:
            self.connection.handler.abandon(self.unanswered)
        answered = self.take_answered()
        if answered is not None:
            discard(answered[1])
        if self.is_long_running and self.task is not None:
            self.task.cancel()  # a watch, or what is passed on; all else goes on to its end, whoever reads that


def discard(response: Response) -> None:
    """Nobody is there for a response."""
    if response.watcher is not None:
        response.watcher.close()
    elif response.relay is not None:
        response.not_relayed()


RESET_AFTER_RESPONSE: Final = ErrorCodes.NO_ERROR
"""Says that the rest of a request's body is not wanted: the response is there."""
