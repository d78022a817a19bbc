"""Answers the requests of one connection, beside one another.

whole, and its header fields are known:  `ApiHandler.answer_at_once`, or `answer` in a task
any other:                               a task with `HttpServer`'s handler, as on HTTP/1.1
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web
from h2.errors import ErrorCodes

from bayplan.apiserver.http.answer import is_simple
from bayplan.apiserver.http.connection import ApiHandler
from bayplan.apiserver.http.headers import NO_QUERY, query_of
from bayplan.apiserver.http.http2.fields import (
    Field,
    FieldRefusal,
    Malformed,
    RequestFields,
    is_cacheable,
    key_of,
    length_of,
    plain_target,
    read_fields,
    refusal_fields,
    simple_fields,
)
from bayplan.apiserver.http.http2.sending import FrameSender
from bayplan.apiserver.http.http2.stream import Http2Stream, discard
from bayplan.apiserver.http.intake import user_of
from bayplan.apiserver.requests import Request, Response

logger = logging.getLogger(__name__)

_SMALL_BODY: Final = 1 << 16
"""Bytes of a body that is waited for before its request is started."""


class RequestRunner:
    """See the module."""

    def __init__(
        self,
        handler: ApiHandler,
        respond: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        sender: FrameSender,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """respond: the slow path, which gives responses that have not been sent, or sends them itself."""
        self._handler = handler
        self._respond = respond
        self._sender = sender
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        """Also of streams that their clients have ended."""

    @property
    def tasks(self) -> int:
        """How many requests are being answered, also of streams that their clients have ended."""
        return len(self._tasks)

    def cancel(self) -> None:
        """Stop working for the client."""
        for task in tuple(self._tasks):
            task.cancel()

    def start(self, stream: Http2Stream) -> None:
        """Begin to answer a request, unless its body is small and still to come: then to be called again when it has."""
        if stream.task is not None or stream.output.is_done:
            return
        try:
            if not stream.is_complete:
                stream.length = length_of(stream.fields)
                if stream.length is not None and stream.length <= _SMALL_BODY:
                    return
            elif self._answer_known(stream):
                return
            self._start_slow(stream)
        except Malformed:
            self._sender.reset(stream.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def start_incomplete(self, stream: Http2Stream) -> None:
        """Begin to answer a request whose small body has been waited for long enough."""
        stream.key = b""
        try:
            self._start_slow(stream)
        except Malformed:
            self._sender.reset(stream.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def _start_slow(self, stream: Http2Stream) -> None:
        """Raises Malformed."""
        given = read_fields(stream.fields)
        if isinstance(given, FieldRefusal):
            self._send_whole(stream, *refusal_fields(given, self._handler.now()))
        else:
            self._work(stream, self._run(stream, given))

    def _answer_known(self, stream: Http2Stream) -> bool:
        """Begin to answer on the fast path, if that can be done."""
        handler, fields = self._handler, stream.fields
        target = plain_target(fields)
        if target is None or handler.is_draining or handler.is_behind:
            return False
        stream.key = key_of(fields)
        head = handler.header_cache.get(stream.key)
        if head is None:
            if not is_cacheable(fields):
                stream.key = b""
            return False
        method, path, query = target
        request = handler.request(
            stream.connection, head, method.decode(), path.decode(), query_of(query) if query else NO_QUERY, stream.body
        )
        if isinstance(request, Response):
            return False
        if request.origin is not None:
            request.origin.uri = (path if query is None else path + b"?" + query).decode()
        response = handler.answer_at_once(request)
        if response is not None:
            self._send(stream, request, response)
        else:
            stream.unanswered = request
            self._work(stream, self._serve(stream, request))
        return True

    async def _serve(self, stream: Http2Stream, request: Request) -> None:
        """Answer on the fast path."""
        try:
            response = await self._handler.answer(request)
        except BaseException:
            self._sender.reset(stream.stream_id, ErrorCodes.INTERNAL_ERROR)
            raise
        finally:
            stream.task = stream.unanswered = None
        self._send(stream, request, response)

    def _send(self, stream: Http2Stream, request: Request, response: Response) -> None:
        """Send a response of the fast path, or let the slow path send it."""
        stream.user = user_of(request, response)
        if stream.output.is_done:
            discard(response)
        elif is_simple(request, self._handler.named(response), stream.output.get_write_buffer_size()):
            self._send_whole(stream, *simple_fields(response, self._handler.now()))
        else:
            given = read_fields(stream.fields)
            assert isinstance(given, RequestFields)  # else they would not be known
            stream.answered_by(request, response)
            self._work(stream, self._run(stream, given))

    def _work(self, stream: Http2Stream, work: Awaitable[None]) -> None:
        stream.task = task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, stream: Http2Stream, given: RequestFields) -> None:
        """Answer on the slow path."""
        output = stream.output
        try:
            http = stream.request(given, self._loop)
            answer = await self._respond(http)
            async with asyncio.timeout(self._handler.answer_timeout):
                await answer.prepare(http)
                await answer.write_eof()
        except TimeoutError:
            output.abort()  # the client does not read
        except ConnectionError:
            pass  # it has gone
        except Exception:
            logger.exception("a request over HTTP/2 failed")
            self._sender.reset(stream.stream_id, ErrorCodes.INTERNAL_ERROR)
        finally:
            output.abort()  # which does nothing if all has been sent

    def _send_whole(self, stream: Http2Stream, fields: Sequence[Field], body: bytes) -> None:
        self._sender.send_fields(stream.stream_id, fields, ends=False)
        stream.output.write_last(body)
