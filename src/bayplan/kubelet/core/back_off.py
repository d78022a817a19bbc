"""Back-off per key that doubles with every failure and is forgotten after a time without one (client-go's flowcontrol.Backoff)."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_RESTART, LONGEST_RESTART = 10.0, 300.0
"""Seconds before containers that ended for the second time start again, and the most that it gets by doubling."""


def restart_seconds(restarts: int, ran: float) -> float:
    """The delay of a container that was started again so often, each time after it had ended soon, and ran for `ran` seconds the last time: 0, 10, 20, 40, ... 300.

    It is what `BackOff` says after these restarts, worked out from what a pod's status shows.
    """
    if not restarts or ran > 2 * LONGEST_RESTART:
        return 0.0
    return min(FIRST_RESTART * 2.0 ** min(restarts - 1, 10), LONGEST_RESTART)


@dataclass(slots=True)
class _Entry:
    seconds: float
    updated_at: float


class BackOff:
    """How long to wait for each key. All times are Unix times in seconds.

    A key whose last event lies more than twice `longest` back begins anew.
    """

    def __init__(self, initial: float, longest: float) -> None:
        self.initial = initial
        self.longest = longest
        self._entries: dict[str, _Entry] = {}

    def seconds(self, key: str) -> float:
        """The delay that this key has now; 0 where it has none."""
        entry = self._entries.get(key)
        return entry.seconds if entry is not None else 0.0

    def is_waiting_since(self, key: str, event: float, now: float) -> bool:
        """Whether less than the delay has passed since the event."""
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, event):
            return False
        return now - event < entry.seconds

    def is_waiting(self, key: str, now: float) -> bool:
        """Whether less than the delay has passed since the last failure."""
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, now):
            return False
        return now - entry.updated_at < entry.seconds

    def next(self, key: str, event: float, now: float) -> None:
        """Count one more failure."""
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, event):
            self._entries[key] = _Entry(self.initial, now)
            return
        entry.seconds = min(entry.seconds * 2, self.longest)
        entry.updated_at = now

    def reset(self, key: str) -> None:
        """Forget a key."""
        self._entries.pop(key, None)

    def collect(self, now: float) -> None:
        """Forget all keys that have expired."""
        for key in [key for key, entry in self._entries.items() if self._expired(entry, now)]:
            del self._entries[key]

    def _expired(self, entry: _Entry, event: float) -> bool:
        return event - entry.updated_at > self.longest * 2
