"""Frames and header blocks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from bayplan.support.grpc_client import frames
from bayplan.support.grpc_client.frames import FrameReader, ProtocolError, frame
from bayplan.support.grpc_client.headers import HeaderReader, request_block

FRAMES = st.lists(
    st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, (1 << 31) - 1), st.binary(max_size=300)),
    max_size=8,
)


@given(FRAMES, st.lists(st.integers(0, 2000), max_size=8))
def test_frames_come_out_as_they_went_in_however_they_are_cut(sent: list[frames.Frame], cuts: list[int]) -> None:
    data = b"".join(frame(*each) for each in sent)
    reader = FrameReader()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = [each for start, end in pairwise(places) for each in reader.feed(data[start:end])]
    assert found == sent


def test_a_frame_that_is_too_large_is_refused_before_it_has_arrived() -> None:
    head = frame(frames.DATA, 0, 1, b"x" * (frames.FRAME_SIZE + 1))[:9]
    with pytest.raises(ProtocolError) as caught:
        FrameReader().feed(head)
    assert caught.value.code == frames.FRAME_SIZE_ERROR


@pytest.mark.parametrize(
    ("flags", "payload", "content"),
    [
        (0, b"abc", b"abc"),
        (frames.PADDED, b"\x02abc\0\0", b"abc"),
        (frames.PRIORITY, bytes(5) + b"abc", b"abc"),
        (frames.PADDED | frames.PRIORITY, b"\x01" + bytes(5) + b"abc\0", b"abc"),
        (frames.PADDED, b"\x03abc", b""),
    ],
)
def test_padding_and_priority_are_no_content(flags: int, payload: bytes, content: bytes) -> None:
    assert frames.content_of(flags, payload) == content


@pytest.mark.parametrize(
    ("flags", "payload"), [(frames.PADDED, b"\x04abc"), (frames.PADDED, b""), (frames.PRIORITY, b"abc")]
)
def test_more_padding_than_payload_is_refused(flags: int, payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        frames.content_of(flags, payload)


@pytest.mark.parametrize(("read", "payload"), [(frames.number_of, b"abc"), (frames.settings_of, b"\0\1\0\0\0")])
def test_payloads_that_end_early_are_refused(read: object, payload: bytes) -> None:
    assert callable(read)
    with pytest.raises(ProtocolError):
        read(payload)


def test_blocks_are_read_by_those_who_have_read_others_before_and_by_those_who_have_not() -> None:
    blocks = [request_block("here:1", "http", f"/a/{one}", "3S", (("token", "secret"),)) for one in ("B", "C")]
    decoder = Decoder()
    for each, block in zip("BC", blocks, strict=True):
        expected = [
            (":method", "POST"), (":scheme", "http"), (":path", f"/a/{each}"), (":authority", "here:1"), ("te", "trailers"),
            ("content-type", "application/grpc"), ("user-agent", "bayplan"), ("grpc-timeout", "3S"), ("token", "secret"),
        ]  # fmt: skip
        for reader in (decoder, Decoder()):
            assert [(str(name), str(value)) for name, value in reader.decode(block)] == expected


def test_a_peer_that_refers_to_headers_it_sent_before_is_refused() -> None:
    reader, encoder = HeaderReader(), Encoder()
    assert reader.read(encoder.encode([("grpc-status", "0")])) == {"grpc-status": "0"}
    with pytest.raises(ProtocolError):
        reader.read(encoder.encode([("grpc-status", "0"), ("grpc-message", "")]))
    encoder.header_table_size = 0
    assert reader.read(encoder.encode([("grpc-status", "0")])) == {"grpc-status": "0"}


def test_headers_of_a_peer_that_has_not_said_how_large_its_table_is() -> None:
    """As `close_from_api` of C++ gRPC writes them, for a call whose deadline is over: literals that are to be kept nowhere."""
    literal = b"\x00\x0bgrpc-status\x014"
    assert HeaderReader().read(literal) == {"grpc-status": "4"}


def test_what_is_no_block_is_refused() -> None:
    with pytest.raises(ProtocolError):
        HeaderReader().read(b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")


def test_many_different_blocks_are_all_read() -> None:
    reader, encoder = HeaderReader(), Encoder()
    encoder.header_table_size = 0
    for number in range(600):
        assert reader.read(encoder.encode([("grpc-message", str(number))])) == {"grpc-message": str(number)}
