"""Which events one component has written lately, so that a repeated one is counted and not written again.

A component of a busy cluster writes thousands of events an hour, most of them once. They are remembered in one block of bytes of constant size: as objects, a
few of each pod that came and went, they would lie scattered over memory that could otherwise be given back.

    place of a digest    first bytes -> one of SETS sets of WAYS rows; in a full set the row that was used the longest time ago goes
    row                  digest of the key (16 bytes), end of the event's name (8), count (4), Unix seconds of the last use (4)
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from bayplan.client.event_correlation import Key

_ROW: Final = struct.Struct("=16s8sII")
_DIGEST_BYTES: Final = 16
WAYS: Final = 8
SETS: Final = 512
KEPT_SECONDS: Final = 3600
"""After so long the server has forgotten an event that was not repeated."""
_SET_BYTES: Final = WAYS * _ROW.size
_MOST: Final = 0xFFFF_FFFF


class WrittenEvents:
    """A bounded memory of keys of events. Times are Unix seconds."""

    def __init__(self) -> None:
        self._rows = bytearray()

    def count(self, key: Key, now: float) -> tuple[str, int] | None:
        """Count one more. Returns the end of the name under which the event was written first, and how often it came since; None if it is not known."""
        if not self._rows:
            return None
        digest = _digest(key)
        at = self._find(digest)
        if at is None:
            return None
        _, ending, count, used = _ROW.unpack_from(self._rows, at)
        if now - used > KEPT_SECONDS:
            return None
        count = min(count + 1, _MOST)
        _ROW.pack_into(self._rows, at, digest, ending, count, _seconds(now))
        return ending.hex(), count

    def put(self, key: Key, ending: str, now: float) -> None:
        """Remember an event that is written for the first time. ending: 16 hexadecimal digits."""
        if not self._rows:
            self._rows = bytearray(SETS * _SET_BYTES)
        digest = _digest(key)
        at = self._find(digest)
        if at is None:
            rows = range(_set_of(digest), _set_of(digest) + _SET_BYTES, _ROW.size)
            at = min(rows, key=lambda row: _ROW.unpack_from(self._rows, row)[3])
        _ROW.pack_into(self._rows, at, digest, bytes.fromhex(ending), 1, _seconds(now))

    def _find(self, digest: bytes) -> int | None:
        """Where the row of a digest begins."""
        start = _set_of(digest)
        at = self._rows.find(digest, start, start + _SET_BYTES)
        while at >= 0 and (at - start) % _ROW.size:
            at = self._rows.find(digest, at + 1, start + _SET_BYTES)
        return at if at >= 0 else None


def _digest(key: Key) -> bytes:
    return hashlib.blake2b("\0".join(key).encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _set_of(digest: bytes) -> int:
    return int.from_bytes(digest[:4]) % SETS * _SET_BYTES


def _seconds(now: float) -> int:
    return min(max(int(now), 0), _MOST)
