"""Some kinds are kept in a store of their own: revisions of these are that store's, and nothing else is different."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from bayplan.store.memory import MemoryStore
from bayplan.support.randomness import SeededRandomness
from tests.apiserver.standing_still import ADMIN, CORE, Server

EVENTS, MAPS = f"{CORE}/events", f"{CORE}/configmaps"
EVENTS_V1 = "/apis/events.k8s.io/v1/namespaces/default/events"
PREFIX = "/registry/core/events/"


class Apart(Server):
    """A server with a store of its own for events, whose revision is far ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.main, self.events = MemoryStore(clock=self.clock), MemoryStore(clock=self.clock)
        self.api = self.api_over(self.main, self.events)

    def api_over(self, main: MemoryStore, events: MemoryStore) -> ApiServer:
        return ApiServer(main, clock=self.clock, randomness=SeededRandomness(7), elsewhere={PREFIX: events})

    async def __aenter__(self) -> Apart:
        await self.events.open()
        for number in range(2000):
            await self.events.put("/registry/other/things/a", str(number).encode())
        self.events.open = _nothing  # type: ignore[method-assign]
        await super().__aenter__()
        return self

    async def revision(self, path: str) -> int:
        """That of a list."""
        return int((await self.send("GET", path))[1]["metadata"]["resourceVersion"])

    async def watched(self, path: str, revision: int, count: int) -> list[tuple[str, str]]:
        """The first events of a watch: type and name."""
        response = await self.api.handle(Request("GET", path, {"watch": "1", "resourceVersion": str(revision)}, ADMIN))
        watcher = response.watcher
        assert watcher is not None
        found: list[tuple[str, str]] = []
        while len(found) < count:
            await watcher.wait()
            for item in watcher.take(100):
                event = msgspec.json.decode(watcher.line(*item))
                found.append((event["type"], event["object"]["metadata"]["name"]))
        watcher.close()
        return found


async def _nothing() -> None:
    """It is open."""


def event(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Tested", "type": "Normal"}


def test_objects_are_where_they_belong() -> None:
    async def run() -> None:
        async with Apart() as server:
            made = (await server.send("POST", EVENTS, event("a")))[1]
            await server.send("POST", MAPS, {"metadata": {"name": "m"}})
            assert await server.events.get(f"{PREFIX}default/a") is not None
            assert await server.main.get(f"{PREFIX}default/a") is None
            assert await server.main.get("/registry/core/configmaps/default/m") is not None
            assert (await server.send("GET", f"{EVENTS_V1}/a"))[1]["metadata"]["uid"] == made["metadata"]["uid"]
            assert int(made["metadata"]["resourceVersion"]) == server.events.revision > 2000
            assert await server.revision(MAPS) == server.main.revision < 2000
            assert await server.revision(EVENTS) == await server.revision(EVENTS_V1) == server.events.revision

    asyncio.run(run())


def test_writes_reads_and_watches_go_by_the_revisions_of_their_store() -> None:
    async def run() -> None:
        async with Apart() as server:
            for name in "abc":
                assert (await server.send("POST", EVENTS, event(name)))[0] == 201
                assert (await server.send("POST", MAPS, {"metadata": {"name": name}}))[0] == 201
            start = {path: await server.revision(path) for path in (EVENTS, MAPS)}
            assert (await server.send("POST", EVENTS, event("a")))[0] == 409
            for path in (EVENTS, MAPS):
                found = (await server.send("GET", f"{path}/a"))[1]
                changed = {**found, "metadata": {**found["metadata"], "labels": {"x": "y"}}}
                assert (await server.send("PUT", f"{path}/a", changed))[0] == 200
                assert (await server.send("PUT", f"{path}/a", changed))[0] == 409
                patch = b'{"metadata":{"labels":{"z":"1"}}}'
                assert (await server.send("PATCH", f"{path}/b", patch, "application/merge-patch+json"))[0] == 200
                assert (await server.send("DELETE", f"{path}/c"))[0] == 200
                page = (await server.send("GET", path, limit="1"))[1]
                assert [one["metadata"]["name"] for one in page["items"]] == ["a"]
                rest = (await server.send("GET", path, **{"continue": page["metadata"]["continue"]}))[1]
                assert [one["metadata"]["name"] for one in rest["items"]] == ["b"]
                past = {"resourceVersion": str(start[path]), "resourceVersionMatch": "Exact"}
                assert len((await server.send("GET", path, **past))[1]["items"]) == 3
                future = await server.send("GET", path, resourceVersion=str(await server.revision(path) + 1))
                assert (future[0], future[1]["reason"]) == (504, "Timeout")
                expected = [("MODIFIED", "a"), ("MODIFIED", "b"), ("DELETED", "c")]
                assert await server.watched(path, start[path], 3) == expected

    asyncio.run(run())


def test_what_the_store_of_the_others_has_of_them_is_not_seen() -> None:
    async def run() -> None:
        async with Apart() as server:
            await server.send("POST", EVENTS, event("a"))
            item = await server.events.get(f"{PREFIX}default/a")
            assert item is not None
            await server.main.put(f"{PREFIX}default/old", item.value)
            await server.events.put("/registry/core/configmaps/default/old", b"{}")
            again = server.api_over(server.main, server.events)
            server.main.open = _nothing  # type: ignore[method-assign]
            await again.open()
            server.api, first = again, server.api
            assert [one["metadata"]["name"] for one in (await server.send("GET", EVENTS))[1]["items"]] == ["a"]
            assert (await server.send("GET", f"{MAPS}/old"))[0] == 404
            server.api = first

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz"])
def test_each_store_has_a_check(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with Apart() as server:

            async def ask(name: str) -> int:
                return (await server.api.handle(Request("GET", f"{path}/{name}", {}, ADMIN))).code

            names = ["etcd", "etcd-override-0", *(["etcd-override-readiness-0"] if path == "/readyz" else [])]
            assert [await ask(name) for name in names] == [200] * len(names)
            monkeypatch.setattr(
                type(server.events), "write_error", property(lambda self: "full" if self is server.events else "")
            )
            assert [await ask(name) for name in names] == [200, *[500] * (len(names) - 1)]

    asyncio.run(run())
