"""Which events one component has written lately, so that a repeated one is counted and not written again."""

from __future__ import annotations

from typing import Final

from bayplan.client.digest_table import DigestTable, Key, digest_of

KEPT_SECONDS: Final = 3600
"""After so long the server has forgotten an event that was not repeated."""
_MOST: Final = 0xFFFF_FFFF


class WrittenEvents:
    """A bounded memory of keys of events. Times are Unix seconds."""

    def __init__(self) -> None:
        self._rows = DigestTable("8sII")
        """By key: the end of the event's name, how often it came, when it came last."""

    def count(self, key: Key, now: float) -> tuple[str, int] | None:
        """Count one more. Returns the end of the name under which the event was written first, and how often it came since; None if it is not known."""
        digest = digest_of(*key)
        row = self._rows.get(digest)
        if row is None or now - row[2] > KEPT_SECONDS:
            return None
        ending, count = row[0], min(row[1] + 1, _MOST)
        self._rows.take(digest)
        self._rows.write(digest, ending, count, _seconds(now))
        return ending.hex(), count

    def put(self, key: Key, ending: str, now: float) -> None:
        """Remember an event that is written for the first time. ending: 16 hexadecimal digits."""
        digest = digest_of(*key)
        self._rows.take(digest)
        self._rows.write(digest, bytes.fromhex(ending), 1, _seconds(now))


def _seconds(now: float) -> int:
    return min(max(int(now), 0), _MOST)
