"""Scenarios over HTTP: listed, played once, and nothing before a page asks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
import pytest

from bayplan.simulation.lessons.lesson import ORDER
from bayplan.ui import lessons
from tests.ui.page import Page, page_of, small_copy


def with_page(story: Callable[[Page], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with page_of(small_copy(), learn=True) as page:
            await story(page)

    asyncio.run(whole())


class Program:
    """In place of the command line program: counts how often it is started."""

    def __init__(self, answer: tuple[int, bytes, bytes]) -> None:
        self.answer = answer
        self.started: list[Sequence[str]] = []

    async def __call__(self, arguments: Sequence[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        self.started.append(arguments)
        await asyncio.sleep(0)
        return self.answer


def test_all_scenarios_are_listed_with_their_numbers_of_steps() -> None:
    async def story(page: Page) -> None:
        listed = await page.json("/api/learn")
        assert [one["name"] for one in listed] == list(ORDER)
        assert all(one["steps"] >= 4 and one["summary"] for one in listed)

    with_page(story)


def test_pages_that_ask_at_once_and_later_share_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program((0, msgspec.json.encode({"steps": []}), b""))
    monkeypatch.setattr(lessons, "program_output", program)

    async def story(page: Page) -> None:
        answers = await asyncio.gather(*(page.json("/api/learn/taints") for _ in range(5)))
        assert answers == [{"steps": []}] * 5
        await page.json("/api/learn/taints")
        assert program.started == [("learn", "--output=json", "--", "taints")]

    with_page(story)


def test_a_scenario_that_fails_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program((2, b"", b"bayplan: taints.yaml: step 'x' does not happen\n"))
    monkeypatch.setattr(lessons, "program_output", program)

    async def story(page: Page) -> None:
        assert "step 'x' does not happen" in (await page.json("/api/learn/taints", 500))["error"]
        program.answer = (0, b"{}", b"")
        assert await page.json("/api/learn/taints") == {}

    with_page(story)


@pytest.mark.parametrize(("name", "status"), [("nothing", 404), ("-x", 400)])
def test_names_of_no_scenario_start_no_program(name: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program((0, b"{}", b""))
    monkeypatch.setattr(lessons, "program_output", program)

    async def story(page: Page) -> None:
        await page.text(f"/api/learn/{name}", status)
        assert program.started == []

    with_page(story)


def test_nothing_is_imported_before_a_page_asks() -> None:
    program = "import sys, bayplan.ui.server; sys.exit(any(one.startswith('bayplan.simulation.lessons') for one in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
