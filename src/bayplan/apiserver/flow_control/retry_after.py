"""When rejected clients are asked to come back: later, the more requests of their priority level are rejected.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go`.
"""

from __future__ import annotations

from collections import deque

from bayplan.apiserver.flow_control.parameters import MAXIMUM_RETRY_AFTER


class RetryAfter:
    """The answer for one priority level."""

    def __init__(self) -> None:
        self.seconds = 1
        """What clients are told."""
        self._second = 0
        self._count = 0
        """Requests that were rejected in the present second."""
        self._history: deque[tuple[int, int]] = deque()
        """Seconds before, and how many were rejected in each."""
        self._raised_at = 0

    def rejected(self, now: float) -> None:
        """A request is rejected. now: seconds."""
        second = int(now)
        if second == self._second:
            self._count += 1
            return
        self._history.append((self._second, self._count))
        kept = min(2 * self.seconds, MAXIMUM_RETRY_AFTER)
        while self._history and second - self._history[0][0] > kept:
            self._history.popleft()
        self._second, self._count = second, 1
        self._adjust(second)

    def _adjust(self, second: int) -> None:
        """Doubled if three requests were rejected for each second of it, but not sooner than it says; one less if it was less than one."""
        seconds = self.seconds
        rejected = sum(count for at, count in self._history if at < second and second - at <= seconds)
        if second - self._raised_at >= seconds and rejected >= 3 * seconds:
            self.seconds = min(2 * seconds, MAXIMUM_RETRY_AFTER)
            self._raised_at = second
        elif rejected < seconds and seconds > 1:
            self.seconds -= 1
