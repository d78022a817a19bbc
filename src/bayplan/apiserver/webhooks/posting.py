"""Reviews that are posted to webhooks outside the cluster: of tokens, of access, of images. Transient failures are tried again.

Source: `k8s.io/apiserver/pkg/util/webhook/webhook.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

SECONDS: Final = 30.0
"""That a try may take."""
_TRIES: Final = 5
_BACKOFF, _FACTOR, _JITTER = 0.5, 1.5, 0.2
_TRANSIENT: Final = (429, 500, 504)
_TIMEOUTS: Final = (504,)


class ReviewError(Exception):
    """A webhook was not reached, or did not answer with a review; the message says why."""

    def __init__(self, message: str, code: int = 0, *, is_reset: bool = False, is_timeout: bool = False) -> None:
        """code: the HTTP status, 0 if there was none. is_reset: whether the connection broke."""
        super().__init__(message)
        self.code = code
        self.is_timeout = is_timeout or code in _TIMEOUTS
        self.is_transient = is_reset or code in _TRANSIENT


class ReviewPoster(Protocol):
    """What reaches one webhook."""

    async def post(self, body: bytes) -> bytes:
        """Post JSON, and return what is answered. Raises ReviewError."""

    async def close(self) -> None:
        """Let go of all connections."""


Tried = Callable[[ReviewError | None, float], object]
"""Told of every try: what went wrong, and how many seconds it took."""


class ReviewWebhook:
    """Posts reviews to one webhook."""

    def __init__(
        self,
        poster: ReviewPoster,
        clock: Clock,
        randomness: Randomness,
        *,
        seconds: float = SECONDS,
        backoff_seconds: float = _BACKOFF,
    ) -> None:
        """seconds: that a try may take. backoff_seconds: how long is waited before the second try."""
        self._poster = poster
        self._clock = clock
        self._randomness = randomness
        self._seconds = seconds
        self._backoff_seconds = backoff_seconds

    async def post(self, body: bytes, tried: Tried) -> bytes:
        """Post a review until it is answered, or it makes no sense to try again. Raises ReviewError."""
        wait = self._backoff_seconds
        for left in reversed(range(_TRIES)):
            started = self._clock.monotonic()
            try:
                answer = await self._try(body)
            except ReviewError as error:
                tried(error, self._clock.monotonic() - started)
                if not (error.is_transient and left):
                    raise
            else:
                tried(None, self._clock.monotonic() - started)
                return answer
            await self._clock.sleep(self._randomness.jitter(wait, _JITTER))
            wait *= _FACTOR
        raise AssertionError("the last try returns or raises")

    async def _try(self, body: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._poster.post(body)
        except TimeoutError:
            raise ReviewError("context deadline exceeded", is_timeout=True) from None

    async def close(self) -> None:
        """Let go of all connections."""
        await self._poster.close()
