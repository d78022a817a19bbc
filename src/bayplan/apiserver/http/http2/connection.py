"""A connection of a client that speaks HTTP/2.

    data -> frames (h2) -> streams -> `RequestRunner`
    response -> StreamOutput -> windows are open, and the client reads -> frames (`FrameSender`) -> one write to the connection per turn of the event loop

A client that floods the connection (`flood_limit`) or breaks the protocol gets a GOAWAY, with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, cast

from aiohttp import web
from h2 import events
from h2.errors import ErrorCodes

from bayplan.apiserver.authentication.client_certificates import Certified
from bayplan.apiserver.http.connection import ApiHandler
from bayplan.apiserver.http.http2.fields import (
    Field,
)
from bayplan.apiserver.http.http2.flood_limit import FloodLimit
from bayplan.apiserver.http.http2.frames import ConnectionFailure
from bayplan.apiserver.http.http2.request_runner import RequestRunner
from bayplan.apiserver.http.http2.sending import FrameSender
from bayplan.apiserver.http.http2.settings import Http2Metrics, Http2Settings
from bayplan.apiserver.http.http2.state import LAST_STREAM, ServerState
from bayplan.apiserver.http.http2.stream import RESET_AFTER_RESPONSE, Http2Stream
from bayplan.apiserver.http.listener import has_input, peer_of
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_SMALL_FRAME: Final = 256
"""Bytes of a body; frames with fewer count as frames without effect."""
_GOAWAY_SECONDS: Final = 1.0
"""For a client to learn of the end, as in Go."""
_ROUND_TRIP: Final = b"bayplan\0"
"""Content of the PING whose answer says that the client knows of the end."""


class Connections(Protocol):
    """Who keeps the connections of a server."""

    def http2_opened(self, connection: Http2Connection, transport: asyncio.Transport) -> None:
        """A client has come."""

    def http2_closed(self, connection: Http2Connection) -> None:
        """It has gone."""


class Http2Connection(asyncio.Protocol):
    """See the module. Times of its attributes are Unix seconds, as in `Connection`."""

    def __init__(
        self,
        handler: ApiHandler,
        respond: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        connections: Connections,
        clock: Clock,
        settings: Http2Settings,
        metrics: Http2Metrics,
    ) -> None:
        """respond: the slow path, which gives responses that have not been sent, or sends them itself."""
        self.handler = handler
        self._connections = connections
        self._clock = clock
        self._settings = settings
        self._metrics = metrics
        self._state = ServerState(settings.most_streams)
        self._flood_limit = FloodLimit(clock.monotonic())
        self.sender = FrameSender(self._state, self._flood_limit, self, handler.now)
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Http2Stream] = {}
        """Whose responses have not been sent."""
        self._requests = RequestRunner(handler, respond, self.sender, self._loop)
        self._ready: list[Http2Stream] = []
        """Streams of the present bytes that may be taken up."""
        self._is_over = False
        self._last_stream: int | None = None
        """The last stream that is answered, once the end has been announced and the client knows."""
        self._is_leaving = False
        self._left_at = 0.0
        """When the end was announced."""
        self.transport: asyncio.Transport | None = None
        self.certified: Certified | None = None
        self.has_spoken = False
        self.user: str | None = None
        self.rests_since: float | None = handler.now()
        self.head_since: float | None = None

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = self.sender.transport = cast("asyncio.Transport", transport)
        self._connections.http2_opened(self, self.transport)
        self._state.open()
        self.sender.flush()

    def connection_lost(self, exc: BaseException | None) -> None:
        """See asyncio.Protocol."""
        self._is_over, self.transport = True, None
        self._connections.http2_closed(self)
        self._lose_streams()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._is_over:
            return
        state = self._state
        self.sender.will_flush()
        before = state.scanner.frames
        try:
            found = state.receive(data)
            useless = state.scanner.frames - before
            for event in found:
                useless -= self._take(event)
            if useless > 0 and not self._flood_limit.take(useless, self._clock.monotonic()):
                raise ConnectionFailure(ErrorCodes.ENHANCE_YOUR_CALM, "too many frames without effect")
        except ConnectionFailure as failure:
            self._fail(failure)
            return
        if found:
            self.head_since = None
        elif self.head_since is None and not self._streams:
            self.head_since = self.handler.now()
        ready, self._ready = self._ready, []
        for stream in ready:
            if self.user is None or self.handler.intake.try_take(self.user):
                self._requests.start(stream)
            else:
                stream.is_held = True
                self.handler.intake.wait(self.user, partial(self._start_held, stream))
        self.sender.flush()

    def _start_held(self, stream: Http2Stream) -> None:
        """Take up a request that has waited for that; of a stream that its client has ended nothing is left to do."""
        stream.is_held = False
        self._requests.start(stream)

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol: the client does not read."""
        self.sender.block()

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self.sender.unblock()

    # Frames that come. Each handler returns 1 if the frame has an effect, else 0.

    def _take(self, event: events.Event) -> int:
        take = _EVENTS.get(type(event))
        return take(self, event) if take is not None else 0

    def _request_received(self, event: events.RequestReceived) -> int:
        stream_id, fields = event.stream_id, event.headers
        assert stream_id is not None
        self._metrics.streams.value += 1
        if self._last_stream is not None and stream_id > self._last_stream:
            self._state.try_reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return 0
        most = self._settings.most_streams
        if len(self._streams) >= most or self._requests.tasks >= 2 * most:
            self._state.try_reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return 0
        stream = Http2Stream(self, stream_id, cast("Sequence[Field]", fields), self._clock.monotonic())
        self._streams[stream_id] = stream
        self.rests_since = None
        self._ready.append(stream)
        return 1

    def _data_received(self, event: events.DataReceived) -> int:
        data, size = event.data or b"", event.flow_controlled_length or 0
        assert event.stream_id is not None
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self.acknowledge(event.stream_id, size)
        elif data or size:
            stream.feed(bytes(data), size)
        return 1 if len(data) >= _SMALL_FRAME or event.stream_ended is not None else 0

    def _stream_ended(self, event: events.StreamEnded) -> int:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.complete()
            if stream.task is None and not stream.is_held and stream not in self._ready:
                self._ready.append(stream)
        return 0

    def _stream_reset(self, event: events.StreamReset) -> int:
        stream = self._streams.pop(event.stream_id, None)
        if stream is not None:
            stream.lost()
            if stream in self._ready:
                self._ready.remove(stream)
            self._rest()
        return 0

    def _window_updated(self, event: events.WindowUpdated) -> int:
        self.sender.send_held()
        return 0

    def _settings_changed(self, event: events.RemoteSettingsChanged) -> int:
        self.sender.send_held()
        return 0

    def _settings_acknowledged(self, event: events.SettingsAcknowledged) -> int:
        self._state.settings_acknowledged()
        return 1

    def _ping_answered(self, event: events.PingAckReceived) -> int:
        if not (self._is_leaving and event.ping_data == _ROUND_TRIP):
            return 0
        self._refuse_further_streams()
        return 1

    def _trailers_received(self, event: events.TrailersReceived) -> int:
        return 1

    def _client_leaves(self, event: events.ConnectionTerminated) -> int:
        self._is_leaving = True
        self._last_stream = self._state.highest_inbound_stream_id
        if not self._streams:
            self._close()
        return 1

    def check_timeouts(self, body_seconds: float, read_seconds: float) -> None:
        """Start requests whose small bodies have been waited for so long; cut the client off if it has not read for so long."""
        if (since := self.sender.blocked_since) is not None and self.handler.now() - since > read_seconds:
            self.end()
            if self.transport is not None:
                self.transport.abort()
            return
        now = self._clock.monotonic()
        if self._is_leaving and self._last_stream is None and now - self._left_at > _GOAWAY_SECONDS:
            self._refuse_further_streams()
        for stream in tuple(self._streams.values()):
            if stream.task is None and not stream.is_complete and stream.since <= now - body_seconds:
                self._requests.start_incomplete(stream)

    # The end of streams: see Streams.

    def has_stream(self, stream_id: int) -> bool:
        """See Streams."""
        return stream_id in self._streams

    def finish(self, stream_id: int) -> None:
        """See Streams."""
        stream = self._streams.pop(stream_id)
        stream.output.finished()
        self._flood_limit.give(1)
        if not stream.is_complete:
            self._state.try_reset(stream_id, RESET_AFTER_RESPONSE)
        self._rest()
        goes_away = self._settings.goes_away
        if goes_away is not None and goes_away():
            self.leave()

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """See Streams."""
        stream = self._streams.pop(stream_id, None)
        if stream is None or self._is_over:
            return
        self._state.try_reset(stream_id, code)
        stream.lost()
        self._rest()
        self.sender.flush_soon()

    def acknowledge(self, stream_id: int, size: int) -> None:
        """The client may send so many bytes more."""
        if size and not self._is_over:
            self._state.acknowledge_received_data(size, stream_id)
            self.sender.flush_soon()

    # The end: see OpenConnection.

    def _rest(self) -> None:
        """A stream has ended."""
        if not self._streams:
            self.rests_since = self.handler.now()
            if self._last_stream is not None:
                self._loop.call_soon(self._close)

    @property
    def is_busy(self) -> bool:
        """See OpenConnection."""
        return bool(self._streams)

    @property
    def is_long_running(self) -> bool:
        """See OpenConnection."""
        return all(stream.is_long_running for stream in self._streams.values())

    def leave(self) -> None:
        """Announce the end: the client makes its next requests elsewhere. Those that come before it knows are answered."""
        if self._is_leaving or self._is_over or self.transport is None:
            return
        self._is_leaving, self._left_at = True, self._clock.monotonic()
        self._state.ping(_ROUND_TRIP)  # first: clients that are made with h2 take nothing but another GOAWAY after one
        self.sender.announce_end(LAST_STREAM)

    def _refuse_further_streams(self) -> None:
        """The client knows of the end: say which stream is the last."""
        self._last_stream = self._state.highest_inbound_stream_id
        self.sender.announce_end(self._last_stream)
        if not self._streams:
            self._close()

    def close_idle(self, since: float) -> None:
        """See OpenConnection."""
        if self.is_busy or self.rests_since is None or self.rests_since > since or self.transport is None:
            return
        if not has_input(self.transport):
            self.force_close()

    def force_close(self) -> None:
        """See OpenConnection."""
        if self.transport is not None and not self._is_over:
            self.sender.announce_end(self._state.highest_inbound_stream_id)
            self._close()

    def end(self) -> None:
        """See OpenConnection."""
        self._requests.cancel()

    def _fail(self, failure: ConnectionFailure) -> None:
        """Close the connection of a client that breaks the rules. Nothing of what it sent is logged: it may be credentials."""
        name = ErrorCodes(failure.code).name if failure.code in ErrorCodes._value2member_map_ else str(failure.code)
        logger.warning("the HTTP/2 connection of %s is ended with %s: %s", peer_of(self.transport), name, failure)
        self._metrics.ended(name)
        self._ready.clear()
        if self.transport is not None:
            self.transport.write(self._state.final_frames(failure.code))
        self._close()

    def _close(self) -> None:
        """Close, once what has been sent is with the client."""
        if self._is_over:
            return
        self.sender.flush()
        self._is_over = True
        transport, self.transport = self.transport, None
        self._lose_streams()
        if transport is not None:
            transport.close()

    def _lose_streams(self) -> None:
        streams, self._streams = self._streams, {}
        self.sender.close()
        for stream in streams.values():
            stream.lost()


_EVENTS: Final[dict[type[events.Event], Callable[[Http2Connection, events.Event], int]]] = {
    event: cast("Callable[[Http2Connection, events.Event], int]", take)
    for event, take in (
        (events.RequestReceived, Http2Connection._request_received),
        (events.DataReceived, Http2Connection._data_received),
        (events.StreamEnded, Http2Connection._stream_ended),
        (events.StreamReset, Http2Connection._stream_reset),
        (events.WindowUpdated, Http2Connection._window_updated),
        (events.RemoteSettingsChanged, Http2Connection._settings_changed),
        (events.SettingsAcknowledged, Http2Connection._settings_acknowledged),
        (events.PingAckReceived, Http2Connection._ping_answered),
        (events.TrailersReceived, Http2Connection._trailers_received),
        (events.ConnectionTerminated, Http2Connection._client_leaves),
    )
}
