"""Events posted to a service as an EventList, again and again if it does not take them.

Source: `k8s.io/apiserver/plugin/pkg/audit/webhook`, `pkg/util/webhook`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from bayplan.apiserver.audit.backend import Failures
from bayplan.apiserver.audit.events import Event, event_list
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

_PLUGIN = "webhook"
_TRIES = 5
_FACTOR, _JITTER = 1.5, 0.2
_SECONDS = 30.0
"""That a request may take."""


class PostError(Exception):
    """The service was not reached, or did not take what was posted."""


class Poster(Protocol):
    """What reaches the service."""

    async def post(self, body: bytes) -> None:
        """Post JSON. Raises PostError."""

    async def close(self) -> None:
        """Let go of all connections."""


class WebhookSink:
    """See Sink."""

    def __init__(
        self, poster: Poster, initial_backoff: float, failures: Failures, *, clock: Clock, randomness: Randomness
    ) -> None:
        """initial_backoff: seconds before the second try; each further wait is longer by half."""
        self._poster = poster
        self._initial_backoff = initial_backoff
        self._failures = failures
        self._clock = clock
        self._randomness = randomness

    async def write(self, events: Sequence[Event]) -> bool:
        """See Sink."""
        problem = await self._post(event_list(event.body for event in events))
        if problem:
            self._failures.report(_PLUGIN, problem, events)
        return not problem

    async def close(self) -> None:
        """See Sink."""
        await self._poster.close()

    async def _post(self, body: bytes) -> str:
        """What went wrong the last time; "" if it worked."""
        wait = self._initial_backoff
        problem = ""
        for index in range(_TRIES):
            if index:
                await self._clock.sleep(self._randomness.jitter(wait, _JITTER))
                wait *= _FACTOR
            problem = await _tried(self._poster.post, body)
            if not problem:
                break
        return problem


async def _tried(post: Callable[[bytes], Awaitable[None]], body: bytes) -> str:
    try:
        async with asyncio.timeout(_SECONDS):
            await post(body)
    except TimeoutError:
        return "context deadline exceeded"
    except PostError as error:
        return str(error)
    return ""
