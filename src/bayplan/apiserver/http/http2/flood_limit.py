"""How many frames without effect a client may send.

Frames are cheap to make and cost the server time to read. A client that works sends few without effect (it cancels a watch, pings, opens windows as it reads); one
that floods sends nothing else: rapid resets (CVE-2023-44487), PING, SETTINGS, PRIORITY, empty DATA, WINDOW_UPDATE by the byte.

The limit is a token bucket: each such frame takes a token, time adds some again, and so does each request that is answered.

    >>> limit = FloodLimit(now=0.0, burst=3.0, per_second=1.0)
    >>> [limit.take(1, 0.0) for _ in range(4)]
    [True, True, True, False]
    >>> limit.take(1, 2.0)  # two are back
    True
    >>> limit.give(2.0)
    >>> limit.take(2, 2.0)
    True
"""

from __future__ import annotations

from typing import Final

BURST: Final = 1000.0
"""Frames at once: a client that ends all its watches, or opens the windows of all streams."""
PER_SECOND: Final = 200.0
"""Frames in the long run."""


class FloodLimit:
    """The limit of one connection. Times are seconds of one clock that never goes back."""

    __slots__ = ("_at", "_burst", "_left", "_per_second")

    def __init__(self, now: float, burst: float = BURST, per_second: float = PER_SECOND) -> None:
        self._at = now
        self._left = self._burst = burst
        self._per_second = per_second

    def take(self, frames: int, now: float) -> bool:
        """Whether the client may have sent so many frames without effect."""
        if frames > self._left:
            self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
            self._at = now
        self._left -= frames
        return self._left >= 0.0

    def give(self, frames: float) -> None:
        """The client made use of the server: it may send so many frames more."""
        self._left = min(self._burst, self._left + frames)
