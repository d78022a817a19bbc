"""Which keys have a time to live, and one timer for all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from bayplan.support.clock import Clock, Timer


class Expiries:
    """Deadlines of keys. Calls `expire(key, mod_revision)` on the event loop for each key whose deadline (Unix seconds
    of the clock) has passed; the callee checks that the revision is still current. Nothing runs before `start`."""

    def __init__(self, clock: Clock, expire: Callable[[str, int], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._deadlines: dict[str, tuple[float, int]] = {}
        self._heap: list[tuple[float, str, int]] = []
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._running = False

    def __len__(self) -> int:
        return len(self._deadlines)

    def start(self) -> None:
        """Begin to expire keys; those that are overdue go at once."""
        self._running = True
        self._arm()

    def stop(self) -> None:
        """Expire nothing from now on."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def set(self, key: str, mod_revision: int, deadline: float) -> None:
        """Expire the key at `deadline` if it still has this mod revision then."""
        self._deadlines[key] = (deadline, mod_revision)
        heap = self._heap
        heapq.heappush(heap, (deadline, key, mod_revision))
        if len(heap) > 64 + 2 * len(self._deadlines):
            self._heap = [(deadline, key, revision) for key, (deadline, revision) in self._deadlines.items()]
            heapq.heapify(self._heap)
        if self._running:
            self._arm()

    def discard(self, key: str) -> None:
        """The key has no deadline any more."""
        self._deadlines.pop(key, None)

    def _arm(self) -> None:
        if not self._heap:
            return
        deadline = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.now()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.now()
        heap = self._heap
        due: list[tuple[str, int]] = []
        while heap and heap[0][0] <= now:
            deadline, key, revision = heapq.heappop(heap)
            if self._deadlines.get(key) == (deadline, revision):
                del self._deadlines[key]
                due.append((key, revision))
        for key, revision in due:
            self._expire(key, revision)
        if self._running:
            self._arm()
