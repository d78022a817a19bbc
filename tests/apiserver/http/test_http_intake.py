"""Requests of one user that come all at once are taken up a few at a time, so that others are read in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from functools import partial

import pytest

from bayplan.apiserver.http.intake import Intake
from bayplan.apiserver.http.server import HttpServer
from tests.apiserver.http.test_http_answer import request
from tests.apiserver.http.test_http_connection import Line, line
from tests.apiserver.http2.http2_client import MAPS, http2_served
from tests.apiserver.serving import TOKENS, Served, served

_MANY = 8


def test_users_take_turns() -> None:
    async def run() -> None:
        intake, taken = Intake(), list[str]()

        def read(*names: str) -> None:
            for name in names:
                if intake.try_take(name[0]):
                    taken.append(name)
                else:
                    intake.wait(name[0], partial(taken.append, name))

        async def next_turn(*names: str) -> list[str]:
            taken.clear()
            await asyncio.sleep(0)
            read(*names)
            return list(taken)

        assert await next_turn("a1", "a2", "a3", "a4", "a5", "a6", "b1") == ["a1", "a2", "a3", "a4", "b1"]
        read("c1", "c2", "c3", "c4", "c5", "c6", "c7")
        assert await next_turn("b2", "c8") == ["a5", "c5", "a6", "c6", "b2"]
        assert await next_turn("a7") == ["c7", "c8", "a7"]
        assert await next_turn() == []

    asyncio.run(run())


async def opened_by(server: Served, user: str, stack: contextlib.AsyncExitStack) -> tuple[list[Line], bytes]:
    """Connections whose user the server knows, and the request that they send."""
    data = request("GET", f"{MAPS}/none").replace(TOKENS["admin"][0].encode(), TOKENS[user][0].encode())
    lines = [await stack.enter_async_context(line(server)) for _ in range(_MANY)]
    for one in lines:
        for _ in range(2):  # the second one on the fast path
            assert (await one.ask(data))[0] in (403, 404)
    return lines, data


@pytest.mark.parametrize(("user", "is_limited"), [("bob", True), ("admin", False)])
def test_a_few_requests_of_a_user_are_taken_up_at_once(
    user: str, is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The administrator's, whom no priority level limits, are all taken up as they come, which shows that the count means something."""
    iteration, taken = [0], Counter[int]()
    take = HttpServer.request

    def noted(self: HttpServer, *arguments: object) -> object:
        taken[iteration[0]] += 1
        return take(self, *arguments)  # type: ignore[arg-type]

    def count() -> None:
        iteration[0] += 1
        asyncio.get_running_loop().call_soon(count)

    async def run() -> None:
        async with served() as server, contextlib.AsyncExitStack() as stack:
            lines, data = await opened_by(server, user, stack)
            monkeypatch.setattr(HttpServer, "request", noted)
            count()
            for one in lines:
                one.writer.write(data)
            assert {(await one.answer())[0] for one in lines} <= {403, 404}
        assert taken.total() == _MANY
        assert (max(taken.values()) <= 4) is is_limited

    asyncio.run(run())


def test_what_comes_meanwhile_is_answered_in_order_and_who_goes_away_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        async with served() as server, contextlib.AsyncExitStack() as stack:
            lines, data = await opened_by(server, "bob", stack)
            monkeypatch.setattr(Intake, "try_take", lambda *_: False)
            other = data.replace(b"/none", b"/other")
            for one in lines[:3]:
                one.writer.write(data)
                one.writer.write(other + data[:40])
            lines[3].writer.write(data)
            lines[3].writer.transport.abort()
            for one in lines[:3]:
                bodies = [(await one.answer())[1] for _ in range(2)]
                assert [b"none" in bodies[0], b"other" in bodies[1]] == [True, True]
                await one.send(data[40:])
                assert b"none" in (await one.answer())[1]
            assert not server.http.intake._waiting

    asyncio.run(run())


def test_requests_of_one_http_2_connection_are_taken_up_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []
    wait = Intake.wait

    def noted(self: Intake, user: str, take: object) -> None:
        held.append(user)
        wait(self, user, take)  # type: ignore[arg-type]

    async def run() -> None:
        async with http2_served() as (_, client):
            token = f"Bearer {TOKENS['bob'][0]}"
            fields = [
                (name, token if name == "authorization" else value)
                for name, value in client.fields("GET", f"{MAPS}/none")
            ]
            for _ in range(2):
                await client.answer(client.send(fields))
            monkeypatch.setattr(Intake, "wait", noted)
            client.is_silent = True
            streams = [client.send(fields) for _ in range(_MANY)]
            client.state.reset_stream(streams[-1])
            client.is_silent = False
            client.flush()
            assert {(await client.answer(stream)).status for stream in streams[:-1]} <= {403, 404}
        assert set(held) == {"bob"}
        assert len(held) >= _MANY - 1 - 4

    asyncio.run(run())
