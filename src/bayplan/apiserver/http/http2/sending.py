"""The frames that a connection sends: header fields at once, bodies as windows and the client let them through, one write to the connection per turn of the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from h2.errors import ErrorCodes

from bayplan.apiserver.http.http2.fields import Field
from bayplan.apiserver.http.http2.flood_limit import FloodLimit
from bayplan.apiserver.http.http2.output import StreamOutput
from bayplan.apiserver.http.http2.state import ServerState

_AT_ONCE: Final = 1 << 16
"""Bytes of frames that are handed to the transport as one piece."""
_PAID_BYTES: Final = 2048
"""Bytes of responses that allow the client one more frame, since clients open windows as they read."""


class Streams(Protocol):
    """Who has the streams of a connection."""

    def has_stream(self, stream_id: int) -> bool:
        """Whether a stream is open."""

    def finish(self, stream_id: int) -> None:
        """The response of a stream has been sent."""

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream at once."""


class FrameSender:
    """Sends the frames of one connection."""

    def __init__(self, state: ServerState, flood_limit: FloodLimit, streams: Streams, now: Callable[[], float]) -> None:
        """now: Unix seconds."""
        self._state = state
        self._flood_limit = flood_limit
        self._streams = streams
        self._now = now
        self._held: deque[StreamOutput] = deque()
        """Outputs with bytes that a window, or the client, does not let through."""
        self._is_blocked = False
        """Whether the client does not read."""
        self._unsent = 0
        """Bytes of bodies in frames that the transport does not have."""
        self._is_flush_due = False
        self.transport: asyncio.Transport | None = None
        """None before the connection is made, and once it is over."""
        self.blocked_since: float | None = None
        """When the client stopped reading (Unix seconds); None if it reads."""

    def block(self) -> None:
        """The client does not read."""
        self._is_blocked, self.blocked_since = True, self._now()

    def unblock(self) -> None:
        """It reads again."""
        self._is_blocked, self.blocked_since = False, None
        self.send_held()
        self.flush()

    def close(self) -> None:
        """Nothing more is sent."""
        self.transport = None
        self._held.clear()

    def send_fields(self, stream_id: int, fields: Sequence[Field], *, ends: bool) -> None:
        """Send header fields. ends: whether there is no body."""
        if not self._streams.has_stream(stream_id):
            return
        self._state.try_headers(stream_id, fields, ends=ends)
        if ends:
            self._streams.finish(stream_id)
        self.flush_soon()

    def send_body(self, output: StreamOutput) -> None:
        """Send what waits in an output, as far as windows and the client allow."""
        while output.has_pieces:
            if self._is_blocked or not self._send_frame(output):
                if output not in self._held:
                    self._held.append(output)
                break
        self.flush_soon()

    def send_held(self) -> None:
        """Send what windows let through, a frame of each stream in turn."""
        without_window: list[StreamOutput] = []
        while self._held and not self._is_blocked:
            output = self._held.popleft()
            if not output.has_pieces:
                continue
            if not self._send_frame(output):
                without_window.append(output)
            elif output.has_pieces:
                self._held.append(output)
        self._held.extend(without_window)

    def _send_frame(self, output: StreamOutput) -> bool:
        """Send one frame; False if a window lets nothing through."""
        state, stream_id = self._state, output.stream_id
        window = state.window(stream_id)
        if window is None:
            output.finished()
            return True
        if window <= 0 and output.has_bytes:
            return False
        data, ends = output.take(max(window, 0))
        state.send_data(stream_id, data, end_stream=ends)
        self._unsent += len(data)
        self._flood_limit.give(len(data) / _PAID_BYTES)
        if ends:
            self._streams.finish(stream_id)
        if self._unsent >= _AT_ONCE:
            self.flush()
        return True

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream at once."""
        self._streams.reset(stream_id, code)

    def unsent(self) -> int:
        """Bytes that are out of the hands of streams and that the system has not taken."""
        return self._unsent + (self.transport.get_write_buffer_size() if self.transport is not None else 0)

    def will_flush(self) -> None:
        """`flush` is called before the present turn of the loop is over."""
        self._is_flush_due = True

    def flush_soon(self) -> None:
        """Write the frames that there are when the present turn of the loop is over."""
        if not self._is_flush_due and self.transport is not None:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the frames that there are."""
        self._is_flush_due, self._unsent = False, 0
        if self.transport is not None and (data := self._state.data_to_send()):
            self.transport.write(data)

    def announce_end(self, last_stream: int) -> None:
        """Write that streams beyond the last one are not answered."""
        self.flush()
        if self.transport is not None:
            self.transport.write(self._state.goaway(last_stream))
