"""One connection: its calls, its windows, and the signs of life of the peer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, cast

from bayplan.support.clock import Clock, Timer
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.support.grpc_client import frames
from bayplan.support.grpc_client.calls import RECEIVE_WINDOW, Call, StreamingCall, reset_error
from bayplan.support.grpc_client.frames import FrameReader, ProtocolError, frame
from bayplan.support.grpc_client.headers import HeaderReader

_QUIET_SECONDS: Final = 30.0
"""After which a peer that owes an answer is asked whether it lives."""
_PING_SECONDS: Final = 10.0
"""Within which it has to say something."""
_CONNECTION_WINDOW: Final = 64 << 20
"""Bytes of all calls together that the peer may send before this side has said that it took some."""
_LAST_STREAM: Final = (1 << 31) - 1
_LARGEST_BLOCK: Final = 1 << 20
"""Bytes of a header block in several frames."""
_BEGINNING: Final = (
    frames.PREFACE
    + frames.settings_frame(
        {frames.HEADER_TABLE_SIZE: 0, frames.ENABLE_PUSH: 0, frames.INITIAL_WINDOW_SIZE: RECEIVE_WINDOW}
    )
    + frames.window_update(0, _CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
)


class Http2Connection(asyncio.Protocol):
    """A connection, from the client's side. `ready` is done when the peer has answered, or fails with the reason why it cannot be used."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.usable = False
        """Whether calls may begin."""
        self._transport: asyncio.Transport | None = None
        self._unwritten: list[bytes] = []
        self._frames = FrameReader()
        self._headers = HeaderReader()
        self._calls: dict[int, Call] = {}
        self._waiting: deque[tuple[Call, bytes, bool]] = deque()
        """Calls that the peer has no room for yet, with what they send first."""
        self._next_stream = 1
        self._most_streams = _LAST_STREAM
        self._window = frames.DEFAULT_WINDOW
        self._initial_window = frames.DEFAULT_WINDOW
        self._frame_size = frames.FRAME_SIZE
        self._received = 0
        """Bytes that have arrived since the peer was told last."""
        self._block: tuple[int, bool, bytes] | None = None
        """Headers whose block is not complete: stream, whether they are the last, what there is."""
        self._heard = False
        self._timer: Timer | None = None
        self._reason = ""

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() != "h2":
            self.abort("the server does not offer HTTP/2 over TLS")
            return
        stream.write(_BEGINNING)
        self._timer = self._clock.call_later(_QUIET_SECONDS, self._look)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        try:
            for kind, flags, stream, payload in self._frames.feed(data):
                self._take(kind, flags, stream, payload)
        except ProtocolError as error:
            self._write(frames.goaway_frame(error.code))
            self._write_out()
            self.abort(f"the server broke the protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(
            self._reason or (f"the connection broke: {exc}" if exc is not None else "the server closed the connection")
        )

    # What callers do

    def start(self, call: Call, data: bytes, *, last: bool) -> None:
        """Begin a call with the first bytes that it sends. Raises UnsentError."""
        if not self.usable:
            raise UnsentError("UNAVAILABLE", self._reason or "the connection is closed")
        if len(self._calls) >= self._most_streams:
            self._waiting.append((call, data, last))
        else:
            self._begin(call, data, last)

    def send(self, call: Call, data: bytes, *, last: bool) -> None:
        """Send more of a call that has started or waits to. Bytes that the windows do not allow are kept."""
        if call.stream == 0 or call.outgoing or len(data) > min(call.window, self._window, self._frame_size):
            call.outgoing.append((data, last))
            if call.stream:
                self._flush(call)
        elif data or last:
            self._write(self._data_frame(call, data, last))

    def cancel(self, call: Call) -> None:
        """End a call; nothing of it is used any more."""
        if call.stream in self._calls:
            self._write(frames.reset_frame(call.stream, frames.CANCEL))
            self._remove(call)
        call.finish(RpcError("CANCELLED", "the call was cancelled"))

    def close(self) -> None:
        """End the connection and all its calls."""
        self.abort("the connection was closed")

    def abort(self, reason: str) -> None:
        """End the connection without waiting for what is not sent yet."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()
        self._end(self._reason)

    # Sending

    def _write(self, data: bytes) -> None:
        """Send something, together with what else is sent in this pass of the event loop."""
        if not self._unwritten:
            self._loop.call_soon(self._write_out)
        self._unwritten.append(data)

    def _write_out(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(unwritten))

    def _begin(self, call: Call, data: bytes, last: bool) -> None:
        call.stream = stream = self._next_stream
        call.window = self._initial_window
        call.update_window = self._update_window
        self._next_stream += 2
        self.usable = self.usable and self._next_stream < _LAST_STREAM
        self._calls[stream] = call
        block, rest = call.block[: self._frame_size], call.block[self._frame_size :]
        head = frame(frames.HEADERS, 0 if rest else frames.END_HEADERS, stream, block)
        while rest:
            block, rest = rest[: self._frame_size], rest[self._frame_size :]
            head += frame(frames.CONTINUATION, 0 if rest else frames.END_HEADERS, stream, block)
        if len(data) <= min(call.window, self._window, self._frame_size) and not call.outgoing and (data or last):
            self._write(head + self._data_frame(call, data, last))
            return
        self._write(head)
        if data or last:
            call.outgoing.appendleft((data, last))
        self._flush(call)

    def _data_frame(self, call: Call, data: bytes, last: bool) -> bytes:
        call.window -= len(data)
        self._window -= len(data)
        call.half_closed = last
        return frame(frames.DATA, frames.END_STREAM if last else 0, call.stream, data)

    def _flush(self, call: Call) -> None:
        """Send what the windows allow of what a call has kept."""
        outgoing = call.outgoing
        while outgoing:
            data, last = outgoing[0]
            room = min(call.window, self._window, self._frame_size)
            if len(data) <= room:
                outgoing.popleft()
                self._write(self._data_frame(call, data, last))
            elif room > 0:
                outgoing[0] = (data[room:], last)
                self._write(self._data_frame(call, data[:room], last=False))
            else:
                break
        if isinstance(call, StreamingCall):
            if outgoing:
                call.drained.clear()
            else:
                call.drained.set()

    def _flush_all(self) -> None:
        for call in [each for each in self._calls.values() if each.outgoing]:
            self._flush(call)

    def _update_window(self, call: Call, size: int) -> None:
        self._write(frames.window_update(call.stream, size))

    # Receiving

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._block is not None and kind != frames.CONTINUATION:
            raise ProtocolError("headers are interrupted by another frame")
        if kind == frames.DATA:
            self._take_data(flags, stream, payload)
        elif kind == frames.HEADERS:
            self._take_block(stream, bool(flags & frames.END_STREAM), frames.content_of(flags, payload), flags)
        elif kind == frames.CONTINUATION:
            if self._block is None or self._block[0] != stream:
                raise ProtocolError("headers go on that did not begin")
            _, last, block = self._block
            self._take_block(stream, last, block + payload, flags)
        elif kind == frames.WINDOW_UPDATE:
            self._take_window(stream, frames.number_of(payload) & 0x7FFFFFFF)
        elif kind == frames.PING:
            if not flags & frames.ACK:
                self._write(frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.SETTINGS:
            if not flags & frames.ACK:
                self._take_settings(frames.settings_of(payload))
        elif kind == frames.RST_STREAM:
            self._finish(stream, reset_error(frames.number_of(payload)))
        elif kind == frames.GOAWAY:
            self._take_goaway(frames.number_of(payload) & 0x7FFFFFFF, frames.number_of(payload, 4), payload[8:])
        elif kind == frames.PUSH_PROMISE:
            raise ProtocolError("the server pushes, though that was refused")

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received >= _CONNECTION_WINDOW // 2:
            self._write(frames.window_update(0, self._received))
            self._received = 0
        call = self._calls.get(stream)
        if call is None:
            return  # it was cancelled
        data, last = frames.content_of(flags & frames.PADDED, payload), bool(flags & frames.END_STREAM)
        call.used(len(payload) - len(data))
        call.received_data(data, last)
        if last:
            self._remove(call)

    def _take_block(self, stream: int, last: bool, block: bytes, flags: int) -> None:
        if len(block) > _LARGEST_BLOCK:
            raise ProtocolError("headers are too large", frames.ENHANCE_YOUR_CALM)
        if not flags & frames.END_HEADERS:
            self._block = (stream, last, block)
            return
        self._block = None
        headers = self._headers.read(block)
        call = self._calls.get(stream)
        if call is not None:
            call.received_headers(headers, last)
            if last:
                self._remove(call)

    def _take_window(self, stream: int, size: int) -> None:
        if stream == 0:
            self._window += size
            if self._window > frames.LARGEST_WINDOW:
                raise ProtocolError("the window of the connection is too large", frames.FLOW_CONTROL_ERROR)
            self._flush_all()
            return
        call = self._calls.get(stream)
        if call is not None:
            call.window += size
            self._flush(call)

    def _take_settings(self, settings: dict[int, int]) -> None:
        self._write(frame(frames.SETTINGS, frames.ACK, 0))
        self._frame_size = settings.get(frames.MAX_FRAME_SIZE, self._frame_size)
        self._most_streams = settings.get(frames.MAX_CONCURRENT_STREAMS, self._most_streams)
        window = settings.get(frames.INITIAL_WINDOW_SIZE, self._initial_window)
        if window > frames.LARGEST_WINDOW or self._frame_size < frames.FRAME_SIZE:
            raise ProtocolError("a setting is out of range", frames.FLOW_CONTROL_ERROR)
        change, self._initial_window = window - self._initial_window, window
        for call in self._calls.values():
            call.window += change
        if not self.ready.done():
            self.usable = True
            self.ready.set_result(None)
        self._flush_all()
        self._begin_waiting()

    def _take_goaway(self, last: int, code: int, text: bytes) -> None:
        """The server takes no new calls, and has not seen those after `last`."""
        self.usable = False
        self._reason = f"the server closes the connection: {text.decode(errors='replace') or f'error {code:#x}'}"
        waiting, self._waiting = self._waiting, deque()
        for call in [each[0] for each in waiting] + [each for number, each in self._calls.items() if number > last]:
            self._calls.pop(call.stream, None)
            call.finish(UnsentError("UNAVAILABLE", self._reason))
        if not self.ready.done():
            self.ready.set_exception(UnsentError("UNAVAILABLE", self._reason))
        self._close_if_idle()

    # Ends

    def _finish(self, stream: int, error: RpcError) -> None:
        call = self._calls.get(stream)
        if call is not None:
            call.half_closed = True
            call.finish(error)
            self._remove(call)

    def _remove(self, call: Call) -> None:
        """A call has ended: another one may begin."""
        del self._calls[call.stream]
        if call.ended and not call.half_closed:
            self._write(frames.reset_frame(call.stream, frames.NO_ERROR))
        if self._waiting:
            self._begin_waiting()
        if not self.usable:
            self._close_if_idle()

    def _begin_waiting(self) -> None:
        while self._waiting and len(self._calls) < self._most_streams:
            call, data, last = self._waiting.popleft()
            if not call.ended:
                self._begin(call, data, last)

    def _close_if_idle(self) -> None:
        if not self._calls and self._transport is not None:
            self._write_out()
            self._transport.close()

    def _end(self, reason: str) -> None:
        self.usable, self._reason = False, reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.ready.done():
            self.ready.set_exception(UnsentError("UNAVAILABLE", reason))
        waiting, self._waiting = self._waiting, deque()
        for call, _, _ in waiting:
            call.finish(UnsentError("UNAVAILABLE", reason))
        calls, self._calls = self._calls, {}
        for started in calls.values():
            started.finish(RpcError("UNAVAILABLE", reason))

    def _look(self, *_: Any) -> None:
        """Ask a peer whether it lives that owes an answer and has been quiet."""
        wait, following = _QUIET_SECONDS, self._look
        if self._calls and not self._heard:
            self._write(frame(frames.PING, 0, 0, bytes(8)))
            wait, following = _PING_SECONDS, self._give_up
        self._heard = False
        self._timer = self._clock.call_later(wait, following)

    def _give_up(self, *_: Any) -> None:
        if self._heard:
            self._look()
        else:
            self.abort(f"the server has said nothing for {_QUIET_SECONDS + _PING_SECONDS:.0f} seconds")
