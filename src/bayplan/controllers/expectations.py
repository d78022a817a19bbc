"""Expectations: what a controller has created and deleted but not seen yet.

Between a write and the event about it the cache is stale, and deciding on a stale cache creates too many or deletes twice. A controller that expects something
waits until its informer has shown it (or, should an event never come, until the expectation is too old).

    expect_creations("ns/rs", 3)   -> satisfied("ns/rs") is False
    creation_observed x 3          -> satisfied("ns/rs") is True
"""

from __future__ import annotations

from bayplan.support.clock import Clock

TIMEOUT = 300.0
"""Seconds after which an expectation counts as met."""


class Expectations:
    """Expected creations (a number) and deletions (keys) per owner key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._creations: dict[str, int] = {}
        self._deletions: dict[str, set[str]] = {}
        self._since: dict[str, float] = {}

    def satisfied(self, key: str) -> bool:
        """Whether nothing is expected any more."""
        if self._creations.get(key, 0) <= 0 and not self._deletions.get(key):
            return True
        if self._clock.monotonic() - self._since.get(key, 0.0) > TIMEOUT:
            self.forget(key)
            return True
        return False

    def expect_creations(self, key: str, count: int) -> None:
        """Expect so many additions."""
        self._creations[key] = self._creations.get(key, 0) + count
        self._since[key] = self._clock.monotonic()

    def expect_deletions(self, key: str, uids: set[str]) -> None:
        """Expect these objects (by uid) to go."""
        self._deletions.setdefault(key, set()).update(uids)
        self._since[key] = self._clock.monotonic()

    def creation_observed(self, key: str) -> None:
        """An addition was seen, or will never come."""
        if key in self._creations:
            self._creations[key] = max(self._creations[key] - 1, 0)

    def deletion_observed(self, key: str, uid: str) -> None:
        """A deletion was seen, or will never come."""
        expected = self._deletions.get(key)
        if expected is not None:
            expected.discard(uid)

    def correct(self, key: str, creations: int, staying: set[str]) -> None:
        """Expect so many additions and none of the deletions of `staying`: what the server says after answers were lost."""
        self._creations[key] = creations
        self._deletions.get(key, set()).difference_update(staying)

    def forget(self, key: str) -> None:
        """Expect nothing any more (the owner is gone)."""
        self._creations.pop(key, None)
        self._deletions.pop(key, None)
        self._since.pop(key, None)
