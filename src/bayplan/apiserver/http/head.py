"""The head of an HTTP/1 request (request line and headers), checked before aiohttp parses it, and how long the body is that follows.

Clients get the answers of Go's `net/http` (`readRequest`, `readTransfer`): 400, 417, 431, 501 or 505 as text, after which the connection is closed. Where Go
accepts more than one reading of a request (line feeds without carriage returns, both Content-Length and Transfer-Encoding), it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

HEAD_LIMIT: Final = (1 << 20) + 4096
"""Bytes of a head, as in Go: MaxHeaderBytes and some slack."""

PARSED_METHODS: Final = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE"))
"""Methods that parsers know; requests with other ones are answered, too."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(%b) ([^ \x00-\x20\x7f]+) HTTP/(\d)\.(\d)" % _TOKEN)
_HEADER = re.compile(rb"(%b):[ \t]*(.*?)[ \t]*" % _TOKEN, re.DOTALL)
_NOT_IN_VALUES = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n|^[^!#-'*+.^_`|~0-9A-Za-z\r\n-]")
_HOST = re.compile(rb"[!$%&'()*+,;=:._~\[\]0-9A-Za-z@-]*")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_LONGEST_NUMBER = 18
"""Digits of a Content-Length."""


class Refusal(NamedTuple):
    """Why a request is not read any further."""

    status: HTTPStatus
    reason: str = ""

    @property
    def text(self) -> str:
        """The body of the answer."""
        title = f"{self.status.value} {self.status.phrase}"
        return f"{title}: {self.reason}" if self.reason else title

    def answer(self) -> bytes:
        """The answer as Go writes it: the end of the connection is the end of the body."""
        title = f"{self.status.value} {self.status.phrase}"
        body = self.text.encode()
        if self.status == HTTPStatus.EXPECTATION_FAILED:
            return f"HTTP/1.1 {title}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
        kind = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        return f"HTTP/1.1 {title}\r\n{kind}".encode() + body


class Head(NamedTuple):
    """What a head says about its request's way through the connection."""

    length: int | None
    """Bytes of the body; None if it comes in chunks."""
    upgrades: bool
    """Whether the connection may go on in another protocol."""
    is_ping: bool
    """Whether it is `OPTIONS *`, which concerns the server and no resource."""


def refusal_of_beginning(data: bytearray, seen: int) -> Refusal | None:
    """Why the beginning of a head can no longer become one that is accepted; None if it can. seen: bytes that were looked at before."""
    if _BARE_LINE_FEED.search(data, seen):
        return _BAD
    return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) if len(data) > HEAD_LIMIT else None


def read_head(data: bytes) -> Head | Refusal:
    """What a head says, or why its request is refused. data: from the request line to the line before the empty one."""
    if len(data) > HEAD_LIMIT:
        return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    if data.count(b"\n") != data.count(b"\r\n"):
        return _BAD
    first, *lines = data.split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        return _BAD
    method, target, major, minor = line.groups()
    if (major, minor) not in ((b"1", b"1"), (b"1", b"0")):
        return Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "unsupported protocol version")
    if refusal := _refusal_of_target(method, target):
        return refusal
    headers: dict[bytes, list[bytes]] = {}
    for one in lines:
        header = _HEADER.fullmatch(one)
        if header is None:
            return _BAD
        if _NOT_IN_VALUES.search(header[2]):
            return Refusal(HTTPStatus.BAD_REQUEST, "invalid header value")
        headers.setdefault(header[1].lower(), []).append(header[2])
    is_1_1 = minor == b"1"
    if refusal := _refusal_of_host(headers.get(b"host", ()), is_1_1=is_1_1):
        return refusal
    length = _length(headers, is_1_1=is_1_1)
    if isinstance(length, Refusal):
        return length
    expected = headers.get(b"expect", ())
    if is_1_1 and expected and [one.lower() for one in expected] != [b"100-continue"]:
        return Refusal(HTTPStatus.EXPECTATION_FAILED)
    return Head(length, b"upgrade" in headers, target == b"*")


_BAD = Refusal(HTTPStatus.BAD_REQUEST)


def _refusal_of_target(method: bytes, target: bytes) -> Refusal | None:
    if method == b"CONNECT":
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED)  # this is no forward proxy
    if target == b"*":
        return None if method == b"OPTIONS" else _BAD
    if not target.startswith((b"/", b"http://", b"https://")):
        return _BAD
    return _BAD if _BAD_ESCAPE.search(target.partition(b"?")[0]) else None


def _refusal_of_host(hosts: Sequence[bytes], *, is_1_1: bool) -> Refusal | None:
    if not hosts:
        return Refusal(HTTPStatus.BAD_REQUEST, "missing required Host header") if is_1_1 else None
    if len(hosts) > 1:
        return Refusal(HTTPStatus.BAD_REQUEST, "too many Host headers")
    return None if _HOST.fullmatch(hosts[0]) else Refusal(HTTPStatus.BAD_REQUEST, "malformed Host header")


def _length(headers: dict[bytes, list[bytes]], *, is_1_1: bool) -> int | Refusal | None:
    """Bytes of the body, None for chunks, or why the headers are refused: requests whose end is open to interpretation are how requests are smuggled."""
    encodings, lengths = headers.get(b"transfer-encoding", ()), headers.get(b"content-length", ())
    if encodings:
        if not is_1_1 or lengths:
            return _BAD
        if [one.lower() for one in encodings] != [b"chunked"]:
            return Refusal(HTTPStatus.NOT_IMPLEMENTED, "Unsupported transfer encoding")
        return None
    if not lengths:
        return 0
    text = lengths[0]
    if len(lengths) > 1 or not (text.isdigit() and len(text) <= _LONGEST_NUMBER):
        return _BAD
    return int(text)


class ChunkedBody:
    """Finds the end of a body in chunks; what the chunks hold is left to the parser."""

    __slots__ = ("_left", "_line", "_state")

    _SIZE, _DATA, _DATA_END, _TRAILER = range(4)
    _LONGEST_LINE = 4096
    """Bytes of a line with a chunk's size, or of a trailer."""

    def __init__(self) -> None:
        self._state = self._SIZE
        self._line = b""
        """The beginning of a line whose end has not come."""
        self._left = 0
        """Bytes of the present chunk that have not come."""

    def feed(self, data: bytes) -> int:
        """How many bytes belong to the body, if it ends in them; -1 if it goes on. Raises ValueError if these are no chunks."""
        at = 0
        while at < len(data):
            if self._state == self._DATA:
                taken = min(self._left, len(data) - at)
                at += taken
                self._left -= taken
                if not self._left:
                    self._state = self._DATA_END
                continue
            end = data.find(b"\n", at)
            self._line += data[at : end + 1] if end >= 0 else data[at:]
            if len(self._line) > self._LONGEST_LINE:
                raise ValueError("a line between chunks is too long")
            if end < 0:
                return -1
            at = end + 1
            if self._ends_with(self._line):
                return at
            self._line = b""
        return -1

    def _ends_with(self, line: bytes) -> bool:
        """Take a whole line; True if it is the last one. Raises ValueError."""
        if not line.endswith(b"\r\n"):
            raise ValueError("a line between chunks ends without a carriage return")
        text = line[:-2]
        if self._state == self._TRAILER:
            return not text
        if self._state == self._DATA_END:
            if text:
                raise ValueError("a chunk is longer than it says")
            self._state = self._SIZE
            return False
        size = text.partition(b";")[0].rstrip(b" \t")
        if not 0 < len(size) <= 15 or not all(one in b"0123456789abcdefABCDEF" for one in size):
            raise ValueError("the size of a chunk is no number")
        self._left = int(size, 16)
        self._state = self._DATA if self._left else self._TRAILER
        return False
