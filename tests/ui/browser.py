"""A real browser on a page: Debian's Chromium by Playwright, watched for errors and for requests that leave the machine."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.testing.cluster import eventually

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
AXE = Path(__file__).parents[1] / "javascript" / "node_modules" / "axe-core" / "axe.min.js"
_OPTIONS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class Watched:
    """A tab, and what was wrong in it."""

    def __init__(self, tab: Any, url: str) -> None:
        self.tab = tab
        self.url = url
        self._origin = url.partition("/?")[0]
        self.problems: list[str] = []
        tab.on("console", self._said)
        tab.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        tab.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(f"{self._origin}/"):
            self.problems.append(f"request to {request.url}")

    async def open(self, place: str = "") -> None:
        """Open the page, or go to a place in it."""
        if self.tab.url.startswith(self._origin):
            await self.tab.evaluate("place => { location.hash = place }", place)
        else:
            await self.tab.goto(self.url)
            await self.until("() => Boolean(globalThis.bayplan?.store.loaded)")
            if place:
                await self.tab.evaluate("place => { location.hash = place }", place)

    async def see(self, text: str) -> None:
        """Wait until the page shows a text."""
        await self.until("text => document.body.innerText.includes(text)", text)

    async def until(self, function: str, argument: object = None) -> None:
        """Wait until a function of JavaScript is true. The browser's own way to wait would need `eval`, which the page forbids."""

        async def holds() -> bool:
            return bool(await self.tab.evaluate(function, argument))

        try:
            await eventually(holds, within=20)
        except AssertionError as error:
            shown = await self.tab.evaluate("() => document.body.innerText")
            raise AssertionError(
                f"{function} {argument or ''}: {error}; problems: {self.problems}; the page shows: {shown[:1500]}"
            ) from error

    async def findings(self) -> list[str]:
        """What axe finds that is serious or critical."""
        await self.tab.evaluate(AXE.read_text())
        found = await self.tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{one['id']}: {node['html'][:150]}: {node.get('failureSummary', '')}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]


@contextlib.asynccontextmanager
async def browser_on(url: str, *, width: int = 1360, height: int = 820, dark: bool = False) -> AsyncIterator[Watched]:
    """A tab that has not opened the page yet. Fails at the end if anything was wrong in it."""
    playwright = pytest.importorskip("playwright.async_api", reason="Playwright is not installed (extra `browser`)")
    if not CHROMIUM:
        pytest.skip("there is no Chromium")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=list(_OPTIONS))
        try:
            scheme = "dark" if dark else "light"
            context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            watched = Watched(await context.new_page(), url)
            yield watched
            assert watched.problems == []
        finally:
            await browser.close()
