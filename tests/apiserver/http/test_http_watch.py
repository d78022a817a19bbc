"""Watches over HTTP: everybody gets every event in order, who does not read is waited for, and a failure concerns one watch only."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from bayplan.apiserver.http import watch as http_watch
from bayplan.apiserver.reads import watching
from tests.apiserver.serving import Served, served

MAPS = "/api/v1/namespaces/default/configmaps"


async def make(server: Served, name: str, size: int = 1) -> None:
    body = {"metadata": {"name": name}, "data": {"text": "x" * size}}
    async with server.session.post(server.url + MAPS, json=body, headers=server.headers()) as answer:
        assert answer.status == 201


async def make_many(server: Served, number: int, size: int = 1) -> list[str]:
    """Returns their names, in order."""
    made = [f"m-{index:02d}" for index in range(number)]
    for name in made:
        await make(server, name, size)
    return made


async def open_watch(server: Served, accept: str = "application/json", query: str = "") -> aiohttp.ClientResponse:
    headers = {**server.headers(), "Accept": accept}
    timeout = aiohttp.ClientTimeout(None)
    return await server.session.get(f"{server.url}{MAPS}?watch=1{query}", headers=headers, timeout=timeout)


async def names(watch: aiohttp.ClientResponse, until: str) -> list[str]:
    """Names of objects in the order in which they are told, up to a certain one."""
    found: list[str] = []
    async with asyncio.timeout(30):
        while until not in found:
            line = await watch.content.readuntil(b"\n")
            shown = json.loads(line)["object"]
            meta = shown["rows"][0]["object"]["metadata"] if "rows" in shown else shown["metadata"]
            found.append(meta["name"])
    return [name for name in found if name.startswith("m-")]


def test_everybody_gets_every_event_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_watch, "_SLICE", 3)

    async def run() -> None:
        async with served() as server:
            table = "application/json;as=Table;v=v1;g=meta.k8s.io"
            watches = [await open_watch(server, accept) for accept in ("application/json", table) * 4]
            expected = await make_many(server, 20)
            for watch in watches:
                assert await names(watch, expected[-1]) == expected
                watch.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", ["m-old", "m-new"]),
        ("&resourceVersion=0", ["m-old", "m-new"]),
        ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", ["m-new"]),
        ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0", ["m-new"]),
        ("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", ["m-old", "m-new"]),
    ],
)
def test_a_watch_without_initial_events_begins_now(query: str, told: list[str]) -> None:
    async def run() -> None:
        async with served() as server:
            await make(server, "m-old")
            watch = await open_watch(server, query=query)
            await make(server, "m-new")
            assert await names(watch, "m-new") == told
            watch.close()

    asyncio.run(run())


def test_more_events_at_once_than_one_batch_are_all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_BATCH", 3)

    async def run() -> None:
        async with served() as server:
            watch = await open_watch(server)
            expected = await make_many(server, 20)
            assert await names(watch, expected[-1]) == expected
            async with server.session.delete(server.url + MAPS, headers=server.headers()) as answer:
                assert answer.status == 200
            assert await names(watch, expected[-1]) == expected  # deleted in the same order
            watch.close()

    asyncio.run(run())


def test_who_does_not_read_gets_everything_later_and_holds_up_nobody() -> None:
    async def run() -> None:
        async with served() as server:
            slow, quick = await open_watch(server), await open_watch(server)
            reading = asyncio.create_task(names(quick, "m-39"))
            expected = await make_many(server, 40, 400_000)
            assert await reading == expected
            assert await names(slow, expected[-1]) == expected
            slow.close()
            quick.close()

    asyncio.run(run())


def test_an_event_that_cannot_be_shown_ends_the_watch_that_asked_for_it_and_no_other() -> None:
    async def run() -> None:
        async with served() as server:
            first, second = await open_watch(server), await open_watch(server)
            await make(server, "m-00")
            assert await names(first, "m-00") == await names(second, "m-00") == ["m-00"]
            kind = next(kind for kind in server.api.context.kinds if kind.plural == "configmaps")
            watcher = next(iter(server.api.context.objects.cache(kind).watchers))

            def unable(*_: object) -> bytes:
                raise ValueError("cannot be shown")

            watcher.render = unable
            await make(server, "m-01")
            assert await names(second, "m-01") == ["m-01"]
            with pytest.raises(aiohttp.ClientPayloadError):
                async with asyncio.timeout(30):
                    await first.content.read()
            assert watcher.closed
            first.close()
            second.close()

    asyncio.run(run())
