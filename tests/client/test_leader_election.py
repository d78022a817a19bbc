"""One of several instances leads; a hold that is not renewed in time ends before another begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bayplan.api.types import coordination_v1, core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.leader_election import (
    LEADER_ANNOTATION,
    ElectionSettings,
    EndpointsLock,
    LeaderElector,
    LeadershipLost,
    LeaseLock,
    Lock,
    Record,
)
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.clock import ManualClock
from tests.apiserver.serving import client_of, opened

LOCKS: list[Callable[[Client, str, str], Lock]] = [LeaseLock, EndpointsLock]


async def settle() -> None:
    """Let everything run that can run without time passing."""
    for _ in range(200):
        await asyncio.sleep(0)


class Instance:
    """One candidate whose work goes on until it is stopped."""

    def __init__(self, lock: Lock, identity: str, clock: ManualClock) -> None:
        self.clock = clock
        self.elector = LeaderElector(lock, identity, clock=clock, randomness=SeededRandomness(identity))
        self.works = False
        self.task = asyncio.create_task(self.elector.run(self._work))

    async def _work(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class BreakableLock:
    """A lock behind a connection that can be cut."""

    def __init__(self, lock: Lock) -> None:
        self.inner = lock
        self.name = lock.name
        self.cut = False

    def _check(self) -> None:
        if self.cut:
            raise TransportError("cut")

    async def get(self) -> Record | None:
        self._check()
        return await self.inner.get()

    async def create(self, record: Record) -> None:
        self._check()
        await self.inner.create(record)

    async def update(self, record: Record) -> None:
        self._check()
        await self.inner.update(record)


async def pass_time(clock: ManualClock, seconds: float) -> None:
    """Let time pass in steps that are shorter than any pause."""
    for _ in range(int(seconds * 2)):
        clock.advance(0.5)
        await settle()


@pytest.mark.parametrize("make_lock", LOCKS)
def test_the_second_waits_until_the_first_stops_and_then_leads_at_once(
    make_lock: Callable[[Client, str, str], Lock],
) -> None:
    async def run() -> None:
        async with opened() as api:
            clock, client = ManualClock(), client_of(api)
            first = Instance(make_lock(client, "kube-system", "x"), "a", clock)
            await settle()
            second = Instance(make_lock(client, "kube-system", "x"), "b", clock)
            await pass_time(clock, 60)
            assert (first.works, second.works) == (True, False)
            assert second.elector.leader == "a"
            await first.stop()
            await pass_time(clock, 5)
            assert (first.works, second.works) == (False, True)
            await second.stop()

    asyncio.run(run())


def test_a_leader_that_cannot_renew_stops_before_another_starts() -> None:
    async def run() -> None:
        async with opened() as api:
            clock, client = ManualClock(), client_of(api)
            lock = BreakableLock(LeaseLock(client, "kube-system", "x"))
            first = Instance(lock, "a", clock)
            await settle()
            second = Instance(LeaseLock(client, "kube-system", "x"), "b", clock)
            await pass_time(clock, 10)
            lock.cut = True
            cut_at, stopped_at, taken_at = clock.monotonic(), 0.0, 0.0
            while not taken_at:
                await pass_time(clock, 0.5)
                assert not (first.works and second.works)
                stopped_at = stopped_at or (0.0 if first.works else clock.monotonic())
                taken_at = clock.monotonic() if second.works else 0.0
            assert stopped_at - cut_at <= 10.5
            assert 13 <= taken_at - cut_at <= 20
            with pytest.raises(LeadershipLost):
                await first.task
            await second.stop()

    asyncio.run(run())


def test_a_short_outage_costs_no_leadership() -> None:
    async def run() -> None:
        async with opened() as api:
            clock, client = ManualClock(), client_of(api)
            lock = BreakableLock(LeaseLock(client, "kube-system", "x"))
            first = Instance(lock, "a", clock)
            await settle()
            lock.cut = True
            await pass_time(clock, 7)
            lock.cut = False
            await pass_time(clock, 20)
            assert first.works
            await first.stop()

    asyncio.run(run())


def test_the_lease_says_who_leads_and_how_often_that_changed() -> None:
    async def run() -> None:
        async with opened() as api:
            clock, client = ManualClock(), client_of(api)
            for identity in ("a", "b"):
                instance = Instance(LeaseLock(client, "kube-system", "x"), identity, clock)
                await pass_time(clock, 5)
                lease = await client.get(coordination_v1.Lease, "x", "kube-system")
                assert lease.spec.holder_identity == identity
                assert lease.spec.lease_duration_seconds == 15
                await instance.stop()
            lease = await client.get(coordination_v1.Lease, "x", "kube-system")
            assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("", 1)

    asyncio.run(run())


def test_the_endpoints_lock_is_the_annotation_of_old_clusters() -> None:
    async def run() -> None:
        async with opened() as api:
            clock, client = ManualClock(), client_of(api)
            instance = Instance(EndpointsLock(client, "kube-system", "x"), "a", clock)
            await settle()
            endpoints = await client.get(core_v1.Endpoints, "x", "kube-system")
            assert '"holderIdentity":"a","leaseDurationSeconds":15' in endpoints.metadata.annotations[LEADER_ANNOTATION]
            await instance.stop()

    asyncio.run(run())


def test_errors_of_the_work_are_raised_and_the_hold_is_given_up() -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    async def run() -> None:
        async with opened() as api:
            clock, client = ManualClock(), client_of(api)
            lock = LeaseLock(client, "kube-system", "x")
            elector = LeaderElector(lock, "a", clock=clock, randomness=SeededRandomness(1))
            with pytest.raises(RuntimeError, match="broken"):
                await elector.run(fail)
            assert not elector.is_leader
            assert (await client.get(coordination_v1.Lease, "x", "kube-system")).spec.holder_identity == ""

    asyncio.run(run())


def test_times_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="renew_deadline"):
        ElectionSettings(lease_duration=5, renew_deadline=10)
