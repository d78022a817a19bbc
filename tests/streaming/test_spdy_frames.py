"""Frames of SPDY/3.1."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.streaming.spdy_frames import (
    DICTIONARY,
    Control,
    ControlFrame,
    DataFrame,
    Frame,
    FrameReader,
    FrameWriter,
    SpdyError,
)


def test_the_dictionary_is_the_one_that_both_ends_know() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_frames_are_written_as_the_protocol_says() -> None:
    writer = FrameWriter()
    assert writer.data(3, b"ab", is_last=True) == b"\0\0\0\3\1\0\0\2ab"
    assert writer.ping(7) == b"\x80\3\0\6\0\0\0\4\0\0\0\7"
    assert writer.reset(5, 1) == b"\x80\3\0\3\0\0\0\x08\0\0\0\5\0\0\0\1"
    assert writer.go_away(9) == b"\x80\3\0\7\0\0\0\x08\0\0\0\x09\0\0\0\0"


def test_headers_of_one_direction_share_their_compression() -> None:
    writer, reader = FrameWriter(), FrameReader()
    first, second = writer.open(1, {"streamType": "stdin"}), writer.open(3, {"streamType": "stdin"})
    assert len(second) < len(first)
    assert [each.headers for each in reader.feed(first + second) if isinstance(each, ControlFrame)] == [
        {"streamtype": "stdin"},
        {"streamtype": "stdin"},
    ]


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    sent=st.lists(
        st.one_of(
            st.tuples(st.just("data"), st.binary(max_size=40), st.booleans()),
            st.tuples(st.just("open"), st.dictionaries(TEXT.map(str.lower), TEXT, max_size=3), st.just(False)),
            st.tuples(st.just("ping"), st.none(), st.just(False)),
        ),
        max_size=8,
    ),
    size=st.integers(1, 50),
)
def test_what_is_written_is_read_however_it_comes(
    sent: list[tuple[str, bytes | dict[str, str] | None, bool]], size: int
) -> None:
    writer, reader = FrameWriter(), FrameReader()
    stream, expected = b"", []
    for number, (kind, content, is_last) in enumerate(sent):
        frame: Frame
        if isinstance(content, bytes):
            stream += writer.data(number, content, is_last=is_last)
            frame = DataFrame(number, content, is_last)
        elif isinstance(content, dict):
            stream += writer.open(number, content)
            frame = ControlFrame(Control.SYN_STREAM, number, {key.lower(): value for key, value in content.items()})
        else:
            assert kind == "ping"
            stream += writer.ping(number)
            frame = ControlFrame(Control.PING, number)
        expected.append(frame)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == expected


def compressed(plain: bytes) -> bytes:
    packer = zlib.compressobj(zdict=DICTIONARY)
    return packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)


def syn_stream(block: bytes) -> bytes:
    body = struct.pack(">I", 1) + bytes(6) + block
    return b"\x80\3\0\1" + struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"\x80\2\0\1\0\0\0\0", "version 2", id="version"),
        pytest.param(b"\x80\3\0\6\0\0\0\2ab", "too short", id="short"),
        pytest.param(syn_stream(b"no zlib"), "cannot be read", id="not-compressed"),
        pytest.param(syn_stream(compressed(struct.pack(">II", 1, 99) + b"a")), "too early", id="length"),
        pytest.param(syn_stream(compressed(struct.pack(">I", 9))), "cannot be read", id="count"),
        pytest.param(
            syn_stream(compressed(struct.pack(">II", 1, 1) + b"\xff" + struct.pack(">I", 0))),
            "cannot be read",
            id="text",
        ),
        pytest.param(syn_stream(compressed(bytes(1 << 20))), "too long", id="bomb"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(SpdyError, match=problem):
        list(FrameReader().feed(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    reader = FrameReader()
    try:
        frames = list(reader.feed(data))
    except SpdyError:
        return
    assert all(isinstance(each, DataFrame | ControlFrame) for each in frames)
