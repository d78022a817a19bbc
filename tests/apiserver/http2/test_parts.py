"""The pure parts of HTTP/2, and frames in any order."""

from __future__ import annotations

import asyncio
import doctest

import pytest
from h2.connection import H2Connection
from h2.events import PingAckReceived
from hpack import Decoder
from hyperframe.frame import Frame
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.apiserver.http.http2 import encoding, flood_limit
from bayplan.apiserver.http.http2.encoding import FieldEncoder
from bayplan.apiserver.http.http2.frames import ConnectionFailure, FrameScanner
from tests.apiserver.http2.http2_client import MAPS, Http2Client, connected, http2_served, until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("module", [encoding, flood_limit])
def test_examples_are_true(module: object) -> None:
    failures, attempted = doctest.testmod(module)  # type: ignore[arg-type]
    assert attempted
    assert not failures


TEXTS = st.binary(max_size=300).filter(lambda text: b"\0" not in text)
NAMES = st.one_of(
    st.sampled_from([b":status", b"content-type", b"x-own", b"retry-after"]), st.binary(min_size=1, max_size=200)
)


@given(st.lists(st.lists(st.tuples(NAMES, TEXTS), max_size=6), max_size=4))
def test_fields_are_decoded_as_they_were_encoded(blocks: list[list[tuple[bytes, bytes]]]) -> None:
    encoder, decoder = FieldEncoder(), Decoder()
    for fields in blocks:
        found = decoder.decode(encoder.encode(fields), raw=True)
        assert [(bytes(name), bytes(value)) for name, value in found] == fields
        assert not decoder.header_table.dynamic_entries


FRAMES = st.tuples(st.integers(0, 12), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=60))


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


@given(st.lists(FRAMES, max_size=20), st.integers(1, 50))
def test_frames_are_counted_however_they_are_cut(frames: list[tuple[int, int, int, bytes]], step: int) -> None:
    data = PREFACE + b"".join(frame(*one) for one in frames)
    scanner, goaways = FrameScanner(), []
    for at in range(0, len(data), step):
        goaways += [at + end for end in scanner.feed(data[at : at + step])]
    assert scanner.frames == len(frames)
    ends, at = [], len(PREFACE)
    for kind, _, _, payload in frames:
        at += 9 + len(payload)
        if kind == 7:
            ends.append(at)
    assert [one for one in dict.fromkeys(goaways) if one in ends] == ends


def test_a_frame_is_refused_by_its_head() -> None:
    scanner = FrameScanner()
    scanner.feed(PREFACE + frame(0, 0, 1, b"")[:3])
    with pytest.raises(ConnectionFailure):
        FrameScanner().feed(PREFACE + (16_385).to_bytes(3) + b"\0" * 6)


def heads(state: H2Connection, stream: int, *, ends: bool) -> bytes:
    state.send_headers(
        stream,
        [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", f"{MAPS}?watch=1")],
        end_stream=ends,
    )
    return state.data_to_send()


ACTIONS = st.one_of(
    FRAMES.map(lambda one: frame(*one)),
    st.sampled_from([b"head", b"open head"]),
    st.tuples(st.integers(1, 15), st.sampled_from([0, 8])).map(lambda one: frame(3, 0, one[0], one[1].to_bytes(4))),
    st.tuples(st.integers(0, 15), st.integers(1, 1 << 20)).map(lambda one: frame(8, 0, one[0], one[1].to_bytes(4))),
    st.tuples(st.integers(1, 15), st.integers(0, 1), st.binary(max_size=100)).map(
        lambda one: frame(0, one[1], one[0], one[2])
    ),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(ACTIONS, max_size=15), min_size=1, max_size=15))
def test_frames_in_any_order_leave_nothing_behind(connections: list[list[bytes]]) -> None:
    """Not a stream, a watch, a request in flight or a connection; and another client is answered as ever."""

    async def run() -> None:
        async with http2_served() as (server, other):
            for actions in connections:
                async with connected(server) as client:
                    await client.until_more()
                    client.sends_frames_itself = True
                    await act(client, actions)
                    client.writer.write(frame(6, 0, 0, b"12345678"))
                    await client.until(
                        lambda: client.is_closed or any(isinstance(one, PingAckReceived) for one in client.events)
                    )
            http, gate = server.http, server.api.gate
            assert gate is not None
            await until(lambda: http._connections is not None and http._connections.http2_count == 1)
            await until(lambda: not http._watches._streams and not gate.executing[True])
            assert (await other.ask("GET", "/version")).status == 200

    asyncio.run(run())


async def act(client: Http2Client, actions: list[bytes]) -> None:
    stream = 1
    for action in actions:
        if action in (b"head", b"open head"):
            client.writer.write(heads(client.state, stream, ends=action == b"head"))
            stream += 2
        else:
            client.writer.write(action)
        await asyncio.sleep(0)


def test_every_kind_of_frame_is_known_to_the_library() -> None:
    """The numbers that the scanner looks for are those of the library."""
    from hyperframe.frame import ContinuationFrame, GoAwayFrame

    assert (GoAwayFrame.type, ContinuationFrame.type) == (7, 9)
    assert issubclass(GoAwayFrame, Frame)
