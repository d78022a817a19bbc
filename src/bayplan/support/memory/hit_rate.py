"""Whether a memo pays: looking into it and learning cost something, and where hardly anything comes twice that is lost."""

from __future__ import annotations

from typing import Final

_REMEMBERED: Final = 512
"""Questions that the rate is about while the memo is in use: long enough to learn what there is of many kinds."""
_PROBES_REMEMBERED: Final = 32
"""The same while it is out of use: short, since what comes may have become different."""
_PROBED_EVERY: Final = 16
"""One of so many questions is asked all the same while the memo is out of use."""
_MARGIN: Final = 0.1
"""The rate must be better by that for the memo to come into use again."""


class HitRate:
    """The share of questions that a memo could answer lately, as a moving average.

    >>> rate = HitRate(least=0.25)
    >>> for _ in range(1000):
    ...     rate.record(hit=False)
    >>> [rate.is_worth_asking() for _ in range(16)].count(True)
    1
    """

    __slots__ = ("_in_use", "_least", "_rate", "_skipped")

    def __init__(self, least: float) -> None:
        """least: hits per question below which the memo costs more than it saves."""
        self._least = least
        self._rate = 1.0
        self._in_use = True
        self._skipped = 0

    def is_worth_asking(self) -> bool:
        """Whether to look into the memo this time, and to learn from what it does not know."""
        if self._in_use:
            return True
        self._skipped = (self._skipped + 1) % _PROBED_EVERY
        return not self._skipped

    def record(self, *, hit: bool) -> None:
        """Whether the memo knew the answer."""
        self._rate += (hit - self._rate) / (_REMEMBERED if self._in_use else _PROBES_REMEMBERED)
        self._in_use = self._rate > (self._least if self._in_use else self._least + _MARGIN)
