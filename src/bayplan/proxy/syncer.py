"""When tables are synced: at once after a quiet time, then every `minSyncPeriod`; checked every `syncPeriod`; after failures with growing pauses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bayplan.proxy.errors import ProxyError
from bayplan.proxy.families import Family
from bayplan.proxy.family_syncer import FamilySyncer
from bayplan.proxy.health import ProxyHealth
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 1.0
"""Seconds before the next attempt after a failure; doubles up to the sync period."""


class Syncer:
    """Syncs the tables of all families, one after the other."""

    def __init__(
        self,
        families: Sequence[FamilySyncer],
        health: ProxyHealth,
        metrics: ProxyMetrics,
        clock: Clock,
        *,
        min_period: float,
        period: float,
        refresh: Callable[[], None],
        synced: Callable[[FamilySyncer], Awaitable[None]],
    ) -> None:
        """refresh: called before each check, for what nobody tells of. synced: called after each sync."""
        self._families = families
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._min_period = min_period
        self._period = period
        self._refresh = refresh
        self._was_synced = synced
        self._wake = asyncio.Event()
        self._first_done = asyncio.Event()
        self._not_before = clock.monotonic()
        """Next time that changes are synced."""
        self._pause = _FIRST_PAUSE

    def changed(self, family: Family) -> None:
        """The desired table of a family has changed."""
        self._health.queued(family)
        self._metrics.last_queued.labels(family.name).set(self._clock.now())
        self._wake.set()

    async def wait_for_first(self) -> None:
        """Return when all rules are in the kernel for the first time."""
        await self._first_done.wait()

    async def run(self) -> None:
        """Sync until cancelled. Everything that was known before is in the first sync."""
        next_check = self._clock.monotonic() + self._period
        for one in self._families:
            self.changed(one.family)
        while True:
            now = self._clock.monotonic()
            if now >= next_check:
                next_check = now + self._period
                await self._check()
            await self._delete_stale()
            if now >= self._not_before and any(one.has_work for one in self._families):
                await self._sync()
            await self._wait(next_check)

    async def _wait(self, next_check: float) -> None:
        """Until something may be due."""
        times = [next_check, *(one.stale_at for one in self._families if one.stale_at is not None)]
        if any(one.has_work for one in self._families):
            times.append(self._not_before)
        seconds = min(times) - self._clock.monotonic()
        timer = self._clock.call_later(max(0.0, seconds), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    async def _sync(self) -> None:
        now = self._clock.monotonic()
        failed = False
        for one in self._families:
            if not one.has_work:
                continue
            try:
                await one.sync()
            except (ProxyError, OSError) as error:
                failed = True
                self._metrics.sync_failures.labels(one.family.name).inc()
                logger.error("the table %s kube-proxy is not synced: %s", one.family.nft, error)
            else:
                self._health.updated(one.family)
                await self._was_synced(one)
        if failed:
            logger.info("next attempt in %.1f s", self._pause)
            self._not_before = now + self._pause
            self._pause = min(self._pause * 2, max(self._period, _FIRST_PAUSE))
        else:
            self._not_before = now + self._min_period
            self._pause = _FIRST_PAUSE
            self._first_done.set()

    async def _check(self) -> None:
        self._refresh()
        for one in self._families:
            try:
                await one.check()
            except (ProxyError, OSError) as error:
                logger.warning("the table %s kube-proxy cannot be checked: %s", one.family.nft, error)

    async def _delete_stale(self) -> None:
        for one in self._families:
            try:
                await one.delete_stale()
            except (ProxyError, OSError) as error:
                logger.warning("empty chains of %s kube-proxy cannot be deleted: %s", one.family.nft, error)
