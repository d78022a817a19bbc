"""Two API servers over one etcd, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.etcd_layout import etcd_folders
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from bayplan.store.etcd.options import EtcdOptions
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import client_of, opened
from tests.store.etcd.server import needs_etcd, shared_server

pytestmark = needs_etcd
_numbers = itertools.count(1)


def new_prefix() -> str:
    """A prefix that no other test has."""
    return f"/ha-{os.getpid()}-{next(_numbers)}"


@contextlib.asynccontextmanager
async def api_on_etcd(prefix: str, port: int = 0) -> AsyncIterator[ApiServer]:
    """A server over the shared etcd, reached at a port of its own if one is given."""
    endpoint = f"127.0.0.1:{port}" if port else shared_server().endpoint
    options = EtcdOptions(prefix=prefix, root="/registry/", folders=etcd_folders(DEFAULT_KINDS), compaction_interval=0)
    store = open_store(f"etcd://{endpoint}", clock=SystemClock(), tells_previous=False, etcd=options)
    async with opened(store) as api:
        yield api


@contextlib.asynccontextmanager
async def two_servers() -> AsyncIterator[tuple[Client, Client]]:
    """Clients of two servers over one prefix, which start at the same time."""
    prefix = new_prefix()
    async with contextlib.AsyncExitStack() as stack:
        servers = await asyncio.gather(*[stack.enter_async_context(api_on_etcd(prefix)) for _ in range(2)])
        yield client_of(servers[0]), client_of(servers[1])


def config_map(name: str, **data: str) -> core_v1.ConfigMap:
    """A config map in the namespace default."""
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data=data)


def test_what_one_server_writes_the_other_reads_at_once() -> None:
    async def run() -> None:
        async with two_servers() as (first, second):
            await first.create(config_map("a", round="0"))
            for number in range(1, 101):
                writer, reader = (first, second) if number % 2 else (second, first)
                seen = await writer.get(core_v1.ConfigMap, "a", "default")
                assert seen.data["round"] == str(number - 1)
                seen.data = {"round": str(number)}
                written = await writer.update(seen)
                read = await reader.get(core_v1.ConfigMap, "a", "default")
                assert (read.data["round"], read.metadata.resource_version) == (
                    str(number),
                    written.metadata.resource_version,
                )

    asyncio.run(run())
