"""Delays that double with every failure of the same thing, as `flowcontrol.Backoff` of Kubernetes counts them."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.support.clock import Clock


@dataclass(slots=True)
class _Entry:
    delay: float
    since: float


class BackOff:
    """Delays by key: `first` seconds after the first failure, doubled by each up to `longest`. Twice the longest without a failure, and it begins anew."""

    def __init__(self, clock: Clock, first: float, longest: float) -> None:
        self._clock = clock
        self._first, self._longest = first, longest
        self._entries: dict[str, _Entry] = {}

    def failed(self, key: str) -> None:
        """Count a failure."""
        now = self._clock.monotonic()
        entry = self._entries.get(key)
        if entry is None or self._has_expired(entry, now):
            self._entries[key] = _Entry(self._first, now)
        else:
            entry.delay, entry.since = min(entry.delay * 2, self._longest), now

    def seconds_left(self, key: str) -> float:
        """How long it is too early for the next try; 0 if it is not."""
        now = self._clock.monotonic()
        entry = self._entries.get(key)
        if entry is None or self._has_expired(entry, now):
            return 0.0
        return max(0.0, entry.since + entry.delay - now)

    def forget_expired(self) -> None:
        """Drop what has not failed for long."""
        now = self._clock.monotonic()
        for key in [key for key, entry in self._entries.items() if self._has_expired(entry, now)]:
            del self._entries[key]

    def _has_expired(self, entry: _Entry, now: float) -> bool:
        return now - entry.since > 2 * self._longest
