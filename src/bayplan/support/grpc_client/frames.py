"""Frames of HTTP/2: 24 bits of length, 8 of type, 8 of flags, 32 of stream, then the payload (RFC 9113, sections 4 and 6)."""

from __future__ import annotations

from struct import Struct
from typing import Final

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
"""Types."""
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
"""Flags."""
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 3, 4, 5
"""Settings."""
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 0x0, 0x1, 0x3, 0x6, 0x7, 0x8
ENHANCE_YOUR_CALM, INADEQUATE_SECURITY = 0xB, 0xC
"""Errors."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_SIZE: Final = 16_384
"""Bytes of the largest payload, unless a side says that it takes more; this one does not."""
DEFAULT_WINDOW: Final = 65_535
"""Bytes that may be on their way before the other side has said more, on a stream and on the connection."""
LARGEST_WINDOW: Final = (1 << 31) - 1

Frame = tuple[int, int, int, bytes]
"""Type, flags, stream, payload."""

_HEAD: Final = Struct(">IBI")
_SETTING: Final = Struct(">HI")
_NUMBER: Final = Struct(">I")


class ProtocolError(Exception):
    """The other side does not keep to the protocol. `code`: HTTP/2's error."""

    def __init__(self, message: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame as bytes."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def settings_frame(settings: dict[int, int]) -> bytes:
    """The frame that tells settings."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in settings.items()))


def window_update(stream: int, size: int) -> bytes:
    """The frame that lets the other side send so many bytes more."""
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(size))


def reset_frame(stream: int, code: int) -> bytes:
    """The frame that ends a stream."""
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway_frame(code: int) -> bytes:
    """The frame before a connection is closed; this side takes no streams of the other one."""
    return frame(GOAWAY, 0, 0, _NUMBER.pack(0) + _NUMBER.pack(code))


def number_of(payload: bytes, at: int = 0) -> int:
    """The 32-bit number at a place of a payload. Raises ProtocolError if it ends before."""
    if len(payload) < at + 4:
        raise ProtocolError("a frame is shorter than its type requires", FRAME_SIZE_ERROR)
    number: int = _NUMBER.unpack_from(payload, at)[0]
    return number


def settings_of(payload: bytes) -> dict[int, int]:
    """The settings of a frame. Raises ProtocolError."""
    if len(payload) % _SETTING.size:
        raise ProtocolError("a frame of settings ends within one", FRAME_SIZE_ERROR)
    return dict(_SETTING.iter_unpack(payload))


def content_of(flags: int, payload: bytes) -> bytes:
    """What a frame of data or headers carries, without padding and priority. Raises ProtocolError."""
    if not flags & (PADDED | PRIORITY):
        return payload
    start, end = 0, len(payload)
    if flags & PADDED:
        start, end = 1, end - (payload[0] if payload else 0)
    if flags & PRIORITY:
        start += 5
    if start > end:
        raise ProtocolError("a frame has more padding than payload")
    return payload[start:end]


class FrameReader:
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now. Raises ProtocolError if one is larger than this side takes."""
        if self._rest:
            data = self._rest + data
        found: list[Frame] = []
        start, end = 0, len(data)
        while end - start >= _HEAD.size:
            head, flags, stream = _HEAD.unpack_from(data, start)
            size = head >> 8
            if size > FRAME_SIZE:
                raise ProtocolError(f"a frame of {size} bytes, at most {FRAME_SIZE} are taken", FRAME_SIZE_ERROR)
            behind = start + _HEAD.size + size
            if behind > end:
                break
            found.append((head & 0xFF, flags, stream & 0x7FFFFFFF, data[start + _HEAD.size : behind]))
            start = behind
        self._rest = data[start:]
        return found
