"""Watches: who sees what, from where, and in which order. Conformance: Watchers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from tests.integration.conformance.requests import Object, Requests, Watching, conformance

LABEL = "watch-this-configmap"


def _config_map(name: str, label: str) -> Object:
    return {"metadata": {"name": name, "labels": {LABEL: label}}}


async def _mutate(api: Requests, path: str, mutation: str) -> Object:
    return await api.patch(path, {"data": {"mutation": mutation}})


async def _expect(watch: Watching, type_: str, obj: Object | None = None) -> Object:
    found, seen = await watch.next()
    assert found == type_
    if obj is not None:
        assert seen["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
        assert seen.get("data") == obj.get("data")
    return seen


def test_add_update_and_delete_are_seen_by_those_whose_selector_matches() -> None:
    """Watchers should observe add, update, and delete watch notifications on configmaps."""

    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        async with AsyncExitStack() as stack:
            watch_a, watch_b, watch_ab = [
                await stack.enter_async_context(api.watch(maps, labelSelector=f"{LABEL} in ({labels})"))
                for labels in ("A", "B", "A,B")
            ]
            first = await api.create(maps, _config_map("a", "A"))
            changes = [first, await _mutate(api, f"{maps}/a", "1"), await _mutate(api, f"{maps}/a", "2")]
            await api.delete(f"{maps}/a")
            second = await api.create(maps, _config_map("b", "B"))
            await api.delete(f"{maps}/b")
            for watch in (watch_a, watch_ab):
                for type_, obj in zip(("ADDED", "MODIFIED", "MODIFIED", "DELETED"), [*changes, None], strict=True):
                    await _expect(watch, type_, obj)
            for watch in (watch_b, watch_ab):
                await _expect(watch, "ADDED", second)
                await _expect(watch, "DELETED")
            for watch in (watch_a, watch_b, watch_ab):
                assert await watch.is_silent(20)

    conformance(scenario)


def test_a_watch_starts_behind_the_resource_version_that_it_names() -> None:
    """Watchers should be able to start watching from a specific resource version."""

    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        await api.create(maps, _config_map("a", "from-resource-version"))
        first = await _mutate(api, f"{maps}/a", "1")
        second = await _mutate(api, f"{maps}/a", "2")
        await api.delete(f"{maps}/a")
        version = first["metadata"]["resourceVersion"]
        async with api.watch(maps, labelSelector=f"{LABEL}=from-resource-version", resourceVersion=version) as watch:
            await _expect(watch, "MODIFIED", second)
            await _expect(watch, "DELETED")

    conformance(scenario)


def test_a_watch_goes_on_where_another_one_ended() -> None:
    """Watchers should be able to restart watching from the last resource version observed by the previous watch."""

    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        async with api.watch(maps, labelSelector=LABEL) as broken:
            created = await api.create(maps, _config_map("a", "restarted"))
            await _mutate(api, f"{maps}/a", "1")
            await _expect(broken, "ADDED", created)
            last = await _expect(broken, "MODIFIED")
        second = await _mutate(api, f"{maps}/a", "2")
        version = last["metadata"]["resourceVersion"]
        async with api.watch(maps, labelSelector=LABEL, resourceVersion=version) as restarted:
            await api.delete(f"{maps}/a")
            await _expect(restarted, "MODIFIED", second)
            await _expect(restarted, "DELETED")

    conformance(scenario)


def test_an_object_that_leaves_the_selector_is_deleted_for_the_watcher() -> None:
    """Watchers should observe an object deletion if it stops meeting the requirements of the selector."""

    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        own = f"{maps}/a"
        async with api.watch(maps, labelSelector=f"{LABEL}=wanted") as watch:
            created = await api.create(maps, _config_map("a", "wanted"))
            first = await _mutate(api, own, "1")
            await api.patch(own, {"metadata": {"labels": {LABEL: "wrong-value"}}})
            await _mutate(api, own, "2")
            restored = await api.patch(own, {"metadata": {"labels": {LABEL: "wanted"}}})
            third = await _mutate(api, own, "3")
            await api.delete(own)
            for type_, obj in (("ADDED", created), ("MODIFIED", first), ("DELETED", None)):
                await _expect(watch, type_, obj)
            for type_, obj in (("ADDED", restored), ("MODIFIED", third), ("DELETED", None)):
                await _expect(watch, type_, obj)
            assert await watch.is_silent(20)

    conformance(scenario)


def test_watches_from_every_event_see_the_same_order() -> None:
    """Watchers should receive events on concurrent watches in same order."""
    count = 30

    async def produce(api: Requests, maps: str) -> None:
        """Create, update and delete in turn, several objects at once."""
        for index in range(count):
            name = f"cm-{index % 7}"
            if index % 3 == 0:
                await api.create(maps, _config_map(f"{name}-{index}", "x"))
            else:
                await api.patch(f"{maps}/shared", {"data": {"mutation": str(index)}})
                await api.create(maps, {"metadata": {"name": f"short-{index}"}})
                await api.delete(f"{maps}/short-{index}")

    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        version = (await api.create(maps, _config_map("shared", "x")))["metadata"]["resourceVersion"]
        async with AsyncExitStack() as stack:
            watches = [await stack.enter_async_context(api.watch(maps, resourceVersion=version))]
            producer = asyncio.create_task(produce(api, maps))
            for _ in range(count):
                versions = [(await watch.next())[1]["metadata"]["resourceVersion"] for watch in watches]
                assert len(set(versions)) == 1
                watches.append(await stack.enter_async_context(api.watch(maps, resourceVersion=versions[0])))
            await producer

    conformance(scenario)
