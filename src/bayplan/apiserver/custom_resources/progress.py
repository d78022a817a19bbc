"""Whether this server serves what the definitions in its cache say: another server, which shares the store, may have established them."""

from __future__ import annotations

import asyncio
from typing import Final

from bayplan.apiserver.reads.cache import ResourceCache

_MOST_SECONDS: Final = 1.0
"""For which a request waits: what then is not served cannot be, and the next request does not wait for it."""


class ServedDefinitions:
    """How far the server has come, as a revision of the definitions."""

    def __init__(self) -> None:
        self._cache: ResourceCache | None = None
        self._revision = 0
        """All definitions up to here are served."""
        self._changed = asyncio.Event()

    def follow(self, cache: ResourceCache) -> None:
        """This is the cache of the definitions."""
        self._cache = cache

    @property
    def are_served(self) -> bool:
        """Whether all definitions that the cache shows are served as they say."""
        return self._cache is None or self._cache.revision <= self._revision

    def reached(self, revision: int) -> None:
        """Definitions up to a revision are served."""
        self._revision = max(self._revision, revision)
        self._changed.set()

    async def served(self) -> None:
        """Return when the definitions that the cache shows now are served, or cannot be."""
        assert self._cache is not None
        revision = self._cache.revision
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                while self._revision < revision:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self.reached(revision)
