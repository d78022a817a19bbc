"""The public keys of an issuer: fetched when a token names one that is not known, and now and then. Source: go-oidc, `jwks.go`.

An issuer that is away keeps nobody waiting for long, and its keys stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from bayplan.apiserver.authentication.oidc.tokens import Candidate, Key, TokenInvalid, keys_of
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_BETWEEN_FETCHES: Final = 1.0
"""Seconds: anybody can send tokens with keys that nobody knows."""
_FRESH_SECONDS: Final = 3600.0
"""After which keys are fetched again while those that are known are still good: an issuer may have withdrawn one."""


class FetchError(Exception):
    """A page of an issuer cannot be read; the message says why."""


class Fetch(Protocol):
    """Reads a page of an issuer, within bounds of time and size."""

    async def __call__(self, url: str, token: str = "") -> bytes:
        """The page. token: credentials for it, if it wants some. Raises FetchError."""

    async def close(self) -> None:
        """Let go of all connections."""


class KeySet:
    """The keys at a URL."""

    def __init__(self, fetch: Fetch, url: str, clock: Clock, fetched: Callable[[bytes | None], object]) -> None:
        """fetched: told of every fetch: what came, or None."""
        self._fetch = fetch
        self._url = url
        self._clock = clock
        self._told = fetched
        self._keys: tuple[Key, ...] = ()
        self._fetched_at = float("-inf")
        """When keys were last fetched (monotonic seconds)."""
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def verify(self, candidate: Candidate) -> None:
        """Raises TokenInvalid unless one of the keys has signed the token."""
        if candidate.is_signed_by(self._keys):
            if self._clock.monotonic() - self._fetched_at > _FRESH_SECONDS:
                self._refresh()
            return
        try:
            await asyncio.shield(self._refresh())
        except FetchError as error:
            raise TokenInvalid(f"failed to verify signature: fetching keys {error}") from error
        if not candidate.is_signed_by(self._keys):
            raise TokenInvalid("failed to verify signature: failed to verify id token signature")

    def close(self) -> None:
        """Fetch no more."""
        if self._fetching is not None:
            self._fetching.cancel()

    def _refresh(self) -> asyncio.Task[None]:
        """The fetch that is running, or one that begins now."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._update())
            self._fetching.add_done_callback(self._ended)
        return self._fetching

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._fetching = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the keys of an issuer cannot be fetched, those that are known stay: %s", error)

    async def _update(self) -> None:
        """Raises FetchError."""
        wait = self._tried_at + _BETWEEN_FETCHES - self._clock.monotonic()
        if wait > 0:
            await self._clock.sleep(wait)
        self._tried_at = self._clock.monotonic()
        try:
            page = await self._fetch(self._url)
            keys = keys_of(page)
        except FetchError as error:
            self._told(None)
            raise FetchError(f"oidc: get keys failed {error}") from error
        except TokenInvalid as error:
            self._told(None)
            raise FetchError(f"oidc: failed to decode keys: {error}") from error
        self._keys, self._fetched_at = keys, self._clock.monotonic()
        self._told(page)
