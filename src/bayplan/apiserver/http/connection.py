"""A connection of a client: aiohttp's, with a fast path for requests like those that aiohttp has read before.

Clients send the same headers with each request, but for `Content-Length`. So a request that comes whole, on a connection that waits for one, and whose headers
are known byte for byte needs no parser: only its first line is looked at. All others go aiohttp's way, which teaches the fast path their headers:

    data -> known headers:  ApiHandler.answer_at_once, or `answer` in a task -> its bytes to the transport
         -> anything else:  aiohttp's parser, tasks and `HttpServer._handle`

A response that is not a simple one (large, with warnings, a stream) goes out aiohttp's way as well: aiohttp gets the bytes of the request, and the answer waits
for it. That leaves the fast path with nothing to decide: what it does not take for certain is not its business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from bayplan.apiserver.authentication.client_certificates import Certified
from bayplan.apiserver.http.answer import LastResponse, simple_response_bytes, with_close
from bayplan.apiserver.http.exchange import Peer
from bayplan.apiserver.http.head import PARSED_METHODS, ChunkedBody, Refusal, read_head, refusal_of_beginning
from bayplan.apiserver.http.headers import (
    LINE,
    LONGEST_BLOCK,
    NO_QUERY,
    OWN_WAYS,
    HeaderCache,
    ParsedHeaders,
    block_of,
    query_of,
)
from bayplan.apiserver.http.intake import Intake, user_of
from bayplan.apiserver.http.listener import has_input, peer_of
from bayplan.apiserver.requests import Request, Response

logger = logging.getLogger(__name__)

_WORTH_READING: Final = 256 << 10
"""Bytes of a body that are read and dropped after the answer to keep the connection, as in Go."""
_LINGER_SECONDS: Final = 0.5
"""For a client to close after the last answer, as in Go."""


class ApiHandler(Protocol):
    """Answers the requests of connections."""

    header_cache: HeaderCache
    intake: Intake
    """Says which requests are taken up at once."""
    is_draining: bool
    """Whether the server ends: each connection closes after its next answer."""

    def request(
        self, connection: Peer, head: ParsedHeaders, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> Request | Response:
        """A request as the API server wants it, or what its sender gets instead."""

    def answer_at_once(self, request: Request) -> Response | None:
        """Answer a request that waits for nothing; None if it may have to wait: then `answer` answers it."""

    def answer(self, request: Request) -> Awaitable[Response]:
        """Answer a request."""

    def named(self, response: Response) -> Response:
        """The response with the name under which clients and the audit log know its request."""

    @property
    def is_behind(self) -> bool:
        """Whether other processes have written something that is not known here yet, which may say who the user is."""

    def abandon(self, request: Request) -> None:
        """The client of a request that is not answered has gone."""

    def now(self) -> float:
        """Unix seconds."""

    @property
    def answer_timeout(self) -> float:
        """Seconds that a client may take to read an answer."""


class Connection(RequestHandler):
    """See the module. aiohttp's parser gets one request at a time; what a client sends ahead is held back until the present one is answered."""

    __slots__ = (
        "_answered",
        "_at_rest",
        "_block",
        "_body_left",
        "_discards",
        "_handler",
        "_held",
        "_is_answered",
        "_is_complete",
        "_is_tunnel",
        "_lost",
        "_partial",
        "_task",
        "_unanswered",
        "certified",
        "has_spoken",
        "head_since",
        "is_long_running",
        "method",
        "rests_since",
        "user",
    )

    def __init__(self, manager: web.Server, handler: ApiHandler, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._handler = handler
        self._at_rest = True
        """Whether no request is being read or answered, and aiohttp's parser is at the beginning of one."""
        self._partial = bytearray()
        """The beginning of a head whose end has not come."""
        self._body_left: int | ChunkedBody = 0
        """What has not come of the body of the request in aiohttp's hands: its bytes, or how its end is found."""
        self._is_complete = False
        """Whether the request in aiohttp's hands has come whole."""
        self._is_answered = False
        """Whether the request in aiohttp's hands has been answered before it had come whole."""
        self._is_tunnel = False
        """Whether the connection may go on in another protocol: then all that comes is aiohttp's."""
        self._block = b""
        """The headers of the request in aiohttp's hands, if they are worth learning."""
        self._answered: tuple[Request, Response] | None = None
        """What aiohttp is to send in answer to the request that it gets."""
        self._unanswered: Request | None = None
        """The request that is answered on the fast path."""
        self._task: asyncio.Task[None] | None = None
        """The task that answers the present request on the fast path."""
        self._held = b""
        """What came after the present request; nothing more is read while there is something."""
        self._discards = False
        """Whether the last answer has been sent: what comes now is read and dropped, so that the client is not reset before it has read that."""
        self._lost: asyncio.Future[None] | None = None
        """Done when the client has closed, for who waits for that."""
        self.has_spoken = False
        """Whether a request has come."""
        self.is_long_running = False
        """Whether the present request is one that lasts until its client or the server ends it."""
        self.method: str | None = None
        """The method of the request in aiohttp's hands, if it is one that aiohttp's parser does not take; the parser gets POST in its place."""
        self.certified: Certified | None = None
        """What the client's certificate is good for; known once a request has come."""
        self.rests_since: float | None = handler.now()
        """When the last request was answered (Unix seconds); None while there is one."""
        self.head_since: float | None = None
        """When the first byte of a head came whose end has not come (Unix seconds); None if there is no such head."""
        self.user: str | None = None
        """Whose requests the connection brings (see `user_of`); None if they are taken up as they come."""

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._discards:
            return
        if not data or self._is_tunnel:
            super().data_received(data)
        elif self._at_rest:
            user = self.user
            if user is None or self._handler.intake.try_take(user):
                self._take_up(data)
            else:
                self._at_rest, self._is_complete, self._held = False, True, data
                self._handler.intake.wait(user, self._take_up_held)
        elif self._is_complete:
            self._hold(data)
        else:
            self._feed(data)

    def _take_up(self, data: bytes) -> None:
        """Begin with the next request."""
        if self._partial or not self._take(data):
            self._begin(data)

    def _take_up_held(self) -> None:
        """Begin with the request that has waited for that, unless its client has gone."""
        held, self._held = self._held, b""
        if self.transport is None or self._discards:
            return
        self._at_rest, self._is_complete = True, False
        if not (self._reading_paused or self._buffer_paused):
            self._resume_transport_reading()
        self._take_up(held)

    def _hold(self, data: bytes) -> None:
        self._held += data
        self._pause_transport_reading()

    def _take(self, data: bytes) -> bool:
        """Begin to answer on the fast path, if that can be done."""
        line = LINE.match(data)
        end = data.find(b"\r\n\r\n")
        if line is None or end < 0 or self._handler.is_draining or self._handler.is_behind:
            return False
        block, size = block_of(data, line.end(), end)
        head = self._handler.header_cache.get(block)
        if head is None or len(data) != end + 4 + size:
            return False
        method, path, query = line.groups()
        request = self._handler.request(
            self, head, method.decode(), path.decode(), query_of(query) if query else NO_QUERY, data[end + 4 :]
        )
        if isinstance(request, Response):
            return False
        if request.origin is not None:
            request.origin.uri = data[line.start(2) : line.end() - len(b" HTTP/1.1")].decode()
        self._at_rest = False
        self.rests_since = None
        self._is_complete = True
        response = self._handler.answer_at_once(request)
        if response is not None and not request.info.is_resource:
            self._send(data, request, response)  # a health check, which whatever else has come does not hold up
        elif response is not None:
            # not now: each response wakes its client, and what else has come would wait behind that
            self._loop.call_soon(self._send, data, request, response)
        else:
            self._unanswered = request
            self._task = self._loop.create_task(self._serve(data, request))
        return True

    def _begin(self, data: bytes) -> None:
        """Read a head, which may come in pieces, and let aiohttp have the request if nothing is wrong with that."""
        partial = self._partial
        if not partial and data[:2] == b"\r\n":
            data = data.lstrip(b"\r\n")  # which old clients send after a body
            if not data:
                return
        seen = len(partial)  # and not looked at again, however small the pieces are
        partial += data
        end = partial.find(b"\r\n\r\n", max(0, seen - 3))
        if end < 0:
            if self.head_since is None:
                self.head_since = self._handler.now()
            if refusal := refusal_of_beginning(partial, seen):
                self._refuse(refusal)
            return
        data = bytes(partial) if seen else data
        self._partial, self.head_since = bytearray(), None
        head = read_head(data[:end])
        if isinstance(head, Refusal):
            self._refuse(head)
            return
        self._at_rest, self.rests_since = False, None
        if head.is_ping:
            self._pong(data[end + 4 :])
            return
        self._is_tunnel = head.upgrades
        self._body_left = ChunkedBody() if head.length is None else head.length
        self._block = b""
        block, _ = block_of(data, data.find(b"\r\n"), end)
        if len(block) <= LONGEST_BLOCK and not OWN_WAYS.search(block + b"\r\n"):
            self._block = block
        self._pass_on(data[: end + 4], data[end + 4 :])

    def _pass_on(self, head: bytes, body: bytes) -> None:
        """Let aiohttp have the head of a request, and as much of the body as has come."""
        method, _, rest = head.partition(b" ")
        self.method = None
        if method not in PARSED_METHODS:
            self.method, head = method.decode(), b"POST " + rest
        if self._is_tunnel:
            super().data_received(head + body)
        elif body or self._body_left != 0:
            self._feed(body, head)
        else:
            self._is_complete = True
            super().data_received(head)

    def _feed(self, data: bytes, head: bytes = b"") -> None:
        """Let aiohttp have what belongs to the present request, and hold back the rest."""
        left = self._body_left
        if isinstance(left, ChunkedBody):
            try:
                end = left.feed(data)
            except ValueError as error:
                if self._break_off(error):
                    return
                end = -1  # aiohttp's parser says the same
        elif len(data) < left:
            self._body_left, end = left - len(data), -1
        else:
            self._body_left, end = 0, left
        own, rest = (data, b"") if end < 0 else (data[:end], data[end:])
        self._is_complete = end >= 0
        if rest:
            self._hold(rest)
        super().data_received(head + own if head else own)
        if self._is_complete and self._is_answered:
            self._rest(self._handler.now())

    def _break_off(self, error: ValueError) -> bool:
        """End the wait for the present request's body, whose chunks are none, which aiohttp's parser does not. False if aiohttp does not have its head yet."""
        if self._current_request is not None:
            body = self._current_request.content
        elif self._messages:
            body = self._messages[-1][1]
        else:
            return False
        body.set_exception(RequestPayloadError(str(error)))
        return True

    def _pong(self, rest: bytes) -> None:
        """Answer `OPTIONS *` as Go does. rest: what came after its head."""
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")  # type: ignore[union-attr]
        self._at_rest, self._is_complete = False, True
        self._held = rest
        self._loop.call_soon(self._rest, self._handler.now())

    def _refuse(self, refusal: Refusal) -> None:
        """Answer what is no request that can be read, and close. Nothing of it is logged: it may hold credentials."""
        logger.warning("a request from %s is refused: %s", peer_of(self.transport), refusal.text)
        self._at_rest, self._partial, self.head_since = False, bytearray(), None
        if self.transport is not None:
            self.transport.write(refusal.answer())
            self._task = self._loop.create_task(self.linger())

    async def _serve(self, data: bytes, request: Request) -> None:
        """Answer on the fast path."""
        try:
            response = await self._handler.answer(request)
        except BaseException:
            self.force_close()  # nobody else would tell the client
            raise
        finally:
            self._task = self._unanswered = None
        self._send(data, request, response)

    def _send(self, data: bytes, request: Request, response: Response) -> None:
        """Send the response to the request that these bytes are."""
        transport = self.transport
        if transport is None or transport.is_closing():
            if response.watcher is not None:
                response.watcher.close()
            elif response.relay is not None:
                response.not_relayed()
            return
        now = self._handler.now()
        self.user = user_of(request, response)
        simple = simple_response_bytes(request, self._handler.named(response), transport, now)
        if simple is None:
            self._answered = request, response
            end = data.find(b"\r\n\r\n")
            self._block, self._body_left = b"", len(data) - end - 4
            self._pass_on(data[: end + 4], data[end + 4 :])
        elif self.closes_after_answer:
            transport.write(with_close(simple))
            self._task = self._loop.create_task(self.linger())
        else:
            transport.write(simple)
            self._rest(now)

    def _rest(self, now: float) -> None:
        """The request is answered and has come whole. now: Unix seconds."""
        self._at_rest, self._is_complete, self._is_answered, self.is_long_running = True, False, False, False
        self.rests_since = now
        if self._held:
            held, self._held = self._held, b""
            if not (self._reading_paused or self._buffer_paused):
                self._resume_transport_reading()
            self.data_received(held)

    @property
    def closes_after_answer(self) -> bool:
        """Whether the present answer is the last one: the server ends, and the client has sent nothing more."""
        return self._handler.is_draining and not self._held

    @property
    def is_busy(self) -> bool:
        """Whether a request, or a part of one, has come and is not answered."""
        return not (self._at_rest or self._discards) or bool(self._partial)

    def learn(self, head: ParsedHeaders) -> None:
        """Remember the headers of the request in aiohttp's hands, which has come whole and says this."""
        if self._block and self._is_complete:
            self._handler.header_cache.put(self._block, head, 2 * len(self._block))
            self._block = b""

    def take_answered(self) -> tuple[Request, Response] | None:
        """To be called when aiohttp has read a request: that and its answer, if it has been answered already."""
        answered, self._answered = self._answered, None
        return answered

    def expect_body(self) -> None:
        """See Exchange."""
        if self.transport is not None:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer to the request in aiohttp's hands, and close the connection if it is not to go on."""
        if self.closes_after_answer or self._is_tunnel or not self._is_drained_soon():
            resp.force_close()  # also if the protocol has not changed: nobody has followed where the request ends
        try:
            async with asyncio.timeout(self._handler.answer_timeout):
                result = await super().finish_response(request, resp, start_time)
        except TimeoutError:  # the client does not read
            if self.transport is not None:
                self.transport.abort()
            return resp, True
        self._block = b""
        if result[1] or (self._is_tunnel and resp.status == HTTPStatus.SWITCHING_PROTOCOLS):
            self.rests_since = self._handler.now()
        elif resp.keep_alive and self._is_complete:
            self._rest(self._handler.now())
        elif resp.keep_alive:
            self._is_answered = True  # the next request may come once the present one has come whole
        elif self._handler.is_draining or self._held or not self._is_complete:
            await self.linger()
        return result

    def _is_drained_soon(self) -> bool:
        """Whether little enough of the present request's body is still to come that the connection is worth keeping, as in Go."""
        left = self._body_left
        return self._is_complete or (not isinstance(left, ChunkedBody) and left <= _WORTH_READING)

    async def linger(self) -> None:
        """Close once the client has done so, or after a moment: who closes while bytes of the client are on their way resets the connection, and what the
        client has not read is lost."""
        transport = self.transport
        self._discards, self._held = True, b""
        if transport is None:
            return
        self._resume_transport_reading()
        if transport.can_write_eof():
            transport.write_eof()
        self._lost = self._loop.create_future()
        await asyncio.wait([self._lost], timeout=_LINGER_SECONDS)
        self.force_close()

    def close_idle(self, since: float) -> None:
        """Close if the last answer was given before a moment (Unix seconds) and nothing has come since."""
        if self.is_busy or self._discards or self.rests_since is None or self.rests_since > since:
            return
        if self.transport is not None and not has_input(self.transport):
            self._discards = True
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        if self._unanswered is not None:
            self._handler.abandon(self._unanswered)
        answered = self.take_answered()
        if answered is not None and answered[1].relay is not None:
            answered[1].not_relayed()
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    def end(self) -> None:
        """Stop working for the client."""
        for task in (self._task, self._task_handler):
            if task is not None:
                task.cancel()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what aiohttp's parser does not take. What it quotes of the request is not logged: it may hold credentials."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client has gone, which aiohttp knows to take
        return (
            self.bad_request()
            if isinstance(exc, HttpProcessingError)
            else super().handle_error(request, status, exc, message)
        )

    def bad_request(self) -> LastResponse:
        """The answer to a request that is no HTTP; the connection is of no further use."""
        refusal = Refusal(HTTPStatus.BAD_REQUEST)
        logger.warning("a request from %s is refused: %s", peer_of(self.transport), refusal.text)
        return LastResponse(refusal.status, refusal.answer())
