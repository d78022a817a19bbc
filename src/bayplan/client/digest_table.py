"""What is remembered of thousands of things that came and went, in one block of bytes of constant size: as objects, a few of each, it would lie scattered
over memory that could otherwise be given back.

    place of a digest    first bytes -> one of SETS sets of WAYS rows, those that were written last in front; in a full set the last one goes
    row                  digest of the key (16 bytes), values
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
        self._size = self._row.size
        self._rows = bytearray()

    def get(self, digest: bytes) -> tuple[Any, ...] | None:
        """The values of a row."""
        at = self._find(digest, self._set_of(digest))
        return self._row.unpack_from(self._rows, at)[1:] if at >= 0 else None

    def take(self, digest: bytes) -> tuple[Any, ...] | None:
        """The values of a row, which comes to the front of its set; None if it is a new one. To be written then."""
        size = self._size
        if not self._rows:
            self._rows = bytearray(SETS * WAYS * size)
        rows, start = self._rows, self._set_of(digest)
        at = self._find(digest, start)
        found = self._row.unpack_from(rows, at)[1:] if at >= 0 else None
        if at < 0:
            at = start + (WAYS - 1) * size
        if at != start:
            rows[start + size : at + size] = rows[start:at]
        return found

    def write(self, digest: bytes, *values: Any) -> None:
        """Write the row that was taken last of its set."""
        self._row.pack_into(self._rows, self._set_of(digest), digest, *values)

    def _find(self, digest: bytes, start: int) -> int:
        """Where the row of a digest begins, in the set that begins there; -1 if there is none."""
        size = self._size
        end = start + WAYS * size
        at = self._rows.find(digest, start, end)
        while at >= 0 and (at - start) % size:
            at = self._rows.find(digest, at + 1, end)
        return at

    def _set_of(self, digest: bytes) -> int:
        return (digest[0] << 8 | digest[1]) % SETS * WAYS * self._size
