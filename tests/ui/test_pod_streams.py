"""Terminals and followed logs, through the page's server and a real API server to real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bayplan.testing.cluster import eventually
from bayplan.ui import pod_streams
from tests.ui.page import Page, page_of, small_copy
from tests.ui.shells import page_with_shells

Story = Callable[[Page], Coroutine[Any, Any, None]]
WEB = "/api/terminal?namespace=default&name=web"
STAMP = "2026-01-02T03:04:05.0Z stdout F"


def play(directory: Path, story: Story, **settings: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), page_with_shells(directory, **settings) as (page, _):
            await story(page)

    asyncio.run(whole())


@contextlib.asynccontextmanager
async def terminal(page: Page, path: str = WEB) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    origin = page.url.partition("/?")[0]
    async with page.session.ws_connect(path, headers={"Origin": origin}) as socket:
        yield socket


async def read_until(socket: aiohttp.ClientWebSocketResponse, text: str) -> str:
    """What the terminal shows, up to a text."""
    shown = ""
    while text not in shown:
        message = await socket.receive(timeout=20)
        assert message.type is aiohttp.WSMsgType.BINARY, (message, shown)
        shown += message.data.decode(errors="replace")
    return shown


async def read_end(socket: aiohttp.ClientWebSocketResponse) -> str:
    while True:
        message = await socket.receive(timeout=20)
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(json.loads(message.data)["ended"])
        assert message.type is aiohttp.WSMsgType.BINARY, message


def test_a_shell_answers_knows_its_size_and_ends(tmp_path: Path) -> None:
    async def story(page: Page) -> None:
        async with terminal(page) as socket:
            await socket.send_str('{"resize": [91, 33]}')
            await socket.send_bytes(b"echo $((6 * 7))-$TERM; stty size\r")
            shown = await read_until(socket, "33 91")
            assert "42-xterm-256color" in shown
            await socket.send_bytes(b"exit\r")
            assert await read_end(socket) == ""

    play(tmp_path, story)


def test_why_a_shell_ended_is_said(tmp_path: Path) -> None:
    async def story(page: Page) -> None:
        async with terminal(page) as socket:
            await socket.send_bytes(b"exit 3\r")
            assert "exit code 3" in await read_end(socket)
        async with terminal(page, "/api/terminal?namespace=default&name=nobody") as socket:
            assert await read_end(socket)

    play(tmp_path, story)


def test_messages_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    async def story(page: Page) -> None:
        async with terminal(page) as socket:
            for text in ("{", "[]", '{"resize": [0, 1]}', '{"resize": [1, 100000]}', '{"resize": 7}', '{"x": [1, 2]}'):
                await socket.send_str(text)
            await socket.send_bytes(b"echo $((6 * 7))\r")
            await read_until(socket, "42")

    play(tmp_path, story)


def test_the_process_ends_with_the_page(tmp_path: Path) -> None:
    async def story(page: Page) -> None:
        async with terminal(page) as socket:
            await socket.send_bytes(b"echo pid-$$-\r")
            shown = await read_until(socket, "pid-")
            while "-\r\n" not in shown.rpartition("pid-")[2] or "$$" in shown.rpartition("pid-")[2]:
                shown += (await socket.receive(timeout=20)).data.decode()
            number = int(shown.rpartition("pid-")[2].partition("-")[0])
            os.kill(number, 0)

        async def is_gone() -> bool:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, 0)
                return False
            return page.server._streams._terminals == 0

        await eventually(is_gone)

    play(tmp_path, story)


@pytest.mark.parametrize("origin", ["", "http://elsewhere.example"])
def test_other_sites_open_no_terminal(origin: str, tmp_path: Path) -> None:
    async def story(page: Page) -> None:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            await page.session.ws_connect(WEB, headers={"Origin": origin} if origin else {})
        assert raised.value.status == 403

    play(tmp_path, story)


def test_a_page_that_is_read_only_has_no_terminal_but_logs(tmp_path: Path) -> None:
    async def story(page: Page) -> None:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            async with terminal(page):
                pass
        assert raised.value.status == 403
        (tmp_path / "log").write_text(f"{STAMP} one\n")
        async with page.session.get("/api/logs/follow?namespace=default&name=web") as response:
            assert await response.content.readline() == b"one\n"

    play(tmp_path, story, allow_changes=False)


def test_a_log_is_followed_as_it_is_written(tmp_path: Path) -> None:
    async def story(page: Page) -> None:
        log = tmp_path / "log"
        log.write_text(f"{STAMP} one\n")
        async with page.session.get("/api/logs/follow?namespace=default&name=web") as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            assert await response.content.readline() == b"one\n"
            with log.open("a") as file:
                file.write(f"{STAMP} two\n")
            assert await response.content.readline() == b"two\n"

        async def is_over() -> bool:
            return page.server._streams._logs == 0

        await eventually(is_over)
        error = await page.json("/api/logs/follow?namespace=default&name=nobody", 404)
        assert "nobody" in error["error"]

    play(tmp_path, story)


def test_more_streams_than_allowed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_streams, "_MOST", 1)

    async def story(page: Page) -> None:
        (tmp_path / "log").write_text(f"{STAMP} one\n")
        path = "/api/logs/follow?namespace=default&name=web"
        async with terminal(page), page.session.get(path):
            with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
                async with terminal(page):
                    pass
            assert raised.value.status == 503
            assert "close some" in await page.text(path, 503)

    play(tmp_path, story)


def test_a_copy_has_neither() -> None:
    async def whole() -> None:
        async with page_of(small_copy(), allow_changes=True) as page:
            await page.text("/api/logs/follow?namespace=shop&name=web", 404)
            await page.text("/api/terminal?namespace=shop&name=web", 404)

    asyncio.run(whole())
