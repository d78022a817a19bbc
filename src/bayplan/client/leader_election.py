"""Leader election: of several instances of a component one at a time works, the others wait.

The instances race for a lock, an object that names its holder and when it last renewed its hold; whoever finds a hold that was not renewed for
`lease_duration` takes it. Only changes seen with one's own clock count, never the times that others wrote, so clocks need not agree (client-go's
rules, `tools/leaderelection`). The holder stops working `renew_deadline` after its last successful renewal, which is before anybody else may start.

The lock is a Lease, or an Endpoints object with an annotation for clusters that know no leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, core_v1, meta_v1
from bayplan.client.client import Client
from bayplan.client.errors import TransportError
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import rfc3339_micro

logger = logging.getLogger(__name__)

LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
_JITTER = 1.2
"""A waiting instance tries again after `retry_period` to `retry_period * (1 + _JITTER)` seconds."""


class LeadershipLost(Exception):
    """The lock could not be renewed in time, so the work was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """Times of an election, in seconds: `lease_duration` > `renew_deadline` > `retry_period` * 1.2."""

    lease_duration: float = 15.0
    """How long a hold counts after its last renewal."""
    renew_deadline: float = 10.0
    """How long the holder tries to renew before it stops working."""
    retry_period: float = 2.0
    """Pause between tries."""
    release_on_stop: bool = True
    """Whether the hold is given up when the work ends by itself or is cancelled, so that others need not wait."""

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * _JITTER > 0:
            raise ValueError(
                "lease_duration must be greater than renew_deadline, and that greater than retry_period * 1.2"
            )


class Record(msgspec.Struct, rename="camel", frozen=True):
    """What a lock says. Times are RFC 3339 texts, for people; nobody decides by them."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    leader_transitions: int = 0


class Lock(Protocol):
    """An object of the API that holds a record."""

    @property
    def name(self) -> str:
        """`kind namespace/name`, for messages."""

    async def get(self) -> Record | None:
        """The record, None if there is no lock yet. Raises ApiError, TransportError."""

    async def create(self, record: Record) -> None:
        """Make the lock. Raises ApiError (409 if somebody was faster), TransportError."""

    async def update(self, record: Record) -> None:
        """Write over what `get` returned last. Raises ApiError (409 if somebody was faster), TransportError."""


class LeaseLock:
    """A lock in a Lease."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.name = f"lease {namespace}/{name}"
        self._client = client
        self._metadata = meta_v1.ObjectMeta(name=name, namespace=namespace)
        self._lease: coordination_v1.Lease | None = None

    async def get(self) -> Record | None:
        """See Lock."""
        try:
            lease = await self._client.get(coordination_v1.Lease, self._metadata.name, self._metadata.namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        self._lease, spec = lease, lease.spec
        return Record(
            holder_identity=spec.holder_identity or "",
            lease_duration_seconds=spec.lease_duration_seconds or 0,
            acquire_time=spec.acquire_time or "",
            renew_time=spec.renew_time or "",
            leader_transitions=spec.lease_transitions or 0,
        )

    async def create(self, record: Record) -> None:
        """See Lock."""
        lease = coordination_v1.Lease(metadata=self._metadata, spec=_lease_spec(record))
        self._lease = await self._client.create(lease)

    async def update(self, record: Record) -> None:
        """See Lock."""
        if self._lease is None:
            await self.get()
        assert self._lease is not None
        self._lease = await self._client.update(msgspec.structs.replace(self._lease, spec=_lease_spec(record)))


def _lease_spec(record: Record) -> coordination_v1.LeaseSpec:
    return coordination_v1.LeaseSpec(
        holder_identity=record.holder_identity,
        lease_duration_seconds=record.lease_duration_seconds,
        acquire_time=record.acquire_time or None,
        renew_time=record.renew_time or None,
        lease_transitions=record.leader_transitions,
    )


class EndpointsLock:
    """A lock in an annotation of an Endpoints object."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.name = f"endpoints {namespace}/{name}"
        self._client = client
        self._metadata = meta_v1.ObjectMeta(name=name, namespace=namespace)
        self._endpoints: core_v1.Endpoints | None = None

    async def get(self) -> Record | None:
        """See Lock."""
        try:
            endpoints = await self._client.get(core_v1.Endpoints, self._metadata.name, self._metadata.namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        self._endpoints = endpoints
        text = endpoints.metadata.annotations.get(LEADER_ANNOTATION)
        return Record() if text is None else msgspec.json.decode(text, type=Record)

    async def create(self, record: Record) -> None:
        """See Lock."""
        self._endpoints = await self._client.create(core_v1.Endpoints(metadata=_annotated(self._metadata, record)))

    async def update(self, record: Record) -> None:
        """See Lock."""
        if self._endpoints is None:
            await self.get()
        assert self._endpoints is not None
        metadata = _annotated(self._endpoints.metadata, record)
        self._endpoints = await self._client.update(msgspec.structs.replace(self._endpoints, metadata=metadata))


def _annotated(metadata: meta_v1.ObjectMeta, record: Record) -> meta_v1.ObjectMeta:
    spelled = msgspec.structs.replace(
        record, acquire_time=_seconds(record.acquire_time), renew_time=_seconds(record.renew_time)
    )
    text = msgspec.json.encode(spelled).decode()
    return msgspec.structs.replace(metadata, annotations={**metadata.annotations, LEADER_ANNOTATION: text})


def _seconds(timestamp: str) -> str:
    """The timestamp without fractions, as the annotation has it."""
    return f"{timestamp.partition('.')[0]}Z" if "." in timestamp else timestamp


@dataclass(frozen=True, slots=True)
class _Observed:
    """The record seen last, and when it was seen to change (monotonic seconds)."""

    record: Record
    at: float


class LeaderElector:
    """One instance in an election.

    identity: unique among the instances. `run` waits for the lock, works, and keeps the hold; `is_leader` says whether it has it.
    """

    def __init__(
        self,
        lock: Lock,
        identity: str,
        *,
        clock: Clock,
        randomness: Randomness,
        settings: ElectionSettings | None = None,
        on_new_leader: Callable[[str], None] | None = None,
    ) -> None:
        self.identity = identity
        self.settings = settings or ElectionSettings()
        self._lock = lock
        self._clock = clock
        self._randomness = randomness
        self._on_new_leader = on_new_leader
        self._reported = ""
        self._observed: _Observed | None = None
        self._leads = False

    @property
    def is_leader(self) -> bool:
        """Whether this instance holds the lock and works."""
        return self._leads

    @property
    def leader(self) -> str:
        """Identity of the holder seen last; "" if there is none."""
        return self._observed.record.holder_identity if self._observed is not None else ""

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lock, then work until the work ends.

        The work is cancelled at once when the hold is lost (LeadershipLost) or this call is cancelled. Raises what the work raises.
        """
        await self._acquire()
        self._leads = True
        logger.info("%s leads: holds %s", self.identity, self._lock.name)
        working: asyncio.Future[None] = asyncio.ensure_future(_as_coroutine(work()))
        renewing = asyncio.create_task(self._keep(), name=f"renew {self._lock.name}")
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise LeadershipLost(f"{self.identity} lost {self._lock.name}") from renewing.exception()
            working.result()
        finally:
            self._leads = False
            lost = renewing.done()
            renewing.cancel()
            working.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
            if self.settings.release_on_stop and not lost:
                await self._release()

    async def _acquire(self) -> None:
        while not await self._try():
            pause = self._randomness.jitter(self.settings.retry_period, _JITTER)
            await self._clock.sleep(pause)

    async def _keep(self) -> None:
        """Renew the hold; returns when it is lost."""
        settings = self.settings
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(settings.retry_period)
            left = renewed + settings.renew_deadline - self._clock.monotonic()
            if left > 0 and await self._try_for(left):
                renewed = self._clock.monotonic()
            elif self._clock.monotonic() - renewed >= settings.renew_deadline:
                logger.warning("%s could not renew %s in time", self.identity, self._lock.name)
                return

    async def _try_for(self, seconds: float) -> bool:
        """Try once; a request that takes longer than the deadline is given up."""
        trying = asyncio.create_task(self._try())
        timer = self._clock.call_later(seconds, trying.cancel)
        try:
            await asyncio.wait({trying})
            return not trying.cancelled() and trying.result()
        finally:
            timer.cancel()
            trying.cancel()

    async def _try(self) -> bool:
        """Take or renew the hold. Returns whether this instance has it."""
        try:
            return await self._take_or_renew()
        except (ApiError, TransportError) as error:
            logger.debug("%s cannot take %s: %s", self.identity, self._lock.name, error)
            return False

    async def _take_or_renew(self) -> bool:
        now = rfc3339_micro(self._clock.now())
        wanted = Record(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, round(self.settings.lease_duration)),
            acquire_time=now,
            renew_time=now,
        )
        found = await self._lock.get()
        if found is None:
            await self._lock.create(wanted)
            self._observe(wanted)
            return True
        if self._observed is None or self._observed.record != found:
            self._observe(found)
        if found.holder_identity == self.identity:
            wanted = msgspec.structs.replace(
                wanted, acquire_time=found.acquire_time, leader_transitions=found.leader_transitions
            )
        elif found.holder_identity and self._is_valid(found):
            return False
        else:
            wanted = msgspec.structs.replace(wanted, leader_transitions=found.leader_transitions + 1)
        await self._lock.update(wanted)
        self._observe(wanted)
        return True

    def _is_valid(self, record: Record) -> bool:
        """Whether another's hold still counts: it was seen to change less than its duration ago."""
        assert self._observed is not None
        return self._clock.monotonic() < self._observed.at + (
            record.lease_duration_seconds or self.settings.lease_duration
        )

    def _observe(self, record: Record) -> None:
        self._observed = _Observed(record, self._clock.monotonic())
        holder = record.holder_identity
        if holder and holder != self._reported:
            self._reported = holder
            if self._on_new_leader is not None:
                self._on_new_leader(holder)

    async def _release(self) -> None:
        """Give up the hold, if it is still ours, so that another instance can start at once."""
        observed = self._observed
        if observed is None or observed.record.holder_identity != self.identity:
            return
        now = rfc3339_micro(self._clock.now())
        transitions = observed.record.leader_transitions
        freed = Record(lease_duration_seconds=1, acquire_time=now, renew_time=now, leader_transitions=transitions)
        with contextlib.suppress(ApiError, TransportError):  # nobody has to be told: the hold runs out by itself
            await self._lock.update(freed)
            self._observed = replace(observed, record=freed)


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work
