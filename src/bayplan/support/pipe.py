"""Calls and notifications between two processes, over a socket that both have.

    call(topic, ...)      -> what the other side's request handler of the topic returns
    notify(topic, ...)    -> no response

All messages of one turn of the event loop are one frame: eight bytes of length, then MessagePack. Requests are handled in the order in which they were
sent, some in each turn of the loop, and responses come in any order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import msgspec

log = logging.getLogger(__name__)

_HEAD: Final = 8
"""Bytes before a frame that say how long it is."""
_FULL: Final = 1 << 22
"""Bytes that may wait to be sent before `drained` waits."""
_KERNEL_BUFFER: Final = 1 << 22
"""Bytes on their way between the processes, if the system allows as many: each turn of the loop sends no more than fits."""
_HANDLED_PER_TURN: Final = 32
"""Requests that are handled in one turn of the loop: its turns stay short when thousands come at once, so that both sides work."""

_REQUEST, _RESPONSE, _FAILURE, _NOTIFICATION = range(4)
"""Message types: (request, number, topic, arguments), (response, number, result), (failure, number, text), (notification, topic, arguments)."""

_encoder = msgspec.msgpack.Encoder()
_decode = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode

RequestHandler = Callable[..., Awaitable[Any]]
"""A handler that returns a future saves the making of a task."""
NotificationHandler = Callable[..., None]


class PipeError(Exception):
    """There is no response: the other side has gone, or the request handler there raised something."""


class MalformedCall(Exception):
    """Raised by a request handler for arguments that no caller of this project sends: the caller's fault, so no traceback is logged here."""


class Pipe(asyncio.Protocol):
    """One end. Arguments and results are made of what MessagePack knows: numbers, strings, bytes, sequences, mappings."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[tuple[Any, ...]] = []
        self._incoming = bytearray()
        """The begin of a frame whose end has not come."""
        self._missing_until = 0
        """How long that must be before it is worth a look."""
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._handling: dict[int, asyncio.Future[Any]] = {}
        self._requests: deque[tuple[Any, ...]] = deque()
        """Requests that came and are not handled yet."""
        self._room = asyncio.Event()
        self._room.set()
        self._end = asyncio.Event()
        self.request_handlers: dict[str, RequestHandler] = {}
        """By topic."""
        self.notification_handlers: dict[str, NotificationHandler] = {}
        """By topic."""
        self.when_lost: Callable[[], None] | None = None
        """Called once when the other side has gone."""

    def call(self, topic: str, *arguments: Any) -> asyncio.Future[Any]:
        """The response to come. Raises PipeError when it is awaited."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.is_lost:
            future.set_exception(PipeError("the other process has gone"))
            return future
        self._last = number = self._last + 1
        self._calls[number] = future
        self._send((_REQUEST, number, topic, arguments))
        return future

    def notify(self, topic: str, *arguments: Any) -> None:
        """Send a notification, if the other side is still there."""
        if not self.is_lost:
            self._send((_NOTIFICATION, topic, arguments))

    @property
    def is_lost(self) -> bool:
        """Whether the other side has gone, or this one has closed."""
        return self._end.is_set()

    async def ended(self) -> None:
        """Wait for the end of the pipe, from whichever side it comes."""
        await self._end.wait()

    @property
    def is_full(self) -> bool:
        """Whether `drained` would wait."""
        return not self._room.is_set()

    async def drained(self) -> None:
        """Wait until the other side has read most of what it was sent."""
        await self._room.wait()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the other side has not read yet and the system does not hold."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def abort(self) -> None:
        """End at once; what waits to be sent is lost."""
        self._outgoing.clear()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Send what is to be sent, and end."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def _send(self, message: tuple[Any, ...]) -> None:
        self._outgoing.append(message)
        if len(self._outgoing) == 1:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what there is now, instead of at the end of this turn."""
        if self._outgoing and self._transport is not None and not self._transport.is_closing():
            frame = bytearray(_HEAD)
            _encoder.encode_into(self._outgoing, frame, _HEAD)
            frame[:_HEAD] = (len(frame) - _HEAD).to_bytes(_HEAD, "big")
            self._transport.write(frame)
        self._outgoing.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(_FULL)

    def connection_lost(self, _: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._end.set()
        self._room.set()
        asked, self._calls = self._calls, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(PipeError("the other process has gone"))
        self._requests.clear()
        for answer in tuple(self._handling.values()):
            answer.cancel()
        if self.when_lost is not None:
            self.when_lost()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._room.clear()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._room.set()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._incoming:
            self._incoming += data
            if len(self._incoming) < self._missing_until:
                return
            data, self._incoming = bytes(self._incoming), bytearray()
        begin, size = 0, len(data)
        while size > begin:
            end = begin + _HEAD
            if size >= end:
                end += int.from_bytes(data[begin:end], "big")
            if size < end or end == begin + _HEAD:
                self._incoming += data[begin:]
                self._missing_until = end - begin
                return
            for message in _decode(memoryview(data)[begin + _HEAD : end]):
                self._take(message)
            begin = end

    def _take(self, message: tuple[Any, ...]) -> None:
        what = message[0]
        if what == _REQUEST:
            self._requests.append(message)
            if len(self._requests) == 1:
                self._loop.call_soon(self._handle_requests)
        elif what == _NOTIFICATION:
            self.notification_handlers[message[1]](*message[2])
        else:
            future = self._calls.pop(message[1])
            if future.done():
                return  # the caller has gone
            if what == _RESPONSE:
                future.set_result(message[2])
            else:
                future.set_exception(PipeError(message[2]))

    def _handle_requests(self) -> None:
        requests = self._requests
        for _ in range(min(_HANDLED_PER_TURN, len(requests))):
            _, number, topic, arguments = requests.popleft()
            try:
                handler = self.request_handlers.get(topic)
                if handler is None:
                    raise MalformedCall(f"there is no topic {topic!r}")
                answer = handler(*arguments)
            except Exception as error:
                self._fail(number, topic, error)
                continue
            future = asyncio.ensure_future(answer, loop=self._loop)
            self._handling[number] = future
            future.add_done_callback(partial(self._respond, number, topic))
        if requests:
            self._loop.call_soon(self._handle_requests)

    def _respond(self, number: int, topic: str, answer: asyncio.Future[Any]) -> None:
        del self._handling[number]
        if answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            self._fail(number, topic, error)
        elif not self.is_lost:
            self._send((_RESPONSE, number, answer.result()))

    def _fail(self, number: int, topic: str, error: BaseException) -> None:
        if isinstance(error, MalformedCall):
            log.error("refused %s: %s", topic, error)
        else:
            log.error("handling %s", topic, exc_info=error)
        if not self.is_lost:
            self._send((_FAILURE, number, f"{type(error).__name__}: {error}"))


async def open_pipe(end: socket.socket) -> Pipe:
    """One end over a connected stream socket, which it takes. Raises OSError."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
    _, pipe = await asyncio.get_running_loop().create_unix_connection(Pipe, sock=end)
    return pipe
