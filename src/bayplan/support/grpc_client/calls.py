"""Calls that run on a connection: what is still to be sent, what has arrived, and how they end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.support.grpc_client import frames
from bayplan.support.grpc_client.frames import ProtocolError
from bayplan.support.grpc_client.headers import Headers

if TYPE_CHECKING:
    from collections.abc import Callable

RECEIVE_WINDOW: Final = 4 << 20
"""Bytes of a call that the peer may send before this side has said that it took some."""
_CODES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""gRPC's names by number."""
_HTTP_CODES: Final = {
    "400": "INTERNAL", "401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED",
    "429": "UNAVAILABLE", "502": "UNAVAILABLE", "503": "UNAVAILABLE", "504": "UNAVAILABLE",
}  # fmt: skip
"""What an answer of HTTP means that is not gRPC's (`http-grpc-status-mapping.md`)."""
_RESET_CODES: Final = {
    frames.REFUSED_STREAM: "UNAVAILABLE",
    frames.CANCEL: "CANCELLED",
    frames.ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
    frames.INADEQUATE_SECURITY: "PERMISSION_DENIED",
}
"""What the end of a stream by the peer means (`PROTOCOL-HTTP2.md`, "Errors")."""


class Call(ABC):
    """One stream of a connection. The connection sets `stream`, `window` and `outgoing`."""

    __slots__ = (
        "_buffer",
        "_headers",
        "_needed",
        "block",
        "ended",
        "half_closed",
        "outgoing",
        "stream",
        "taken",
        "update_window",
        "window",
    )

    def __init__(self, block: bytes) -> None:
        self.block = block
        """Headers to begin with."""
        self.stream = 0
        """Its number on the connection; 0 until it has started."""
        self.window = 0
        """Bytes that may be sent."""
        self.outgoing: deque[tuple[bytes, bool]] = deque()
        """What the windows do not allow to be sent yet, and whether it is the last."""
        self.half_closed = False
        """Whether everything was handed over for sending."""
        self.ended = False
        self.taken = 0
        """Bytes that have been used up since the peer was told last."""
        self.update_window: Callable[[Call, int], None] | None = None
        self._headers: Headers | None = None
        self._buffer = bytearray()
        self._needed = 0

    def received_headers(self, headers: Headers, last: bool) -> None:
        """Headers have arrived: those at the beginning, or, at the end, the trailers."""
        if not last:
            if headers.get(":status", "")[:1] != "1":
                self._headers = headers
            return
        self.finish(_error_of(headers, self._headers))

    def received_data(self, data: bytes, last: bool) -> None:
        """A piece of a message, or of several. Raises ProtocolError."""
        buffer = self._buffer
        if not buffer and len(data) >= 5 and data[0] == 0 and len(data) == 5 + int.from_bytes(data[1:5], "big"):
            self.received(data[5:])
        elif data:
            buffer += data
            if len(buffer) >= self._needed:
                self._cut()
        if last:
            self.finish(RpcError("INTERNAL", "the server ended the stream without a status"))

    def _cut(self) -> None:
        buffer, start = self._buffer, 0
        while len(buffer) - start >= 5:
            if buffer[start]:
                raise ProtocolError("a compressed message, though none was asked for")
            behind = start + 5 + int.from_bytes(buffer[start + 1 : start + 5], "big")
            if behind > len(buffer):
                self._needed = behind - start
                break
            self.received(bytes(buffer[start + 5 : behind]))
            start, self._needed = behind, 0
        del buffer[:start]

    def finish(self, error: RpcError | None) -> None:
        """It has ended. error: None if it went well. Calling it again does nothing."""
        if not self.ended:
            self.ended = True
            self.outgoing.clear()
            self.concluded(error)

    def used(self, size: int) -> None:
        """So many bytes have been used up: the peer may send more."""
        self.taken += size
        if self.taken >= RECEIVE_WINDOW // 2 and not self.ended and self.update_window is not None:
            self.update_window(self, self.taken)
            self.taken = 0

    @abstractmethod
    def received(self, message: bytes) -> None:
        """A message has arrived."""

    @abstractmethod
    def concluded(self, error: RpcError | None) -> None:
        """Called once, at the end."""


class UnaryCall(Call):
    """A call with one response, which `future` holds."""

    __slots__ = ("_response", "future")

    def __init__(self, block: bytes, future: asyncio.Future[bytes]) -> None:
        super().__init__(block)
        self.future = future
        self._response: bytes | None = None

    def received_data(self, data: bytes, last: bool) -> None:
        super().received_data(data, last)
        self.used(len(data))  # all of it is needed before anybody can use any of it

    def received(self, message: bytes) -> None:
        self._response = message

    def concluded(self, error: RpcError | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        elif self._response is None:
            self.future.set_exception(RpcError("INTERNAL", "the server ended the call without a response"))
        else:
            self.future.set_result(self._response)


class StreamingCall(Call):
    """A call with any number of responses."""

    __slots__ = ("_arrived", "_error", "_messages", "_withheld", "drained")

    def __init__(self, block: bytes) -> None:
        super().__init__(block)
        self._messages: deque[bytes] = deque()
        self._withheld = 0
        """Bytes that the peer is not told of until the messages that wait have been taken."""
        self._arrived = asyncio.Event()
        self._error: RpcError | None = None
        self.drained = asyncio.Event()
        """Set while there is nothing that the windows do not allow to be sent."""
        self.drained.set()

    @property
    def failure(self) -> RpcError:
        """Why nothing can be sent any more."""
        error = self._error
        return RpcError("UNAVAILABLE", "the stream has ended") if error is None else RpcError(error.code, error.message)

    def received_data(self, data: bytes, last: bool) -> None:
        super().received_data(data, last)
        self._withheld += len(data)
        self._release()

    def _release(self) -> None:
        """Let the peer send more if nothing waits to be taken; a message larger than the window comes in that way as well."""
        if not self._messages:
            withheld, self._withheld = self._withheld, 0
            self.used(withheld)

    def received(self, message: bytes) -> None:
        self._messages.append(message)
        self._arrived.set()

    def concluded(self, error: RpcError | None) -> None:
        self._error = error
        self._arrived.set()
        self.drained.set()

    async def next(self) -> bytes | None:
        """The next message; None at the end. Raises RpcError."""
        while not self._messages:
            if self.ended:
                if self._error is not None:
                    raise self.failure
                return None
            self._arrived.clear()
            await self._arrived.wait()
        message = self._messages.popleft()
        self._release()
        return message


def reset_error(code: int) -> RpcError:
    """What the end of a stream by the peer means. code: HTTP/2's."""
    text = f"the server ended the stream with error {code:#x} of HTTP/2"
    kind = UnsentError if code == frames.REFUSED_STREAM else RpcError
    return kind(_RESET_CODES.get(code, "INTERNAL"), text)


def _error_of(trailers: Headers, headers: Headers | None) -> RpcError | None:
    """The status of a call. headers: those at the beginning, if they came apart."""
    number = trailers.get("grpc-status")
    if number is None:
        status = (headers or trailers).get(":status", "")
        return RpcError(
            _HTTP_CODES.get(status, "UNKNOWN"), f"the server answered with HTTP status {status}, not with one of gRPC"
        )
    if number == "0":
        return None
    known = number.isascii() and number.isdecimal() and int(number) < len(_CODES)
    return RpcError(_CODES[int(number)] if known else "UNKNOWN", unquote(trailers.get("grpc-message", "")))
