"""What is deleted leaves nothing behind, once nobody can ask for it any more."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.reads import cache as reads_cache
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.reads.history import LINES_KEPT
from bayplan.apiserver.reads.watching import Item
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, client_of, opened

PATH = "/api/v1/configmaps"


def config_maps(api: ApiServer) -> ResourceCache:
    kind = api.context.kinds.of_kind("v1", "ConfigMap")
    assert kind is not None
    return api.context.objects.cache(kind)


async def come_and_go(api: ApiServer, count: int, *, namespaces: bool = False) -> None:
    """Config maps of 4 KiB, each gone before the next comes."""
    client = client_of(api)
    for index in range(count):
        namespace = f"n{index}" if namespaces else "default"
        metadata = meta_v1.ObjectMeta(name=f"c{index}", namespace=namespace)
        if namespaces:
            await client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name=namespace)))
        await client.create(core_v1.ConfigMap(metadata=metadata, data={"text": f"{index:4}" * 1024}))
        await client.delete(core_v1.ConfigMap, f"c{index}", namespace)


def test_deleted_objects_are_let_go_of_with_their_history() -> None:
    async def run() -> None:
        async with opened() as api:
            watch = await InProcessEndpoint(api, ADMIN).open(PATH, {"watch": "1"})
            assert watch.watcher is not None
            await come_and_go(api, 300)
            gc.collect()
            tracemalloc.start()
            try:
                await come_and_go(api, 1500)
                assert tracemalloc.get_traced_memory()[0] > 1500 * 4096  # history is kept for those who watch
                watch.watcher.close()
                del watch
                await api.context.objects.store.compact(api.context.objects.revision)
                for _ in range(2):  # what was needed since the last look goes at the next one
                    await api.context.objects.forget_history()
                gc.collect()
                assert tracemalloc.get_traced_memory()[0] < 1_500_000
            finally:
                tracemalloc.stop()

    asyncio.run(run())


def test_lines_of_watches_are_kept_for_the_newest_events_only() -> None:
    async def run() -> None:
        async with opened() as api:
            watcher = (await InProcessEndpoint(api, ADMIN).open(PATH, {"watch": "1"})).watcher
            assert watcher is not None
            await come_and_go(api, LINES_KEPT)
            seen: list[tuple[Item, bytes]] = []
            while len(seen) < 2 * LINES_KEPT:
                seen += [(one, watcher.line(*one)) for one in await watcher.next_batch()]
            events = [item[2] for item, _ in seen if item[2] is not None]
            await come_and_go(api, LINES_KEPT // 2)
            kept = [event for event in events if event._json]
            assert 0 < len(kept) <= LINES_KEPT
            assert [watcher.line(*item) for item, _ in seen] == [line for _, line in seen]
            watcher.close()

    asyncio.run(run())


def test_decoded_objects_are_kept_for_those_who_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    few = 128
    monkeypatch.setattr(reads_cache, "DECODED_UNSHARED", few)

    async def run() -> None:
        async with opened() as api:
            cache, count = config_maps(api), 3 * few
            await come_and_go(api, count)
            alone = sum(
                event.previous is not None and event.previous.decoded is not None for event in cache.events_after(0)
            )
            assert alone <= 2 * few
            _, _, watch = await InProcessEndpoint(api, ADMIN).watch(cache.kind, PATH, {"watch": "1"})
            assert watch is not None
            await come_and_go(api, count)
            shared = sum(event.entry is not None and event.entry.decoded is not None for event in cache.events_after(0))
            assert shared >= count
            watch.close()
            watch.close()
            assert cache.sharers == 0

    asyncio.run(run())


def test_namespaces_that_came_and_went_leave_no_bucket() -> None:
    async def run() -> None:
        async with opened() as api:
            await come_and_go(api, 50, namespaces=True)
            assert set(config_maps(api).buckets) == {"kube-system"}

    asyncio.run(run())


def test_a_list_goes_on_when_the_last_object_of_a_namespace_goes() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            for namespace in ("default", "kube-public"):
                await client.create(core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="c", namespace=namespace)))
            listing = config_maps(api).ordered()
            assert next(listing).namespace == "default"
            await client.delete(core_v1.ConfigMap, "c", "kube-public")
            assert {one.namespace for one in listing} == {"kube-system"}

    asyncio.run(run())
