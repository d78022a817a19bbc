"""When history is old enough to go. Shared by the stores that keep their own."""

from __future__ import annotations

from collections import deque

from bayplan.store.settings import HistorySettings


class HistoryBound:
    """Remembers which revision was current when, and derives up to which revision the past may be forgotten."""

    def __init__(self, settings: HistorySettings) -> None:
        self._settings = settings
        self._marks: deque[tuple[float, int]] = deque()
        """(seconds, revision then), both ascending."""
        self._aged = 0
        """The newest revision known to be older than `keep_seconds`."""

    def mark(self, now: float, revision: int) -> None:
        """Note that `revision` was current at `now` (seconds of a monotonic clock)."""
        if not self._marks or self._marks[-1][1] < revision:
            self._marks.append((now, revision))

    def bound(self, now: float, revision: int) -> int:
        """The revision before which reads may become impossible at `now`; 0 or less for none."""
        marks = self._marks
        while marks and marks[0][0] <= now - self._settings.keep_seconds:
            self._aged = max(self._aged, marks.popleft()[1])
        return max(self._aged, revision - self._settings.keep_revisions)
