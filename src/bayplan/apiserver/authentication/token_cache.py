"""What became of tokens that had to be waited for, kept for a while; who asks for the same token meanwhile waits for the same answer.

Source: `k8s.io/apiserver/pkg/authentication/token/cache`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry

if TYPE_CHECKING:
    from bayplan.apiserver.authentication.authenticator import TokenFound

_MOST_TOKENS: Final = 32_768
_LOOKUP_SECONDS: Final = 30.0
"""How long all sources together may take for a token."""
Find = Callable[[str, tuple[str, ...]], "Awaitable[TokenFound]"]


class _Kept(NamedTuple):
    found: TokenFound
    until: float
    """Monotonic seconds."""


class CacheMetrics:
    """The series of all caches of one API server."""

    def __init__(self, registry: Registry) -> None:
        prefix, status = "authentication_token_cache_", ("status",)
        self.duration = registry.histogram(
            f"{prefix}request_duration_seconds", "Duration of look-ups of tokens.", status
        )
        self.requests = registry.counter(f"{prefix}request_total", "Look-ups of tokens.", status)
        self.fetches = registry.counter(f"{prefix}fetch_total", "Tokens that were not in the cache.", status)
        self.active = registry.gauge(f"{prefix}active_fetch_count", "Tokens that are being looked at.", status)


class TokenCache:
    """Asks for tokens, and keeps what is found."""

    def __init__(
        self,
        find: Find,
        clock: Clock,
        metrics: CacheMetrics,
        *,
        success_seconds: float,
        failure_seconds: float,
        keeps_errors: bool = True,
    ) -> None:
        """success_seconds, failure_seconds: how long a user, or that there is none, is kept; 0: not at all. keeps_errors: whether errors are kept, too."""
        self._find = find
        self._clock = clock
        self._metrics = metrics
        self._success_seconds, self._failure_seconds = success_seconds, failure_seconds
        self._keeps_errors = keeps_errors
        self._kept: dict[bytes, _Kept] = {}
        self._running: dict[bytes, asyncio.Task[TokenFound]] = {}

    def clear(self) -> None:
        """Forget everything, also what is being asked for."""
        self._kept.clear()
        self._running.clear()

    def close(self) -> None:
        """Ask for nothing more."""
        for task in self._running.values():
            task.cancel()

    def known(self, token: str, audiences: Sequence[str]) -> TokenFound | None:
        """What is kept of a token; None if nothing is."""
        found = self._of(_key(token, audiences))
        if found is not None:
            self._metrics.requests.labels("hit").inc()
            self._metrics.duration.labels("hit").observe(0.0)
        return found

    def _of(self, key: bytes) -> TokenFound | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until <= self._clock.monotonic():
            del self._kept[key]
            return None
        return kept.found

    async def find(self, token: str, audiences: tuple[str, ...]) -> TokenFound:
        """What is kept of a token, or found now."""
        key = _key(token, audiences)
        found = self.known(token, audiences)
        if found is not None:
            return found
        started, metrics = self._clock.monotonic(), self._metrics
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._ask(key, token, audiences))
            task.add_done_callback(lambda done: self._ended(key, done))
        metrics.active.labels("blocked").inc()
        try:
            return await asyncio.shield(task)
        finally:
            metrics.active.labels("blocked").dec()
            metrics.requests.labels("miss").inc()
            metrics.duration.labels("miss").observe(self._clock.monotonic() - started)

    def _ended(self, key: bytes, task: asyncio.Task[TokenFound]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
        if not task.cancelled():
            task.exception()  # which whoever waits has got

    async def _ask(self, key: bytes, token: str, audiences: tuple[str, ...]) -> TokenFound:
        metrics = self._metrics
        metrics.active.labels("in_flight").inc()
        is_fine = False
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                found = await self._find(token, audiences)
            is_fine = not found.error
        except TimeoutError:
            from bayplan.apiserver.authentication.authenticator import TokenFound

            found = TokenFound(None, (), "context deadline exceeded")
        finally:
            metrics.active.labels("in_flight").dec()
            metrics.fetches.labels("ok" if is_fine else "error").inc()
        if self._running.get(key) is asyncio.current_task():  # what was cleared meanwhile is not kept
            self._keep(key, found)
        return found

    def _keep(self, key: bytes, found: TokenFound) -> None:
        seconds = self._failure_seconds if found.user is None else self._success_seconds
        if seconds > 0 and (self._keeps_errors or not found.error):
            if len(self._kept) >= _MOST_TOKENS:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _Kept(found, self._clock.monotonic() + seconds)


def _key(token: str, audiences: Sequence[str]) -> bytes:
    """What stands for a token: the cache is not to hold tokens."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass"))
    for one in audiences:
        digest.update(b"\0" + one.encode("utf-8", "surrogatepass"))
    return digest.digest()
