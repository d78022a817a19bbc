"""Keeps the kernel's table of one family as desired: whole once, then by differences, whole again after failures and changes of others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from bayplan.proxy.errors import NetlinkError, RulesError
from bayplan.proxy.families import Family
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.stale_connections import Connection, stale_connections
from bayplan.proxy.rules.table_items import chain
from bayplan.proxy.rules.transactions import KernelNames, Transaction, deletion, difference, whole
from bayplan.proxy.system.nft import RulesWriter
from bayplan.support.blocking import Blocking
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)
_STALE_SECONDS: Final = 1.0
"""How long chains stay that nothing refers to, see `transactions`."""


class Kernel(Protocol):
    """What is read from the kernel. Calls block; all raise NetlinkError and OSError."""

    def generation(self) -> int:
        """See KernelTables."""

    def names(self, family: Family) -> KernelNames:
        """See KernelTables."""

    def fingerprint(self, family: Family) -> bytes:
        """See KernelTables."""

    def udp_connections(self, family: Family) -> list[Connection]:
        """See connection_tracking."""

    def forget(self, family: Family, connections: Iterable[Connection]) -> int:
        """See connection_tracking."""


class Generations:
    """Which tables nobody else can have changed: those that are clean as of the kernel's current generation."""

    def __init__(self) -> None:
        self._clean: dict[Family, int] = {}

    def committed(self, before: int, after: int, written: Family | None) -> None:
        """An own commit came between two generations. written: a family whose whole table it has written."""
        alone = after == before + 1
        for family, clean in list(self._clean.items()):
            if clean == before and alone:
                self._clean[family] = after
        if written is not None:
            self._clean[written] = after if alone else -1

    def is_clean(self, family: Family, generation: int) -> bool:
        """Whether only own commits have happened since the family's table was known."""
        return self._clean.get(family) == generation

    def found_clean(self, family: Family, generation: int) -> None:
        """The table was looked at, and is as it should be."""
        self._clean[family] = generation


class FamilySyncer:
    """The table of one family. Methods must not run at the same time, of all families."""

    def __init__(
        self,
        table: DesiredTable,
        writer: RulesWriter,
        kernel: Kernel,
        generations: Generations,
        metrics: ProxyMetrics,
        clock: Clock,
        blocking: Blocking,
    ) -> None:
        self.table = table
        self.family = table.options.family
        self.needs_whole = True
        """The kernel's table may be anything: write it anew."""
        self.triggers: list[float] = []
        """When what has changed the endpoints that are not synced yet did happen, in seconds since the epoch."""
        self._writer = writer
        self._kernel = kernel
        self._generations = generations
        self._metrics = metrics
        self._clock = clock
        self._blocking = blocking
        self._stale: dict[str, float] = {}
        self._fingerprint: bytes | None = None
        """Of the table as it is desired; None: not known."""

    @property
    def has_work(self) -> bool:
        """Whether the kernel's table is not as desired, as far as is known."""
        return self.needs_whole or self.table.is_changed

    @property
    def stale_at(self) -> float | None:
        """When the next chain is to be deleted, by the clock's monotonic time."""
        return min(self._stale.values()) + _STALE_SECONDS if self._stale else None

    async def sync(self) -> None:
        """Bring all changes into the kernel. Raises RulesError, NetlinkError, OSError; the next call writes everything then."""
        started, name = self._clock.monotonic(), self.family.name
        full, self.needs_whole = self.needs_whole, True  # until it is done
        changes = self.table.changes()
        if full:
            names = await self._blocking(lambda: self._kernel.names(self.family))
            await self._apply(whole(self.family, names, self.table.items()), full=True)
        else:
            await self._apply(difference(self.family, changes.before, changes.after), full=False)
        self.needs_whole = False
        seconds = self._clock.monotonic() - started
        self._metrics.sync.labels(name).observe(seconds)
        (self._metrics.full_sync if full else self._metrics.partial_sync).labels(name).observe(seconds)
        self._synced()
        if changes.udp:
            await self._forget_connections()

    async def delete_stale(self) -> None:
        """Delete chains that have been empty for long enough. Raises RulesError, NetlinkError, OSError."""
        now = self._clock.monotonic()
        names = [name for name, since in self._stale.items() if since + _STALE_SECONDS <= now]
        for name in names:
            del self._stale[name]
        if not names:
            return
        try:
            await self._apply(deletion(self.family, names), full=False)
        except RulesError:
            self._metrics.cleanup_failures.labels(self.family.name).inc()
            self.needs_whole = True
            raise

    async def check(self) -> None:
        """Find changes that others have made. Raises NetlinkError, OSError."""
        if self.has_work:
            return
        generation = self._kernel.generation()
        clean = self._generations.is_clean(self.family, generation)
        if clean and self._fingerprint is not None:
            return
        found = await self._blocking(lambda: self._kernel.fingerprint(self.family))
        if clean or found == self._fingerprint:
            # Somebody may have come between the two calls; the generation is then found to be another one the next time.
            self._fingerprint = found
            self._generations.found_clean(self.family, generation)
            return
        if self._fingerprint is not None:
            logger.warning("another program has changed the table %s kube-proxy; writing it anew", self.family.nft)
            self._metrics.foreign_changes.labels(self.family.name).inc()
        self.needs_whole = True

    async def _apply(self, transaction: Transaction, *, full: bool) -> None:
        if not transaction.commands:
            return
        before = self._kernel.generation()
        self._fingerprint = None
        await self._writer.apply(transaction.text)
        self._generations.committed(before, self._kernel.generation(), self.family if full else None)
        now = self._clock.monotonic()
        if full:
            self._stale.clear()
        self._stale.update(dict.fromkeys(transaction.stale_chains, now))
        for name in [name for name in self._stale if self.table.has(chain(name))]:
            del self._stale[name]

    def _synced(self) -> None:
        metrics, name, now = self._metrics, self.family.name, self._clock.now()
        metrics.last_sync.labels(name).set(now)
        internal, external = self.table.unserved
        metrics.without_local_endpoints.labels("internal", name).set(internal)
        metrics.without_local_endpoints.labels("external", name).set(external)
        for trigger in self.triggers:
            metrics.programming.labels(name).observe(max(0.0, now - trigger))
        self.triggers.clear()

    async def _forget_connections(self) -> None:
        """Let clients of UDP services find new endpoints. A failure leaves them as they are until the next change."""
        started = self._clock.monotonic()
        services = list(self.table.port_endpoints())
        clean: Callable[[], int] = lambda: self._kernel.forget(  # noqa: E731
            self.family, list(stale_connections(self._kernel.udp_connections(self.family), services))
        )
        try:
            count = await self._blocking(clean)
        except (NetlinkError, OSError) as error:
            logger.warning("stale UDP connections cannot be removed: %s", error)
            return
        self._metrics.conntrack.labels(self.family.name).observe(self._clock.monotonic() - started)
        self._metrics.conntrack_deleted.labels(self.family.name).inc(count)
