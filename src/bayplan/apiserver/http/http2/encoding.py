"""Header fields of responses as bytes, without a dynamic table.

What a response says anew (its audit ID, its length, the date) would push out of a table what could be found there, and a table is searched for each field: that
costs more than it saves on the wire. So the table has no entries, which is said once at the beginning, and each field is a literal, or one of the static table.

    >>> FieldEncoder().encode([(b":status", b"200"), (b"etag", b"x")]).hex(" ")
    '20 88 0f 13 01 78'

Source: RFC 7541, sections 5 and 6, appendix A.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

_SIZE_IS_ZERO: Final = b"\x20"
"""The dynamic table has room for nothing (section 6.3)."""
_STATUS: Final = {
    b"200": b"\x88",
    b"204": b"\x89",
    b"206": b"\x8a",
    b"304": b"\x8b",
    b"400": b"\x8c",
    b"404": b"\x8d",
    b"500": b"\x8e",
}
_NAMES: Final = {
    b":status": 8, b"accept-ranges": 18, b"access-control-allow-origin": 20, b"age": 21, b"allow": 22, b"cache-control": 24,
    b"content-disposition": 25, b"content-encoding": 26, b"content-language": 27, b"content-length": 28, b"content-location": 29,
    b"content-range": 30, b"content-type": 31, b"date": 33, b"etag": 34, b"expires": 36, b"last-modified": 44, b"link": 45,
    b"location": 46, b"retry-after": 53, b"server": 54, b"set-cookie": 55, b"strict-transport-security": 56, b"vary": 59,
    b"via": 60, b"www-authenticate": 61,
}  # fmt: skip
"""Indexes in the static table."""


class FieldEncoder:
    """Encodes the header fields of one connection's responses; takes the place of h2's encoder."""

    __slots__ = ("_has_started", "header_table_size")

    def __init__(self) -> None:
        self._has_started = False
        self.header_table_size = 0
        """What h2 says that the client's table may have."""

    def encode(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """A header block. Names are in lower case."""
        parts = [_name(name) + _text(value) if name != b":status" else _status(value) for name, value in fields]
        if not self._has_started:
            self._has_started = True
            parts.insert(0, _SIZE_IS_ZERO)
        return b"".join(parts)


@functools.lru_cache(maxsize=1024)
def _name(name: bytes) -> bytes:
    """A literal field without indexing (section 6.2.2) as far as its value."""
    index = _NAMES.get(name)
    return _number(index, 4, 0) if index is not None else b"\x00" + _text(name)


@functools.lru_cache(maxsize=128)
def _status(value: bytes) -> bytes:
    return _STATUS.get(value) or _name(b":status") + _text(value)


def _text(text: bytes) -> bytes:
    """Section 5.2, without Huffman's code."""
    size = len(text)
    return bytes((size,)) + text if size < 127 else _number(size, 7, 0) + text


def _number(value: int, bits: int, first: int) -> bytes:
    """Section 5.1. first: what stands before the number in its first byte."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((first | value,))
    found = bytearray((first | limit,))
    value -= limit
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
