"""Lists and watches through the whole server: pages that stay consistent, revisions that are gone or not there yet."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.reads import history
from bayplan.apiserver.reads.cache import Bucket
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from bayplan.store.errors import StoreUnavailable
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import client_of, opened

PATH = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **labels: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default", labels=labels))


async def page(client: Client, **query: Any) -> dict[str, Any]:
    """One list request."""
    found: dict[str, Any] = msgspec.json.decode(
        await client.raw("GET", PATH, {key: str(value) for key, value in query.items()})
    )
    return found


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def test_pages_show_one_moment_although_objects_come_and_go() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            for index in range(10):
                await client.create(config_map(f"c{index}"))
            first = await page(client, limit=4)
            assert first["metadata"]["remainingItemCount"] == 6
            await client.delete(core_v1.ConfigMap, "c5", "default")
            await client.create(config_map("c55"))
            seen, token = names(first), first["metadata"]["continue"]
            while token:
                following = await page(client, limit=4, **{"continue": token})
                assert following["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
                seen += names(following)
                token = following["metadata"].get("continue", "")
            assert seen == [f"c{index}" for index in range(10)]

    asyncio.run(run())


def test_concurrent_writes_never_break_pages() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await asyncio.gather(*(client.create(config_map(f"kept{index:02}")) for index in range(20)))
            stop = asyncio.Event()

            async def churn() -> None:
                while not stop.is_set():
                    await client.create(config_map("churn"))
                    await client.delete(core_v1.ConfigMap, "churn", "default")

            churning = asyncio.create_task(churn())
            for _ in range(10):
                found = await client.list(core_v1.ConfigMap, "default", page_size=3)
                kept = [item.metadata.name for item in found.items if item.metadata.name != "churn"]
                assert kept == [f"kept{index:02}" for index in range(20)]
            stop.set()
            await churning

    asyncio.run(run())


async def _compacted(api: ApiServer, client: Client) -> str:
    """A revision that is no longer kept."""
    made = await client.create(config_map("a"))
    for index in range(5):
        await client.patch(core_v1.ConfigMap, "a", "default", {"data": {"x": str(index)}})
    store = api.context.objects.store
    await store.compact(store.revision)
    return made.metadata.resource_version


def test_a_continue_token_of_a_compacted_revision_is_expired() -> None:
    async def run() -> None:
        clock = SystemClock()
        async with opened(open_store("memory:", clock=clock)) as api:
            client = client_of(api)
            for index in range(3):
                await client.create(config_map(f"c{index}"))
            token = (await page(client, limit=1))["metadata"]["continue"]
            await _compacted(api, client)
            with pytest.raises(ApiError) as caught:
                await page(client, limit=1, **{"continue": token})
            assert (caught.value.code, caught.value.reason) == (410, "Expired")

    asyncio.run(run())


def test_a_watch_from_before_the_kept_history_is_expired() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = await client.create(config_map("a"))
            kind = api.context.kinds.of_kind("v1", "ConfigMap")
            assert kind is not None
            api.context.objects.cache(kind).history_start = int(made.metadata.resource_version) + 1
            with pytest.raises(ApiError) as caught:
                await client.watch(core_v1.ConfigMap, "default", resource_version=made.metadata.resource_version)
            assert (caught.value.code, caught.value.reason) == (410, "Expired")

    asyncio.run(run())


def test_events_that_the_store_has_forgotten_are_forgotten_and_quiet_kinds_stay_resumable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "HISTORY_KEPT", 1)

    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = [await client.create(config_map(name)) for name in "abc"]
            quiet = (await client.list(core_v1.Secret, "default")).resource_version
            await client.create(config_map("d"))
            await api.context.objects.store.compact(int(made[1].metadata.resource_version))
            await api.context.objects.forget_history()
            with pytest.raises(ApiError) as caught:
                await client.watch(core_v1.ConfigMap, "default", resource_version=made[0].metadata.resource_version)
            assert (caught.value.code, caught.value.reason) == (410, "Expired")
            stream = await client.watch(
                core_v1.ConfigMap, "default", resource_version=made[1].metadata.resource_version
            )
            assert [obj.metadata.name for _, obj in await stream.next_batch()] == ["c", "d"]
            stream.close()
            (await client.watch(core_v1.Secret, "default", resource_version=quiet)).close()
            (await client.watch(core_v1.Secret, "default", resource_version="1")).close()

    asyncio.run(run())


def test_a_revision_of_the_future_is_not_there_yet() -> None:
    async def run() -> None:
        async with opened() as api:
            with pytest.raises(ApiError) as caught:
                await page(client_of(api), resourceVersion=10**9)
            assert (caught.value.code, caught.value.reason) == (504, "Timeout")
            assert caught.value.status.details is not None
            assert caught.value.status.details.causes[0].reason == "ResourceVersionTooLarge"

    asyncio.run(run())


def test_selectors_choose_by_labels_and_fields() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
                await client.create(config_map(name, colour=colour))
            assert names(await page(client, labelSelector="colour=red")) == ["a", "c"]
            assert names(await page(client, labelSelector="colour!=red")) == ["b"]
            assert names(await page(client, fieldSelector="metadata.name!=a", labelSelector="colour in (red)")) == ["c"]

    asyncio.run(run())


def test_what_was_written_is_in_the_next_list() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            for index in range(50):
                await client.create(config_map(f"c{index:02}"))
                assert len((await page(client))["items"]) == index + 1

    asyncio.run(run())


def test_a_page_of_the_past_that_the_store_does_not_give_now_is_to_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("etcd does not answer")

    async def run() -> None:
        async with opened() as server:
            client = client_of(server)
            for name in "abc":
                await client.create(config_map(name))
            first = await page(client, limit=1)
            await client.create(config_map("d"))
            monkeypatch.setattr(server.context.objects.store, "range", away)
            with pytest.raises(ApiError, match="the store cannot be used: etcd does not answer") as caught:
                await page(client, limit=1, **{"continue": first["metadata"]["continue"]})
            assert caught.value.code == 503

    asyncio.run(run())


def test_names_of_a_bucket_are_in_order_whatever_comes_and_goes() -> None:
    chance, bucket = random.Random(5), Bucket()
    for count in (1, 3, 40, 200):
        for _ in range(60):
            before = bucket.names()
            kept = list(before)
            for _ in range(chance.randrange(count)):
                name = f"n{chance.randrange(150)}"
                if chance.random() < 0.5:
                    bucket.put(Entry("", name, 1, 1, b"", {}, {}, ""))
                else:
                    bucket.remove(name)
            expected = sorted(bucket.entries)
            assert bucket.names() == expected
            assert before == kept  # readers may be at it
            after = f"n{chance.randrange(150)}"
            behind = [name for name in expected if name > after]
            assert [entry.name for entry in bucket.ordered(after)] == behind
            assert bucket.count(after) == len(behind)
