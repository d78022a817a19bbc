"""A transport that goes wrong as a seed says: conflicts, writes that fail before or after they are committed, watches that break, lag, stutter, lose their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.client.errors import TransportError
from bayplan.client.transport import Decode, RawWatch, Transport
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness


@dataclass(slots=True)
class Faults:
    """How likely each fault is; all at 0 is a sound transport."""

    conflict: float = 0.0
    """A write is refused as if somebody else had been faster."""
    error_before: float = 0.0
    """A request never arrives."""
    error_after: float = 0.0
    """A write is done, but its answer is lost."""
    internal: float = 0.0
    """The server answers 500 and has done nothing."""
    slow: float = 0.0
    """A request takes up to a second."""
    lag: float = 0.0
    """Events come up to three seconds late."""
    stutter: float = 0.0
    """Events come twice."""
    broken: float = 0.0
    """A watch breaks."""
    lost: float = 0.0
    """A watch has lost its place (410), so that everything has to be listed again."""

    def stop(self) -> None:
        """From now on all goes well."""
        for name in self.__slots__:
            setattr(self, name, 0.0)


def drawn(randomness: Randomness) -> Faults:
    """Faults of a run: each kind is left out in half of them, else more or less frequent."""

    def some(most: float) -> float:
        return most * randomness.random() if randomness.random() < 0.5 else 0.0

    return Faults(
        conflict=some(0.3),
        error_before=some(0.2),
        error_after=some(0.2),
        internal=some(0.2),
        slow=some(0.5),
        lag=some(0.5),
        stutter=some(0.5),
        broken=some(0.1),
        lost=some(0.1),
    )


def refusal(code: int, reason: str, message: str) -> ApiError:
    """An error as a server answers it."""
    return ApiError(meta_v1.Status(status="Failure", code=code, reason=reason, message=message))


class FaultyTransport(Transport):
    """See the module."""

    def __init__(self, transport: Transport, faults: Faults, clock: Clock, randomness: Randomness) -> None:
        self._transport = transport
        self._faults = faults
        self._clock = clock
        self._randomness = randomness
        self.injected = 0
        """Faults so far."""

    def hits(self, likelihood: float) -> bool:
        """Whether a fault happens now."""
        if likelihood and self._randomness.random() < likelihood:
            self.injected += 1
            return True
        return False

    async def pause(self, likelihood: float, longest: float) -> None:
        """Perhaps wait."""
        if self.hits(likelihood):
            await self._clock.sleep(self._randomness.random() * longest)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """See Transport."""
        faults = self._faults
        await self.pause(faults.slow, 1.0)
        if self.hits(faults.error_before):
            raise TransportError(f"{method} {path}: connection refused")
        if self.hits(faults.internal):
            raise refusal(500, "InternalError", f"{method} {path}: out of order")
        if method in ("PUT", "PATCH") and self.hits(faults.conflict):
            raise refusal(409, "Conflict", f"{path}: the object has been modified")
        answer = await self._transport.request(method, path, query, body, content_type)
        if method != "GET" and self.hits(faults.error_after):
            raise TransportError(f"{method} {path}: connection reset")
        return answer

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        if self.hits(self._faults.error_before):
            raise TransportError(f"watch {path}: connection refused")
        if query.get("resourceVersion") and self.hits(self._faults.lost):
            raise refusal(410, "Expired", "too old resource version")
        return _FaultyWatch(self, await self._transport.watch(kind, path, query, decode), self._faults)

    async def close(self) -> None:
        """See Transport."""
        await self._transport.close()


class _FaultyWatch:
    """Late, doubled and broken off events. Their order stays: servers keep it."""

    def __init__(self, transport: FaultyTransport, inner: RawWatch, faults: Faults) -> None:
        self._transport = transport
        self._inner = inner
        self._faults = faults

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """See RawWatch."""
        transport, faults = self._transport, self._faults
        batch = await self._inner.next_batch()
        await transport.pause(faults.lag, 3.0)
        if transport.hits(faults.broken):
            raise TransportError("the watch broke")
        if transport.hits(faults.lost):
            raise refusal(410, "Expired", "too old resource version")
        if transport.hits(faults.stutter):
            return [event for event in batch for _ in range(2)]
        return batch

    def close(self) -> None:
        """See RawWatch."""
        self._inner.close()
