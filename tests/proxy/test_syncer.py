"""When rules are written, and what follows failures and changes of others: in virtual time, on a model of the kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.proxy.families import FAMILIES, IPV4, IPV6, Family
from bayplan.proxy.family_syncer import FamilySyncer, Generations
from bayplan.proxy.health import ProxyHealth
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.table_options import TableOptions
from bayplan.proxy.syncer import Syncer
from bayplan.support.blocking import at_once
from bayplan.support.clock import LoopClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.virtual_time import run
from tests.proxy.model_kernel import ModelKernel, Table
from tests.proxy.objects import NODE, endpoint_slice, service

PERIOD, MINIMUM = 30.0, 1.0


class Proxy:
    """A syncer of both families, on a model."""

    def __init__(self) -> None:
        self.kernel, self.clock = ModelKernel(), LoopClock(1_000_000)
        self.registry = Registry()
        metrics = ProxyMetrics(self.registry)
        generations = Generations()
        self.health = ProxyHealth(self.clock, 2 * PERIOD)
        self.families = [
            FamilySyncer(
                DesiredTable(TableOptions(family=family, node_name=NODE)),
                self.kernel,
                self.kernel,
                generations,
                metrics,
                self.clock,
                at_once,
            )
            for family in FAMILIES
        ]
        self.refreshed = 0
        self.synced: list[tuple[float, Family]] = []
        self.syncer = Syncer(
            self.families,
            self.health,
            metrics,
            self.clock,
            min_period=MINIMUM,
            period=PERIOD,
            refresh=self._refresh,
            synced=self._synced,
        )

    @property
    def table(self) -> DesiredTable:
        return self.families[0].table

    def _refresh(self) -> None:
        self.refreshed += 1

    async def _synced(self, one: FamilySyncer) -> None:
        self.synced.append((self.clock.monotonic(), one.family))

    def change(self, number: int) -> None:
        """Another endpoint."""
        assert self.table.put_slice(endpoint_slice("web", f"10.1.0.{number}"))
        self.syncer.changed(IPV4)

    def rules(self) -> list[str]:
        """Rules of services."""
        return [
            rule
            for name, (_, rules) in self.kernel.tables.get("ip", Table()).chains.items()
            if "/" in name
            for rule in rules
        ]

    def value(self, name: str, *labels: str) -> float:
        child: Any = self.registry._families[name].labels(*labels)
        return float(child.value)


def play(story: Callable[[Proxy], Awaitable[None]]) -> None:
    async def main() -> None:
        proxy = Proxy()
        proxy.table.put_service(service("web", "10.96.0.1"))
        running = asyncio.create_task(proxy.syncer.run())
        try:
            await proxy.syncer.wait_for_first()
            proxy.synced.clear()
            await story(proxy)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run(main())


async def after(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_all_that_is_known_is_in_the_first_transaction_of_each_family() -> None:
    async def story(proxy: Proxy) -> None:
        assert len(proxy.kernel.commits) == 2
        assert "10.96.0.1 . tcp . 80" in proxy.kernel.tables["ip"].sets["no-endpoint-services"].elements
        assert proxy.kernel.tables["ip6"].chains.keys() >= {"services", "nat-prerouting"}
        assert proxy.health.healthy

    play(story)


def test_a_change_after_a_quiet_time_is_written_at_once_and_more_are_gathered() -> None:
    async def story(proxy: Proxy) -> None:
        await after(5)
        proxy.change(1)
        await after(0.01)
        assert len(proxy.kernel.commits) == 3
        for number in range(2, 6):
            proxy.change(number)
            await after(0.1)
        assert len(proxy.kernel.commits) == 3
        await after(0.6)
        assert len(proxy.kernel.commits) == 4
        assert "10.1.0.5 . 80" in proxy.rules()[0]
        assert [moment for moment, _ in proxy.synced] == [5, 6]
        assert "web" not in "".join(line for line in proxy.kernel.commits[-1].splitlines() if "service-" not in line)

    play(story)


def test_unused_chains_are_deleted_a_second_later_unless_they_come_back() -> None:
    def services(proxy: Proxy) -> list[str]:
        return [name for name in proxy.kernel.tables["ip"].chains if "/" in name]

    async def story(proxy: Proxy) -> None:
        await after(5)
        proxy.change(1)
        await after(2)
        slices = endpoint_slice("web", "10.1.0.1")
        for come_back in (True, False):
            proxy.table.remove_slice(slices)
            proxy.syncer.changed(IPV4)
            await after(0.5)
            assert (len(services(proxy)), proxy.rules()) == (1, [])
            if come_back:
                proxy.change(1)
            await after(1.5)
            assert len(services(proxy)) == len(proxy.rules()) == int(come_back)
        assert proxy.kernel.commits[-1].startswith("delete chain")
        assert proxy.value("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total", "IPv4") == 0

    play(story)


def test_chains_that_come_back_within_that_second_stay() -> None:
    async def story(proxy: Proxy) -> None:
        await after(5)
        slices = endpoint_slice("web", "10.1.0.1")
        for change in (proxy.table.put_slice, proxy.table.remove_slice, proxy.table.put_slice):
            assert change(slices)
            await proxy.families[0].sync()
        proxy.syncer.changed(IPV4)  # to look again at what is due
        await after(2)
        assert len(proxy.rules()) == 1
        assert not proxy.kernel.commits[-1].startswith("delete chain")
        assert proxy.value("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total", "IPv4") == 0

    play(story)


def test_after_a_failure_everything_is_written_with_growing_pauses() -> None:
    async def story(proxy: Proxy) -> None:
        await after(5)
        refused, attempts = proxy.kernel.apply, list[float]()

        async def refuse(text: str) -> None:
            attempts.append(proxy.clock.monotonic() - 5)
            proxy.kernel.refuse = "no"
            await refused(text)

        for one in proxy.families:
            one._writer.apply = refuse  # type: ignore[method-assign]
        proxy.change(1)
        await after(14)
        assert attempts == [0, 1, 3, 7]
        assert proxy.rules() == []
        assert proxy.value("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "IPv4") == 4
        for one in proxy.families:
            one._writer.apply = refused  # type: ignore[method-assign]
        await after(2)
        assert "10.1.0.1 . 80" in proxy.rules()[0]
        assert proxy.kernel.commits[-1].startswith("add table ip kube-proxy")
        proxy.change(2)
        await after(1.01)
        assert "10.1.0.2 . 80" in proxy.rules()[0]
        assert proxy.kernel.commits[-1].startswith("flush chain ip kube-proxy service-")

    play(story)


def test_it_is_unhealthy_when_a_change_waits_for_two_periods() -> None:
    async def story(proxy: Proxy) -> None:
        await after(5)
        refused = proxy.kernel.apply

        async def refuse(text: str) -> None:
            proxy.kernel.refuse = "no"
            await refused(text)

        for one in proxy.families:
            one._writer.apply = refuse  # type: ignore[method-assign]
        proxy.change(1)
        await after(59)
        assert proxy.health.healthy
        await after(2)
        assert proxy.health.livez()[0] is False
        for one in proxy.families:
            one._writer.apply = refused  # type: ignore[method-assign]
        await after(31)
        assert proxy.health.healthy

    play(story)


def test_tables_are_looked_at_every_period_and_changes_of_others_undone() -> None:
    async def story(proxy: Proxy) -> None:
        await after(35)
        assert proxy.refreshed == 1
        commits = len(proxy.kernel.commits)
        proxy.kernel.run("flush chain ip kube-proxy services\n")
        await after(20)
        assert proxy.kernel.tables["ip"].chains["services"][1] == []
        await after(10)
        assert proxy.kernel.tables["ip"].chains["services"][1] != []
        assert len(proxy.kernel.commits) == commits + 2
        assert proxy.value("bayplan_proxy_foreign_changes_total", "IPv4") == 1
        assert proxy.value("bayplan_proxy_foreign_changes_total", "IPv6") == 0
        await after(100)
        assert len(proxy.kernel.commits) == commits + 2

    play(story)


def test_a_table_that_was_removed_comes_back() -> None:
    async def story(proxy: Proxy) -> None:
        await after(35)
        proxy.kernel.run("delete table ip6 kube-proxy\n")
        await after(35)
        assert proxy.kernel.tables["ip6"].chains.keys() >= {"services"}

    play(story)


def test_changes_of_others_between_own_ones_are_seen_as_well() -> None:
    async def story(proxy: Proxy) -> None:
        await after(5)
        proxy.kernel.run("add rule ip kube-proxy services accept\n")
        proxy.change(1)
        await after(2)
        assert "accept" in proxy.kernel.tables["ip"].chains["services"][1]
        await after(30)
        assert "accept" not in proxy.kernel.tables["ip"].chains["services"][1]

    play(story)


def test_changes_of_other_tables_cost_no_transaction() -> None:
    async def story(proxy: Proxy) -> None:
        await after(35)  # fingerprints are taken
        commits = len(proxy.kernel.commits)
        for _ in range(4):
            proxy.kernel.run("add table other kube-proxy\n")
            await after(PERIOD)
        assert len(proxy.kernel.commits) == commits + 4

    play(story)


def test_own_commits_of_one_family_leave_the_other_clean() -> None:
    generations = Generations()
    generations.committed(5, 6, IPV4)
    generations.committed(6, 7, IPV6)
    assert generations.is_clean(IPV4, 7)
    assert generations.is_clean(IPV6, 7)
    generations.committed(7, 8, None)
    assert generations.is_clean(IPV4, 8)
    generations.committed(9, 10, IPV4)  # somebody has made 9
    assert generations.is_clean(IPV4, 10)
    assert not generations.is_clean(IPV6, 10)
    generations.committed(10, 12, IPV6)  # somebody came between
    assert not generations.is_clean(IPV4, 12)
    assert not generations.is_clean(IPV6, 12)
    generations.found_clean(IPV4, 12)
    assert generations.is_clean(IPV4, 12)


def test_the_time_from_a_change_to_its_rules_is_measured() -> None:
    async def story(proxy: Proxy) -> None:
        await after(5)
        proxy.families[0].triggers.append(proxy.clock.now() - 3)
        proxy.change(1)
        await after(0.1)
        histogram: Any = proxy.registry._families["kubeproxy_network_programming_duration_seconds"].labels("IPv4")
        assert (histogram.count, histogram.sum) == (1, 3)
        assert proxy.families[0].triggers == []

    play(story)
