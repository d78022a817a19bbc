"""Where frames begin in what a client sends: their sizes are checked and their number is known before the library reads them, which waits for whole frames."""

from __future__ import annotations

from typing import Final

from h2.errors import ErrorCodes

MOST_BYTES: Final = 16_384
"""Of a frame's payload: what clients keep to unless they are told otherwise."""
_PREFACE: Final = 24
"""Bytes with which each connection begins."""
_HEAD: Final = 9
_GOAWAY, _CONTINUATION = 7, 9
_MOST_CONTINUATIONS: Final = 64
"""Frames of one block of header fields, which is longer than any that is read."""


class ConnectionFailure(Exception):
    """The client does not speak HTTP/2, or floods the server."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class FrameScanner:
    """Follows the frames of one connection."""

    __slots__ = ("_continuations", "_goaway", "_head", "_left", "frames")

    def __init__(self) -> None:
        self.frames = 0
        """Frames that have started."""
        self._left = _PREFACE
        """Bytes of the present frame that have not come."""
        self._head = b""
        """The beginning of a frame's head whose end has not come."""
        self._goaway = False
        """Whether the present frame is a GOAWAY."""
        self._continuations = 0

    def feed(self, data: bytes) -> list[int]:
        """Where in these bytes GOAWAY frames begin and end, as far as they do. Raises ConnectionFailure."""
        at, size, goaways = 0, len(data), []
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                at += step
                self._left -= step
            else:
                missing = _HEAD - len(self._head)
                self._head += data[at : at + missing]
                at += missing
                if len(self._head) < _HEAD:
                    break
                self._begin(self._head)
                self._head = b""
                if self._goaway:
                    goaways.append(max(at - _HEAD, 0))
            if self._goaway and not self._left:
                goaways.append(at)
                self._goaway = False
        return goaways

    def _begin(self, head: bytes) -> None:
        """Take the head of a frame. Raises ConnectionFailure."""
        self._left = int.from_bytes(head[:3])
        kind = head[3]
        self.frames += 1
        if self._left > MOST_BYTES:
            raise ConnectionFailure(ErrorCodes.FRAME_SIZE_ERROR, "a frame is too large")
        if kind == _CONTINUATION:
            self._continuations += 1
            if self._continuations >= _MOST_CONTINUATIONS:
                raise ConnectionFailure(ErrorCodes.ENHANCE_YOUR_CALM, "too many frames of one block of header fields")
        else:
            self._continuations = 0
        self._goaway = kind == _GOAWAY
