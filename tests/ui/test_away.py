"""A cluster that goes away and comes back, credentials that expire, and many pages at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import meta_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.transport import Transport
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.builders import pod
from bayplan.testing.cluster import eventually
from bayplan.ui import cluster_source
from tests.ui.page import Page, page_of
from tests.ui.test_server import next_frame


class Broken(Transport):
    """A transport whose requests fail while there is an error."""

    def __init__(self, sound: Transport) -> None:
        self._sound = sound
        self.error: Exception | None = None

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        if self.error is not None:
            raise self.error
        return await self._sound.request(method, path, query, body, content_type)

    async def watch(self, *arguments: Any) -> Any:
        return await self._sound.watch(*arguments)

    async def close(self) -> None:
        await self._sound.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TransportError("connection refused"), "connection refused"),
        (ApiError(meta_v1.Status(code=401, message="Unauthorized")), "the credentials are not valid (any more)"),
    ],
)
def test_a_cluster_that_does_not_answer_is_told_of_until_it_does(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_source, "_ALIVE_SECONDS", 0.02)

    async def whole() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=1, start_seconds=0.02)))
        await cluster.start()
        try:
            sound = cluster.client()
            transport = Broken(sound.transport)
            async with page_of(Client(transport, sound.kinds)) as page:

                async def told(expected: str) -> bool:
                    snapshot = await page.json("/api/snapshot")
                    assert snapshot["status"]["unreachable"] == expected
                    return bool(snapshot["tables"]["nodes"]["keys"])  # what was known is still shown

                await eventually(lambda: told(""))
                transport.error = error
                await eventually(lambda: told(words))
                transport.error = None
                await eventually(lambda: told(""))
        finally:
            await cluster.stop()

    asyncio.run(whole())


def test_a_hundred_pages_get_the_same_bytes() -> None:
    async def follow(page: Page, number: int, ready: asyncio.Semaphore) -> bytes:
        async with page.session.get(f"/api/changes?after={number}") as response:
            ready.release()
            while True:
                _, frame = await next_frame(response)
                if "default/new" in frame["tables"].get("pods", {}).get("keys", ()):
                    return msgspec.json.encode(frame)

    async def whole() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=1, start_seconds=0.02)))
        await cluster.start()
        try:
            async with page_of(cluster.client()) as page, contextlib.AsyncExitStack() as pages:
                number = (await page.json("/api/snapshot"))["frame"]
                ready = asyncio.Semaphore(0)
                tasks = [asyncio.create_task(follow(page, number, ready)) for _ in range(100)]
                pages.callback(lambda: [task.cancel() for task in tasks])
                for _ in tasks:
                    await ready.acquire()
                assert page.server.feed.followers == 100
                await cluster.client().create(pod("new"))
                frames = await asyncio.wait_for(asyncio.gather(*tasks), 20)
                assert len(set(frames)) == 1
        finally:
            await cluster.stop()

    asyncio.run(whole())
