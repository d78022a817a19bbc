"""A terminal and a followed log in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.ui.browser import AXE, Watched, browser_on
from tests.ui.shells import page_with_shells
from tests.ui.test_pod_streams import STAMP

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.usefixtures("quiet_network")]
_SHOWS = "text => (globalThis.bayplan.screen?.text() || '').includes(text)"
_GREEN = """() => [...document.querySelectorAll('.screen span')].some(
    (one) => one.textContent.startsWith('green 42') && one.style.color === 'var(--t2)')"""
Story = Callable[[Watched], Coroutine[Any, Any, None]]


def play(directory: Path, story: Story, allow_changes: bool = True, **browser: Any) -> None:
    async def whole() -> None:
        async with (
            page_with_shells(directory, allow_changes=allow_changes) as (page, _),
            browser_on(page.url, **browser) as tab,
        ):
            await story(tab)

    asyncio.run(whole())  # fmt: skip


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_a_shell_is_used_by_keyboard(look: str, tmp_path: Path) -> None:
    size: dict[str, Any] = {"width": 390, "height": 760} if look == "phone" else {}

    async def story(tab: Watched) -> None:
        await tab.open("#/pod/default/web")
        await tab.tab.click("text=Terminal")
        await tab.until(_SHOWS, tmp_path.name[-1])
        await tab.tab.keyboard.type("PS1='> '; printf '\\033[32mgreen %s\\033[0m\\n' $((6 * 7))")
        await tab.tab.keyboard.press("Enter")
        await tab.until(_SHOWS, "green 42")
        await tab.until(_GREEN)
        await tab.tab.keyboard.type("cat")
        await tab.tab.keyboard.press("Enter")
        await tab.tab.keyboard.type("g?/")
        await tab.tab.keyboard.press("Control+c")
        await tab.until(_SHOWS, "^C")
        assert await tab.tab.evaluate("location.hash") == "#/pod/default/web/terminal"
        columns = await tab.tab.evaluate("bayplan.screen.columns")
        await tab.tab.keyboard.type("clear; stty size")
        await tab.tab.keyboard.press("Enter")
        await tab.until(_SHOWS, f" {columns}")
        await tab.tab.set_viewport_size({"width": size.get("width", 1360) - 60, "height": 700})
        await tab.until("before => bayplan.screen.columns < before", columns)
        fewer = await tab.tab.evaluate("bayplan.screen.columns")
        await tab.tab.keyboard.type("clear; stty size")
        await tab.tab.keyboard.press("Enter")
        await tab.until(_SHOWS, f" {fewer}")
        if AXE.exists():
            assert await tab.findings() == []
        assert await tab.tab.evaluate("document.documentElement.scrollWidth") <= size.get("width", 1360)
        await tab.tab.keyboard.press("Shift+Tab")
        assert await tab.tab.evaluate("document.activeElement.tagName") != "TEXTAREA"
        await tab.tab.focus("textarea")
        await tab.tab.keyboard.type("exit")
        await tab.tab.keyboard.press("Enter")
        await tab.see("The shell has ended.")

    play(tmp_path, story, dark=look == "dark", **size)  # fmt: skip


def test_lines_that_scrolled_away_can_be_read_and_markup_stays_text(tmp_path: Path) -> None:
    async def story(tab: Watched) -> None:
        await tab.open("#/pod/default/web/terminal")
        await tab.until(_SHOWS, tmp_path.name[-1])
        await tab.tab.keyboard.type("seq 1 400; echo '<img src=x onerror=alert(1)>'; echo do''ne")
        await tab.tab.keyboard.press("Enter")
        await tab.until(_SHOWS, "\ndone")
        await tab.until("() => document.querySelector('.screen').children.length > 300")
        rows = await tab.tab.evaluate(
            "() => [...document.querySelectorAll('.screen > div')].map((one) => one.textContent.trim())"
        )
        assert [str(number) for number in range(300, 400)] == rows[rows.index("300") : rows.index("400")]
        assert await tab.tab.evaluate("document.querySelectorAll('img').length") == 0

    play(tmp_path, story)  # fmt: skip


def test_a_log_is_followed(tmp_path: Path) -> None:
    async def story(tab: Watched) -> None:
        log = tmp_path / "log"
        log.write_text(f"{STAMP} first\n")
        await tab.open("#/pod/default/web/logs")
        await tab.see("first")
        await tab.tab.click("text=follow")
        await tab.see("Following.")
        with log.open("a") as file:
            file.write(f"{STAMP} second <b>line</b>\n")
        await tab.see("second <b>line</b>")
        if AXE.exists():
            assert await tab.findings() == []

    play(tmp_path, story, allow_changes=False)


def test_a_page_that_is_read_only_offers_no_terminal(tmp_path: Path) -> None:
    async def story(tab: Watched) -> None:
        await tab.open("#/pod/default/web")
        await tab.see("Timeline")
        assert "Terminal" not in await tab.tab.evaluate("document.querySelector('.tabs').innerText")

    play(tmp_path, story, allow_changes=False)
