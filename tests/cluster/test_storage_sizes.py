"""How large a server says that its database is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bayplan.cluster.storage.sizes import StorageSizes
from bayplan.store.errors import StoreUnavailable
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from tests.apiserver.etcd_stores import etcd_store
from tests.store.etcd.server import needs_etcd


class Away:
    """A database that cannot be asked."""

    async def allocated_bytes(self) -> int:
        raise StoreUnavailable("away")


def sizes_in(text: str) -> dict[str, float]:
    """Sizes by database."""
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("apiserver_storage_size_bytes{")]
    return {head.partition('"')[2].rstrip('"}'): float(value) for head, _, value in lines}


def test_the_file_grows_and_a_database_that_cannot_be_asked_is_left_out(tmp_path: Path) -> None:
    async def run() -> None:
        registry, store = Registry(), SqliteStore(tmp_path / "a.db", clock=SystemClock())
        sizes = StorageSizes(registry, [("a.db", store), ("elsewhere", Away())])
        await store.open()
        await sizes.update()
        before = sizes_in(registry.render().decode())
        assert before.keys() == {"etcd-0"}
        await store.put("/a", bytes(1_000_000))
        await sizes.update()
        after = sizes_in(registry.render().decode())
        assert after["etcd-0"] - before["etcd-0"] > 900_000
        assert 'apiserver_storage_db_total_size_in_bytes{endpoint="a.db"}' in registry.render().decode()
        await store.close()

    asyncio.run(run())


@needs_etcd
def test_etcd_is_asked() -> None:
    async def run() -> None:
        registry, store = Registry(), etcd_store("/sizes")
        await store.open()
        await StorageSizes(registry, [("etcd", store)]).update()  # type: ignore[list-item]  # an etcd store is one
        assert sizes_in(registry.render().decode())["etcd-0"] > 10_000
        await store.close()

    asyncio.run(run())
