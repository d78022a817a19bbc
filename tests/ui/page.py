"""A page's server for tests: of a live cluster or of a copy, with a client that has the cookie."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.http_streams import HttpStreams
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness
from bayplan.ui.cluster_source import ClusterSource, CopiedCluster, LiveCluster, NoCluster
from bayplan.ui.feed import Feed
from bayplan.ui.question_routes import SchedulerState
from bayplan.ui.server import UiServer
from bayplan.ui.settings import UiSettings


@dataclass
class Page:
    """The server, and a session of a client that it lets in."""

    server: UiServer
    url: str
    session: aiohttp.ClientSession

    async def text(self, path: str, status: int = 200) -> str:
        async with asyncio.timeout(60), self.session.get(path) as response:
            assert response.status == status, await response.content.read(1000)
            return await response.text()

    async def json(self, path: str, status: int = 200) -> Any:
        return msgspec.json.decode(await self.text(path, status))


@contextlib.asynccontextmanager
async def page_of(
    source: Client | ClusterSnapshot,
    source_options: Sequence[str] = (),
    scheduler: SchedulerState | None = None,
    streams: HttpStreams | None = None,
    interval: float = 0.02,
    **settings: Any,
) -> AsyncIterator[Page]:
    """Serve a page for as long as the context lasts. source_options: for questions, as the command line takes them."""
    clock, randomness = SystemClock(), SystemRandomness()
    feed = Feed(clock, interval)
    cluster: ClusterSource
    if settings.get("learn"):
        cluster = NoCluster(feed, clock)
    elif isinstance(source, ClusterSnapshot):
        cluster = CopiedCluster(source, feed, clock)
    else:
        cluster = LiveCluster(source, feed, clock=clock, randomness=randomness)
    server = UiServer(
        cluster, feed, UiSettings(**settings), source_options, scheduler, streams, clock=clock, randomness=randomness
    )
    url = await server.start()
    try:
        base = url.partition("/?")[0]
        async with aiohttp.ClientSession(
            base, cookie_jar=aiohttp.CookieJar(unsafe=True), connector=aiohttp.TCPConnector(limit=0)
        ) as session:
            async with session.get(url) as response:
                assert response.status == 200
            yield Page(server, url, session)
    finally:
        await server.stop()


def small_copy() -> ClusterSnapshot:
    """Two nodes, one pod on the first, one that waits, and one whose labels have markup in them."""
    amounts: dict[str, str | int | float] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    nodes = [
        core_v1.Node(
            metadata=meta_v1.ObjectMeta(name=name, uid=name, labels={"topology.kubernetes.io/zone": zone}),
            status=core_v1.NodeStatus(
                allocatable=amounts,
                capacity=amounts,
                conditions=(core_v1.NodeCondition(type="Ready", status="True"),),
            ),
        )
        for name, zone in (("a", "one"), ("b", "two"))
    ]
    return ClusterSnapshot({"Node": nodes, "Pod": [made("web", "a"), made("db", "", cpu="9"), made("odd", "b")]})


def made(name: str, node: str, cpu: str = "1") -> core_v1.Pod:
    """A pod of a copy."""
    requests = core_v1.ResourceRequirements(requests={"cpu": cpu})
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(
            name=name, namespace="shop", uid=name, labels={"app": name}, annotations={"note": "<script>alert(1)</script>"}
        ),
        spec=core_v1.PodSpec(
            node_name=node, containers=(core_v1.Container(name="main", image="web", resources=requests),)
        ),
        status=core_v1.PodStatus(phase="Running" if node else "Pending"),
    )  # fmt: skip
