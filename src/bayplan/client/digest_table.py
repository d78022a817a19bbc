"""What is remembered of thousands of things that came and went, in one block of bytes of constant size: as objects, a few of each, it would lie scattered
over memory that could otherwise be given back.

    place of a digest    first bytes -> one of SETS sets of WAYS rows; in a full set the row that was used the longest time ago goes
    row                  digest of the key (16 bytes), values, of which the last one says when it was used
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Final

Key = tuple[str, ...]
WAYS: Final = 8
SETS: Final = 512


def digest_of(*key: str) -> bytes:
    """16 bytes that stand for a key."""
    return hashlib.blake2b("\0".join(key).encode(errors="surrogatepass"), digest_size=16).digest()


class DigestTable:
    """A bounded table of rows of numbers and bytes, by the digest of their key."""

    def __init__(self, values: str) -> None:
        """values: their formats as in `struct`, without padding."""
        self._row = struct.Struct(f"=16s{values}")
        self._rows = bytearray()

    def get(self, digest: bytes) -> tuple[Any, ...] | None:
        """The values of a row."""
        at = self._find(digest)
        return None if at is None else self._row.unpack_from(self._rows, at)[1:]

    def put(self, digest: bytes, *values: Any) -> None:
        """Write a row, the last value of which is when that was."""
        if not self._rows:
            self._rows = bytearray(SETS * WAYS * self._row.size)
        at = self._find(digest)
        if at is None:
            start = self._set_of(digest)
            rows = range(start, start + WAYS * self._row.size, self._row.size)
            at = min(rows, key=lambda row: self._row.unpack_from(self._rows, row)[-1])
        self._row.pack_into(self._rows, at, digest, *values)

    def _find(self, digest: bytes) -> int | None:
        """Where the row of a digest begins."""
        start, size = self._set_of(digest), self._row.size
        at = self._rows.find(digest, start, start + WAYS * size)
        while at >= 0 and (at - start) % size:
            at = self._rows.find(digest, at + 1, start + WAYS * size)
        return at if at >= 0 else None

    def _set_of(self, digest: bytes) -> int:
        return int.from_bytes(digest[:4]) % SETS * WAYS * self._row.size
