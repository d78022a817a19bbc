"""What a controller has written and its cache does not show yet.

A write to one object is guarded by its revision, but a decision about several objects is not: one that rests on some objects as they were before the last
decision would hand out the same share twice. So a controller that splits something over several objects waits until its cache has caught up with it.

    wrote("ns/web", rs at revision 7)    -> is_current("ns/web") is False while the cache has rs at revision 6
    the event about revision 7 comes     -> True
    lost("ns/web")                       -> the server is asked what there is; then the cache has to catch up with that
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from bayplan.informers.cache import ObjectCache, key_of
from bayplan.support.clock import Clock

CHECK_SECONDS = 10.0
"""After this time without the event that is waited for, the server is asked: the object may have come and gone between two lists."""


class WriteMemory:
    """Revisions by owner and object."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._revisions: dict[str, dict[str, int]] = {}
        self._ask_at: dict[str, float] = {}
        """Owner -> monotonic time from which on the server is asked."""

    def wrote(self, owner: str, obj: Any) -> None:
        """An object was written, as the server has answered."""
        self._revisions.setdefault(owner, {})[key_of(obj)] = int(obj.metadata.resource_version)
        self._ask_at.setdefault(owner, self._clock.monotonic() + CHECK_SECONDS)

    def lost(self, owner: str) -> None:
        """Something may have been written, but there was no answer."""
        self._revisions.setdefault(owner, {})
        self._ask_at[owner] = self._clock.monotonic()

    def gone(self, owner: str, obj: Any) -> None:
        """An object is gone, as the cache shows."""
        self._revisions.get(owner, {}).pop(key_of(obj), None)

    def forget(self, owner: str) -> None:
        """The owner is gone."""
        self._revisions.pop(owner, None)
        self._ask_at.pop(owner, None)

    async def is_current(
        self, owner: str, cache: ObjectCache[Any], ask: Callable[[], Awaitable[Iterable[Any]]]
    ) -> bool:
        """Whether the cache shows all that was written for an owner. `ask` gives the owner's objects as the server has them; raises what that raises."""
        waited = self._revisions.get(owner)
        if waited is None:
            return True
        if self._clock.monotonic() >= self._ask_at[owner]:
            found = await ask()
            waited = {key_of(one): int(one.metadata.resource_version) for one in found}
            self._revisions[owner] = waited
            self._ask_at[owner] = self._clock.monotonic() + CHECK_SECONDS
        left = {}
        for key, revision in waited.items():
            cached = cache.by_key(key)
            if cached is None or int(cached.metadata.resource_version) < revision:
                left[key] = revision
        if left:
            self._revisions[owner] = left
            return False
        self.forget(owner)
        return True
