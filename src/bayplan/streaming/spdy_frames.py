"""Frames of SPDY/3.1, as Kubernetes' clients speak it.

    control: 1 | version (15 bits) | type (16) | flags (8) | length (24) | body
    data:    0 | stream (31 bits)              | flags (8) | length (24) | bytes

Names and values of headers are compressed, all of one direction in one zlib stream with a dictionary that both ends know.
Source: the draft "SPDY Protocol" 3.1, sections 2.2 and 2.6.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_VERSION: Final = 3
_HEAD: Final = struct.Struct(">II")
_NUMBER: Final = struct.Struct(">I")
_CONTROL: Final = 1 << 31
_LONGEST: Final = (1 << 24) - 1
_MOST_HEADERS: Final = 1 << 16
"""Bytes of a stream's headers, read: those of Kubernetes have some dozens."""
FINISH: Final = 1
"""The flag that says that nothing more follows on a stream."""

_WORDS: Final = (
    "options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,accept-language,accept-ranges,age,"
    "allow,authorization,cache-control,connection,content-base,content-encoding,content-language,content-length,"
    "content-location,content-md5,content-range,content-type,date,etag,expect,expires,from,host,if-match,"
    "if-modified-since,if-none-match,if-range,if-unmodified-since,last-modified,location,max-forwards,pragma,"
    "proxy-authenticate,proxy-authorization,range,referer,retry-after,server,te,trailer,transfer-encoding,upgrade,"
    "user-agent,vary,via,warning,www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,public,set-cookie,"
    "keep-alive,origin"
)
_TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = b"".join(_NUMBER.pack(len(word)) + word.encode() for word in _WORDS.split(",")) + _TEXT.encode()
"""What both ends' compression knows from the start."""


class SpdyError(Exception):
    """The other end does not speak the protocol."""


class Control(enum.IntEnum):
    """Types of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


@dataclass(frozen=True, slots=True)
class DataFrame:
    """Bytes of a stream."""

    stream: int
    data: bytes
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class ControlFrame:
    """Anything else. `number`: the stream, or of a ping its number."""

    type: int
    number: int = 0
    headers: Mapping[str, str] | None = None
    """Of SYN_STREAM, SYN_REPLY and HEADERS; names in small letters."""
    is_last: bool = False


Frame = DataFrame | ControlFrame


class FrameReader:
    """Makes frames of the bytes that come."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._headers = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with these bytes. Raises SpdyError."""
        self._waiting += data
        while len(self._waiting) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._waiting)
            end = _HEAD.size + (second & _LONGEST)
            if len(self._waiting) < end:
                return
            body = bytes(self._waiting[_HEAD.size : end])
            del self._waiting[:end]
            is_last = bool(second >> 24 & FINISH)
            if first & _CONTROL:
                yield self._control(first, body, is_last=is_last)
            else:
                yield DataFrame(first, body, is_last)

    def _control(self, first: int, body: bytes, *, is_last: bool) -> ControlFrame:
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise SpdyError(f"version {version} of SPDY is not spoken")
        if kind == Control.SETTINGS:
            return ControlFrame(kind)
        if len(body) < _NUMBER.size:
            raise SpdyError("a control frame is too short")
        number = _NUMBER.unpack_from(body)[0] & ~_CONTROL
        start = {Control.SYN_STREAM: 10, Control.SYN_REPLY: 4, Control.HEADERS: 4}.get(kind)  # type: ignore[call-overload]
        headers = None if start is None else self._read_headers(body[start:])
        return ControlFrame(kind, number, headers, is_last)

    def _read_headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._headers.decompress(block, _MOST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be read: {error}") from error
        if self._headers.unconsumed_tail:
            raise SpdyError("the headers of a stream are too long")
        texts = _texts(plain)
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


def _texts(plain: bytes) -> list[str]:
    """Names and values in turn, of a block that begins with how many pairs there are. Raises SpdyError."""
    try:
        count, at = _NUMBER.unpack_from(plain)[0], _NUMBER.size
        texts = []
        for _ in range(2 * min(count, len(plain))):
            length = _NUMBER.unpack_from(plain, at)[0]
            at += _NUMBER.size
            if at + length > len(plain):
                raise SpdyError("headers end too early")
            texts.append(plain[at : at + length].decode())
            at += length
    except (struct.error, UnicodeDecodeError) as error:
        raise SpdyError(f"headers cannot be read: {error}") from error
    return texts


class FrameWriter:
    """Makes bytes of frames."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=DICTIONARY)

    def data(self, stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        """Bytes of a stream, at most 16 MiB."""
        return _HEAD.pack(stream, (FINISH if is_last else 0) << 24 | len(data)) + data

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """A stream begins: SYN_STREAM, of the usual priority."""
        return _control(Control.SYN_STREAM, _NUMBER.pack(stream) + bytes(6) + self._block(headers))

    def reply(self, stream: int) -> bytes:
        """A stream that the other end began is there: SYN_REPLY."""
        return _control(Control.SYN_REPLY, _NUMBER.pack(stream) + self._block({}))

    def reset(self, stream: int, status: int) -> bytes:
        """A stream ends at once: RST_STREAM."""
        return _control(Control.RST_STREAM, struct.pack(">II", stream, status))

    def ping(self, number: int) -> bytes:
        """A question whether the other end is there, or the answer to one."""
        return _control(Control.PING, _NUMBER.pack(number))

    def go_away(self, last_stream: int) -> bytes:
        """No further streams are taken."""
        return _control(Control.GOAWAY, struct.pack(">II", last_stream, 0))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        plain = _NUMBER.pack(len(headers))
        for name, value in headers.items():
            for text in (name.lower(), value):  # others are refused
                encoded = text.encode()
                plain += _NUMBER.pack(len(encoded)) + encoded
        return self._headers.compress(plain) + self._headers.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: Control, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, len(body)) + body
