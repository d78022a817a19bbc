"""The page in a real browser: views, live changes, keyboard, themes, accessibility, and nothing from elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import container, deployment, pod
from bayplan.testing.cluster import eventually
from tests.ui.browser import AXE, Watched, browser_on
from tests.ui.page import Page, page_of, small_copy

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.usefixtures("quiet_network")]
Story = Callable[[Watched, Page, Cluster], Coroutine[Any, Any, None]]
VIEWS = (
    "#/map",
    "#/decisions",
    "#/pods",
    "#/workloads",
    "#/nodes",
    "#/events",
    "#/queues",
    "#/charts",
    "#/learn",
    "#/pod/default/big",
    "#/node/node-1",
    "#/pod/default/big/yaml",
)


def with_browser(story: Story, *, nodes: int = 3, pods: int = 2, **browser: Any) -> None:
    """Play a story on the page of a live cluster with a deployment `web` and a pod that fits nowhere."""

    async def whole() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=nodes, start_seconds=0.02)))
        await cluster.start()
        try:
            client = cluster.client()
            await eventually(lambda: account(client))
            await client.create(deployment("web", pods))
            await client.create(pod("big", containers=(container(cpu="900"),)))
            async with page_of(client, (), cluster.scheduler_state) as page, browser_on(page.url, **browser) as tab:
                await story(tab, page, cluster)
        finally:
            await cluster.stop()

    asyncio.run(whole())


async def account(client: Any) -> bool:
    return bool(await client.get(core_v1.ServiceAccount, "default", "default"))


def test_every_view_shows_itself_and_the_address_keeps_no_token() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open()
        await tab.see("waiting")
        assert "token" not in tab.tab.url
        for view, text in zip(
            VIEWS,
            (
                "free",
                "most points",
                "Running",
                "Deployment",
                "node-3",
                "FailedScheduling",
                "unschedulable",
                "Placed per second",
                "Preemption",
                "Events",
                "Pods",
                "kind: Pod",
            ),
            strict=True,
        ):
            await tab.open(view)
            await tab.see(text)

    with_browser(story)  # fmt: skip


def test_changes_show_without_a_reload() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/pods")
        await tab.see("big")
        await cluster.client().create(pod("late", containers=(container(),)))
        await tab.until("() => bayplan.store.tables.pods.get('default/late')?.[3] === 'Running'")
        await tab.see("late")
        await cluster.client().delete(core_v1.Pod, "late", "default", grace_period_seconds=0)
        await tab.until("() => !bayplan.store.tables.pods.has('default/late')")
        await tab.until("() => !document.querySelector('main').innerText.includes('late')")

    with_browser(story)


def test_the_map_knows_what_nodes_have_left_and_is_used_by_keyboard() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/map")
        await tab.until("() => [...bayplan.store.used.values()].reduce((sum, one) => sum + one.pods, 0) === 2")
        await tab.tab.focus(".map canvas")
        await tab.tab.keyboard.press("ArrowRight")
        await tab.until("() => document.getElementById('map-focus').textContent.startsWith('Node node-1, ready')")
        await tab.tab.keyboard.press("ArrowRight")
        await tab.until("() => !document.getElementById('map-focus').textContent.includes('node-1,')")
        await tab.tab.keyboard.press("Enter")
        await tab.see("Node in")

    with_browser(story)


def test_selectors_filter_and_wrong_ones_are_named() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/pods")
        await tab.see("big")
        await tab.tab.fill("[aria-label='Fields selector']", "status.phase=Running")
        await tab.tab.keyboard.press("Enter")
        await tab.until("() => document.querySelectorAll('tbody tr').length === 2")
        await tab.tab.fill("[aria-label='Fields selector']", "status.nonsense=1")
        await tab.tab.keyboard.press("Enter")
        await tab.see("field label not supported")
        tab.problems = [one for one in tab.problems if "400" not in one]

    with_browser(story)


def test_keys_go_to_views_and_search() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/map")
        await tab.tab.keyboard.press("g")
        await tab.tab.keyboard.press("n")
        await tab.see("Version")
        await tab.tab.keyboard.press("/")
        await tab.tab.keyboard.type("node-2")
        await tab.until("() => document.querySelectorAll('tbody tr').length === 1")
        await tab.tab.keyboard.press("Escape")
        await tab.until("() => document.querySelectorAll('tbody tr').length === 3")
        await tab.tab.keyboard.press("?")
        await tab.see("zoom the map")

    with_browser(story)


@pytest.mark.parametrize("dark", [False, True])
def test_there_is_no_serious_finding_of_accessibility(dark: bool) -> None:
    if not AXE.exists():
        pytest.skip("axe is not installed (npm ci --prefix tests/javascript)")

    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open()
        for view in VIEWS:
            await tab.open(view)
            await tab.see("big" if "big" in view else "waiting")
            await tab.until("() => !document.querySelector('.loading')")
            assert await tab.findings() == [], view

    with_browser(story, dark=dark)


def test_on_a_phone_nothing_is_wider_than_the_screen() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open()
        for view in VIEWS:
            await tab.open(view)
            await tab.tab.wait_for_timeout(50)
            assert await tab.tab.evaluate("document.documentElement.scrollWidth") <= 390, view

    with_browser(story, width=390, height=760)


def test_when_the_server_goes_away_and_comes_back_the_page_says_so_and_catches_up() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/pods")
        await tab.see("big")
        await tab.tab.context.set_offline(True)
        await tab.tab.evaluate("bayplan.store.feed.source.dispatchEvent(new Event('error'))")
        await tab.see("what is shown may be old")
        await cluster.client().create(pod("meanwhile", containers=(container(),)))
        await tab.tab.context.set_offline(False)
        await tab.see("meanwhile")
        tab.problems.clear()  # failed requests are errors in the console

    with_browser(story)


def test_markup_in_objects_is_text() -> None:
    async def whole() -> None:
        copy = small_copy()
        copy.objects["Pod"][0].metadata.name = "<img src=x onerror=alert(1)>"
        async with page_of(copy, title="<b>bold</b>") as page, browser_on(page.url) as tab:
            await tab.open("#/pods")
            await tab.see("<img src=x onerror=alert(1)>")
            await tab.see("<b>bold</b>")
            await tab.open("#/pod/shop/db/yaml")
            assert await tab.tab.evaluate("document.querySelectorAll('img, b').length") == 0

    asyncio.run(whole())


def test_why_and_what_if_are_asked_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "copy.bayplan"
    file.write_bytes(to_bytes(small_copy()))

    async def whole() -> None:
        async with page_of(small_copy(), [f"--cluster={file}"]) as page, browser_on(page.url) as tab:
            await tab.open("#/pod/shop/db/why")
            await tab.see("Insufficient cpu")
            await tab.tab.click(".group")
            assert await tab.tab.evaluate("() => document.querySelector('.group').ariaPressed") == "true"
            await tab.tab.click("text=Find the smallest changes")
            await tab.see("lower the cpu request of container main from 9")
            await tab.tab.click(".fixes button")
            await tab.see("the patch of the pod's spec")
            if AXE.exists():
                assert await tab.findings() == []
            await tab.open("#/pod/shop/web/why")
            await tab.see("Points, plugin by plugin")
            if AXE.exists():
                assert await tab.findings() == []
            await tab.open("#/pod/shop/web/steps")
            await tab.see("The pod is created, admitted and stored")
            await tab.open("#/what-if")
            await tab.tab.fill("[aria-label='Drain nodes']", "a")
            await tab.tab.keyboard.press("Tab")
            await tab.tab.click("text=See what happens")
            await tab.see("Who moves")
            assert await tab.tab.evaluate("() => document.querySelectorAll('figure canvas').length") == 2
            await tab.tab.click("button:text-is('Play')")
            await tab.tab.click("button:text-is('Pause')")
            if AXE.exists():
                assert await tab.findings() == []

    asyncio.run(whole())


_PICTURE = "() => document.querySelector('.map canvas').toDataURL()"
_DIFFERS = "(before) => document.querySelector('.map canvas').toDataURL() !== before"


def test_a_large_cluster_is_panned_and_zoomed() -> None:
    """5,000 nodes and 50,000 pods: each step draws another picture."""

    async def whole() -> None:
        from tests.ui.large import large_copy

        async with page_of(large_copy(5000, 50_000)) as page, browser_on(page.url) as tab:
            await tab.open("#/map")
            await tab.until("() => bayplan.store.tables.pods.size === 50000")
            mouse, keyboard = tab.tab.mouse, tab.tab.keyboard
            await mouse.move(600, 400)

            async def zoom() -> None:
                for _ in range(12):
                    await mouse.wheel(0, -120)

            async def pan() -> None:
                await mouse.down()
                await mouse.move(500, 300, steps=10)
                await mouse.up()
                await mouse.move(600, 400)  # what is pointed at looks different

            async def search() -> None:
                await keyboard.press("/")
                await keyboard.type("app-39")

            for step in (zoom, pan, search):
                before = await tab.tab.evaluate(_PICTURE)
                await step()
                await tab.until(_DIFFERS, before)

    asyncio.run(whole())


def test_two_configurations_are_compared_side_by_side(tmp_path: Path) -> None:
    from tests.ui.test_question_routes import PACKING, even_copy

    file = tmp_path / "copy.bayplan"
    file.write_bytes(to_bytes(even_copy()))

    async def whole() -> None:
        async with page_of(even_copy(), [f"--cluster={file}"]) as page, browser_on(page.url) as tab:
            await tab.open("#/what-if")
            await tab.see("Another scheduler configuration")
            chosen = tmp_path / "wrong.yaml"
            chosen.write_text("parallelism: 0")
            await tab.tab.set_input_files("input[type=file]", chosen)
            await tab.until("() => document.querySelector('.configuration textarea').value === 'parallelism: 0'")
            await tab.tab.click("text=See what happens")
            await tab.see("should be an integer value greater than zero")
            assert await tab.tab.evaluate("document.querySelector('.field-errors dt').textContent") == "parallelism"
            if AXE.exists():
                assert await tab.findings() == []
            tab.problems = [one for one in tab.problems if "422" not in one]
            await tab.tab.fill(".configuration textarea", PACKING)
            await tab.tab.click("text=See what happens")
            await tab.see("most pods on one node")
            cells = "() => [...document.querySelectorAll('.comparison tr')].find((one) => one.innerText.includes('most pods')).innerText"
            assert (await tab.tab.evaluate(cells)).split()[-2:] == ["2", "4"]
            assert await tab.tab.evaluate("() => document.querySelectorAll('figure canvas').length") == 2
            await tab.tab.click("button:text-is('Play')")
            await tab.tab.click("button:text-is('Pause')")
            await tab.tab.click("button:text-is('Step')")
            if AXE.exists():
                assert await tab.findings() == []
            await tab.tab.set_viewport_size({"width": 390, "height": 760})
            assert await tab.tab.evaluate("document.documentElement.scrollWidth") <= 390

    asyncio.run(whole())


def test_more_tabs_than_a_browser_has_connections_all_follow_and_one_takes_over() -> None:
    async def story(tab: Watched, page: Page, cluster: Cluster) -> None:
        await tab.open("#/pods")
        others = [Watched(await tab.tab.context.new_page(), tab.url) for _ in range(11)]
        for one in others:
            await one.open("#/pods")
            await one.see("big")
        assert page.server.feed.followers == 1
        await cluster.client().create(pod("late", containers=(container(),)))
        for one in (tab, *others):
            await one.until("() => bayplan.store.tables.pods.get('default/late')?.[3] === 'Running'")
        await others[0].tab.evaluate("() => { bayplan.store.feed.number -= 3; bayplan.store.tables.pods.clear(); }")
        page.server.feed.set_status(title="another title")  # the next frame is not the one that this tab waits for
        await others[0].until("() => bayplan.store.tables.pods.has('default/late')")
        await tab.tab.close()

        async def another_follows() -> bool:
            page.server.feed.set_status(turn=page.server.feed.number)
            return page.server.feed.followers == 1

        await eventually(another_follows)
        await cluster.client().create(pod("later", containers=(container(),)))
        for one in others:
            await one.until("() => bayplan.store.tables.pods.get('default/later')?.[3] === 'Running'")
            assert one.problems == []

    with_browser(story)
