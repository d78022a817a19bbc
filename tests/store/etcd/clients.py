"""Clients, servers and loops for tests of the etcd client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.errors import EtcdError
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.support.clock import SystemClock
from tests.store.etcd.server import EtcdServer

PATIENCE = 20.0
"""Seconds after which waiting for something that must come is a failure."""


@contextlib.asynccontextmanager
async def client_of(*endpoints: str, **settings: Any) -> AsyncIterator[EtcdClient]:
    """A client of these members, which is closed afterwards."""
    client = EtcdClient(EtcdSettings(endpoints=endpoints, **settings), clock=SystemClock())
    try:
        yield client
    finally:
        await client.close()


@contextlib.contextmanager
def running(folder: Path, *flags: str, scheme: str = "http") -> Iterator[EtcdServer]:
    """An etcd of the test's own."""
    server = EtcdServer(folder, flags, scheme=scheme)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[list[EtcdServer]]:
    """Three members."""
    members = [EtcdServer(folder / name, name=name) for name in ("one", "two", "three")]
    for member in members:
        member.cluster = members
        member.launch()
    try:
        for member in members:
            member.wait_until_listening()
        yield members
    finally:
        for member in members:
            member.stop()


class Seen:
    """What a watch delivers."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.lost: list[EtcdError] = []
        self.batches = 0
        self._changed = asyncio.Event()

    def take(self, events: Any, _revision: int) -> None:
        """For `on_events`."""
        self.batches += 1
        self.events.extend(events)
        self._changed.set()

    def lose(self, error: EtcdError) -> None:
        """For `on_lost`."""
        self.lost.append(error)
        self._changed.set()

    @property
    def values(self) -> list[bytes]:
        """Values of the events."""
        return [event.kv.value for event in self.events]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds after some delivery."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
