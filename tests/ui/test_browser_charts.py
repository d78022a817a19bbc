"""Charts in a real browser: of the cluster, of a node, of a pod; and what is said where there is nothing to draw."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.types import core_v1
from bayplan.cluster.cluster import Cluster
from bayplan.testing.builders import container, pod
from bayplan.ui import metrics_routes
from tests.ui.browser import AXE, Watched, browser_on
from tests.ui.page import Page, page_of, small_copy
from tests.ui.test_browser import with_browser

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.usefixtures("quiet_network")]
_DRAWN = "count => document.querySelectorAll('.chart canvas').length === count"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_routes, "FIGURES_SECONDS", 0.1)
    monkeypatch.setattr(metrics_routes, "USAGE_SECONDS", 0.2)


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_charts_follow_the_cluster(look: str) -> None:
    size = {"width": 390, "height": 760} if look == "phone" else {}

    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/charts")
        await tab.until(_DRAWN, 4)
        await cluster.client().create(pod("late", containers=(container(cpu="100m"),)))
        await tab.until(
            "() => [...document.querySelectorAll('.chart')].some((one) => one.innerText.includes('Pods by phase') && "
            "/running\\s*3/.test(one.innerText))"
        )
        figures = (await page.json("/api/figures"))["columns"]
        assert figures["unschedulable"][-1] == 1
        assert max(figures["bound"]) > 0
        for place in ("#/pod/default/late", "#/node/node-1"):
            await tab.open(place)
            await tab.until(_DRAWN, 2)
            await tab.see("used")
            if AXE.exists():
                assert await tab.findings() == []
        assert await tab.tab.evaluate("document.documentElement.scrollWidth") <= size.get("width", 1360)

    with_browser(story, dark=look == "dark", **size)


def test_a_cluster_without_the_metrics_api_says_so() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        usage = page.server._metrics._usage
        assert usage is not None
        usage.missing["pods"] = "the cluster has no metrics API"
        await page.server._metrics.stop()
        await tab.open("#/pod/default/big")
        await tab.see("Usage cannot be shown: the cluster has no metrics API")

    with_browser(story)


def test_a_large_cluster_reads_pods_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_routes, "MOST_PODS", 0)

    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/pods")
        await tab.see("big")
        pods = (await cluster.client().list(core_v1.Pod, "default")).items
        name = next(one.metadata.name for one in pods if one.spec.node_name)
        await tab.open(f"#/pod/default/{name}")
        await tab.until(_DRAWN, 2)

    with_browser(story)


def test_a_copy_has_no_charts() -> None:
    async def whole() -> None:
        async with page_of(small_copy()) as page, browser_on(page.url) as tab:
            assert "no metrics of a copy" in (await page.json("/api/figures", 404))["error"]
            assert "no metrics of a copy" in (await page.json("/api/usage?kind=Node&name=a", 404))["error"]
            await tab.open("#/charts")
            await tab.see("nothing to draw")

    asyncio.run(whole())
