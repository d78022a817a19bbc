"""Scenarios in a real browser: played, stepped, moved along, and readable by everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.ui.browser import AXE, Watched, browser_on
from tests.ui.page import page_of, small_copy

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.usefixtures("quiet_network")]
_CLICK = "name => [...document.querySelectorAll('button')].find((one) => one.textContent === name).click()"
_STEP = "title => document.querySelector('.tour [aria-current=step]')?.textContent === title"


def with_browser(story: Callable[[Watched], Coroutine[Any, Any, None]], **browser: Any) -> None:
    async def whole() -> None:
        async with page_of(small_copy(), learn=True) as page, browser_on(page.url, **browser) as tab:
            await story(tab)

    asyncio.run(whole())


async def seek(tab: Watched, place: int) -> None:
    """Move the slider."""
    await tab.tab.evaluate(
        "place => { const one = document.querySelector('[aria-label=Write]'); one.value = place; "
        "one.dispatchEvent(new Event('input', {bubbles: true})) }",
        place,
    )


def test_a_scenario_is_stepped_and_shows_who_wrote_what_and_the_code() -> None:
    async def story(tab: Watched) -> None:
        await tab.open()
        await tab.see("Preemption")
        assert await tab.tab.evaluate("document.querySelectorAll('nav.side a').length") == 1
        await tab.tab.click("text=Preemption")
        await tab.see("Step back")
        assert await tab.tab.evaluate("document.querySelectorAll('.pod.ready').length") == 4
        for title in (
            "You create an important pod in a full cluster",
            "No node fits, so DefaultPreemption looks for victims",
        ):
            await tab.tab.evaluate(_CLICK, "Step")
            await tab.until(_STEP, title)
        await tab.see("meant for node-1")
        await tab.see("status.nominatedNodeName")
        await tab.tab.click("summary:has-text('DefaultPreemption.choose')")
        await tab.see("def choose(")
        await tab.tab.evaluate(_CLICK, "Step")
        await tab.see("FailedScheduling")
        for title in (
            "No node fits, so DefaultPreemption looks for victims",
            "You create an important pod in a full cluster",
        ):
            await tab.tab.evaluate(_CLICK, "Step back")
            await tab.until(_STEP, title)
        await tab.until("() => !document.body.innerText.includes('meant for node-1')")

    with_browser(story)  # fmt: skip


def test_a_scenario_is_played_to_its_end_and_moved_along() -> None:
    async def story(tab: Watched) -> None:
        await tab.open("#/learn/node-failure")
        await tab.see("Step back")
        last = await tab.tab.evaluate("Number(document.querySelector('[aria-label=Write]').max)")
        await seek(tab, last - 1)
        await tab.see("after 5 min 58 s")
        await seek(tab, last - 2)
        await tab.tab.evaluate(_CLICK, "Play")
        await tab.until(
            "() => [...document.querySelectorAll('button')].some((one) => one.textContent === 'Play again')"
        )
        assert await tab.tab.evaluate("Number(document.querySelector('[aria-label=Write]').value)") == last
        await seek(tab, 0)
        await tab.until("() => !document.querySelector('.box.down')")
        await seek(tab, 2)
        await tab.until("() => document.querySelector('.box.down h3').textContent.startsWith('node-2')")

    with_browser(story)


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_scenarios_have_no_serious_finding_and_fit(look: str) -> None:
    size = {"width": 390, "height": 760} if look == "phone" else {}

    async def story(tab: Watched) -> None:
        await tab.open("#/learn")
        await tab.see("Preemption")
        if AXE.exists():
            assert await tab.findings() == []
        await tab.open("#/learn/rollout")
        await tab.see("Step back")
        for _ in range(4):
            await tab.tab.evaluate(_CLICK, "Step")
        await tab.see("DeploymentController._roll")
        await tab.tab.click("summary")
        if AXE.exists():
            assert await tab.findings() == []
        width = await tab.tab.evaluate("document.documentElement.scrollWidth")
        assert width <= size.get("width", 1360)

    with_browser(story, dark=look == "dark", **size)


def test_a_scenario_that_there_is_none_of_is_said() -> None:
    async def story(tab: Watched) -> None:
        await tab.open("#/learn/nothing")
        await tab.see("there is no scenario nothing")
        tab.problems = [one for one in tab.problems if "404" not in one]

    with_browser(story)


def test_views_that_are_not_opened_are_not_loaded() -> None:
    async def whole() -> None:
        async with page_of(small_copy()) as page, browser_on(page.url) as tab:
            loaded: list[str] = []
            tab.tab.on("request", lambda request: loaded.append(request.url.rpartition("/")[2]))
            await tab.open("#/map")
            await tab.see("free")
            assert "app.js" in loaded
            assert {"learn.js", "uplot.js", "terminal.js"}.isdisjoint(loaded)
            await tab.open("#/learn")
            await tab.see("Preemption")
            assert "learn.js" in loaded

    asyncio.run(whole())
