"""A client that speaks HTTP/2 over TLS on loopback, and can send any frame."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from hyperframe.frame import Frame, GoAwayFrame

from bayplan.apiserver.settings import ApiServerSettings
from bayplan.store.interface import Store
from tests.apiserver.serving import AS_RECORDED, Served, served

MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 20.0


@dataclasses.dataclass
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class _State(H2Connection):
    """Goes on after a GOAWAY, as clients of Go do."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        kept = bytes(self._data_to_send)
        found = super()._receive_goaway_frame(frame)
        self._data_to_send += kept
        self.state_machine.state = ConnectionState.CLIENT_OPEN
        return found


class Http2Client:
    """One connection. Windows are opened as data comes, unless `reads` is off."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Served) -> None:
        self._reader = reader
        self.writer = writer
        self._server = server
        self.state = _State(
            H2Configuration(
                client_side=True,
                header_encoding="utf-8",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.is_silent = False
        """Whether only the test sends."""
        self.reads = True
        """Whether data that comes opens the windows again."""
        self.events: list[Event] = []
        self.heads: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytearray] = defaultdict(bytearray)
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        """Stream -> error code."""
        self.goaways: list[tuple[int, int | None]] = []
        """Error code and last stream of each."""
        self.continued: set[int] = set()
        """Streams on which the server has asked for the body."""
        self.is_closed = False
        """Whether the server has closed the connection."""
        self.sends_frames_itself = False
        """Whether frames are sent that `state` knows nothing of: an answer that it does not expect ends the reading then."""
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := await self._reader.read(1 << 16):
                try:
                    events = self.state.receive_data(data)
                except ProtocolError:
                    if self.sends_frames_itself:
                        break
                    raise
                for event in events:
                    self._take(event)
                self.flush()
                self._changed.set()
        self.is_closed = True
        self._changed.set()

    def _take(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case InformationalResponseReceived():
                self.continued.add(event.stream_id)
            case ResponseReceived():
                self.heads[event.stream_id] = dict(event.headers)  # type: ignore[arg-type]
            case DataReceived():
                self.bodies[event.stream_id] += event.data
                if self.reads and event.flow_controlled_length:
                    self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self.ended.add(event.stream_id)
            case StreamReset():
                self.resets[event.stream_id] = int(event.error_code)
            case ConnectionTerminated():
                self.goaways.append((int(event.error_code or 0), event.last_stream_id))

    def flush(self) -> None:
        """Send the frames that there are."""
        if not self.is_silent and (data := self.state.data_to_send()) and not self.writer.is_closing():
            self.writer.write(data)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises TimeoutError."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def until_more(self) -> None:
        """Wait until something more has come. Raises TimeoutError."""
        before = len(self.events)
        await self.until(lambda: len(self.events) > before)

    async def until_heads(self, streams: Sequence[int]) -> None:
        """Wait until the responses on streams have begun. Raises TimeoutError."""
        await self.until(lambda: all(stream in self.heads for stream in streams))

    async def until_goaway(self) -> None:
        """Wait until the server has sent a GOAWAY. Raises TimeoutError."""
        await self.until(lambda: bool(self.goaways))

    def fields(self, method: str, path: str, *further: tuple[str, str]) -> list[tuple[str, str]]:
        """The header fields of a request of the administrator."""
        authority = self._server.url.removeprefix("https://")
        pseudo = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
        token = self._server.headers()["Authorization"]
        return [*pseudo, ("authorization", token), ("accept", "application/json"), ("user-agent", "test/1"), *further]

    def begin(self, method: str, path: str, *further: tuple[str, str], ends: bool = True) -> int:
        """Send the head of a request; its stream."""
        return self.send(self.fields(method, path, *further), ends=ends)

    def send(self, fields: list[tuple[str, str]], *, ends: bool = True) -> int:
        """Send header fields as they are; their stream."""
        stream = self.state.get_next_available_stream_id()
        self.state.send_headers(stream, fields, end_stream=ends)
        self.flush()
        return stream

    async def send_body(self, stream: int, body: bytes) -> None:
        """Send a body as far as windows allow, and the rest as they open; nothing more once the stream has been reset."""
        while body and stream not in self.resets and stream not in self.ended:
            window = min(self.state.local_flow_control_window(stream), self.state.max_outbound_frame_size)
            if window <= 0:
                await self.until_more()
                continue
            piece, body = body[:window], body[window:]
            self.state.send_data(stream, piece, end_stream=not body)
            self.flush()

    async def answer(self, stream: int) -> Answer:
        """The response on a stream, once it is there. Raises TimeoutError."""
        await self.until(lambda: stream in self.ended or stream in self.resets or self.is_closed)
        assert stream in self.ended, f"stream {stream} was reset with {self.resets.get(stream)}"
        head = self.heads[stream]
        return Answer(int(head[":status"]), head, bytes(self.bodies[stream]))

    async def ask(self, method: str, path: str, body: Any = None, *further: tuple[str, str]) -> Answer:
        """Send a request and wait for its response. body: bytes, or what is sent as JSON."""
        if body is None:
            return await self.answer(self.begin(method, path, *further))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = () if any(name == "content-type" for name, _ in further) else (("content-type", "application/json"),)
        stream = self.begin(method, path, *kind, ("content-length", str(len(data))), *further, ends=False)
        await self.send_body(stream, data)
        return await self.answer(stream)

    async def close(self) -> None:
        """Close the connection."""
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def connected(server: Served, *, greets: bool = True) -> AsyncIterator[Http2Client]:
    """A connection that has agreed on HTTP/2. greets: whether the client sends its preface."""
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    trust.set_alpn_protocols(["h2", "http/1.1"])
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), ssl=trust)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    client = Http2Client(reader, writer, server)
    client.is_silent = not greets
    if greets:
        client.state.initiate_connection()
        client.flush()
    try:
        yield client
    finally:
        await client.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  (nothing sets an event)
            await asyncio.sleep(0.01)


def http2_settings(**changes: Any) -> ApiServerSettings:
    """Settings with HTTP/2."""
    return dataclasses.replace(AS_RECORDED, http2=True, **changes)


@contextlib.asynccontextmanager
async def http2_served(store: Store | None = None, **changes: Any) -> AsyncIterator[tuple[Served, Http2Client]]:
    """A server that speaks HTTP/2, and a client of it."""
    async with served(http2_settings(**changes), store=store) as server, connected(server) as client:
        yield server, client
