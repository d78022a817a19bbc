"""When waits end that take too long. One timer serves all of them: nearly all end long before.

What has ended is forgotten at once, and only two numbers of it are left for a while: were it kept until somebody tidies up, a server that is busy would free
thousands of requests with their bodies in one iteration of its event loop, which takes milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from bayplan.support.clock import Clock, Timer

T = TypeVar("T")
_FEW: Final = 256
"""Numbers of waits that have ended are not looked for among fewer than these."""


class Deadlines(Generic[T]):
    """Calls back for each wait that has not ended in time."""

    def __init__(self, clock: Clock, expired: Callable[[T], None]) -> None:
        """expired: gets what was given to `add`, once, when its time is over."""
        self._clock = clock
        self._expired = expired
        self._waits: dict[int, T] = {}
        """Those that have not ended, by their number."""
        self._moments: list[tuple[float, int]] = []
        """When they are over and their numbers, a heap; many have ended before."""
        self._count = 0
        self._timer: Timer | None = None
        """Runs when the first of them is over."""
        self._timer_at = 0.0

    def add(self, deadline: float, wait: T) -> int:
        """A wait begins that may last until a moment of the monotonic clock. Returns its number, for `remove`."""
        self._count = number = self._count + 1
        moments, self._waits[number] = self._moments, wait
        if len(moments) > _FEW + 4 * len(self._waits):
            moments[:] = [one for one in moments if one[1] in self._waits]
            heapq.heapify(moments)
        heapq.heappush(moments, (deadline, number))
        if self._timer is None or deadline < self._timer_at:
            self._look()
        return number

    def remove(self, number: int) -> None:
        """A wait has ended, perhaps because its time is over."""
        self._waits.pop(number, None)

    def _look(self) -> None:
        """Call back for what is over, and come back when the next one is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, moments, waits = self._clock.monotonic(), self._moments, self._waits
        while moments and (moments[0][0] <= now or moments[0][1] not in waits):
            wait = waits.pop(heapq.heappop(moments)[1], None)
            if wait is not None:
                self._expired(wait)
        if moments:
            self._timer_at = moments[0][0]
            self._timer = self._clock.call_later(self._timer_at - now, self._look)
