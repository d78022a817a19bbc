"""Watches that lag, each by itself, as a seed says: what one client sees of several resources comes in another order, all of which a cluster may show.

    server     ConfigMap a ─ Secret b ─ ConfigMap c
    a client   ConfigMap a ─────────── ConfigMap c ─── Secret b

Events of one watch stay in their order, none is lost and none comes twice: servers keep that. How they are cut into batches, and how far each watch is
behind the others, is what differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bayplan.api.kinds import Kind
from bayplan.client.transport import Decode, RawWatch, Transport
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

LONGEST: Final = 5.0
"""Seconds that may pass between two batches that could come at once."""

_LEAST: Final = 0.3
"""How likely a batch of a watch is late that hardly lags."""


class LaggingTransport(Transport):
    """See the module."""

    def __init__(self, transport: Transport, clock: Clock, randomness: Randomness) -> None:
        self._transport, self._clock, self._randomness = transport, clock, randomness

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """See Transport."""
        return await self._transport.request(method, path, query, body, content_type)

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        inner = await self._transport.watch(kind, path, query, decode)
        return _LaggingWatch(inner, self._clock, self._randomness)

    async def close(self) -> None:
        """See Transport."""
        await self._transport.close()


class _LaggingWatch:
    """Some watches lag often and long, others hardly."""

    def __init__(self, inner: RawWatch, clock: Clock, randomness: Randomness) -> None:
        self._inner, self._clock, self._randomness = inner, clock, randomness
        self._likelihood = _LEAST + (1 - _LEAST) * randomness.random()
        self._longest = LONGEST * randomness.random()
        self._held: deque[tuple[str, Any]] = deque()

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """See RawWatch."""
        if not self._held:
            self._held.extend(await self._inner.next_batch())
        if self._held and self._randomness.random() < self._likelihood:
            await self._clock.sleep(self._randomness.random() * self._longest)
        count = 1 + int(self._randomness.random() ** 2 * len(self._held))  # rather few
        return [self._held.popleft() for _ in range(min(count, len(self._held)))]

    def close(self) -> None:
        """See RawWatch."""
        self._inner.close()
