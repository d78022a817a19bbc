"""Watches and lists in chunks of typed clients, object by object. Conformance: Watchers, Servers with support for API chunking."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

from tests.integration.conformance.requests import Object, Watching
from tests.integration.conformance.workloads import Space, Workloads, revision

KEY = "watch-this"
ROUNDS = 100
TEMPLATES = 400


def config_map(name: str, label: str) -> Object:
    """An empty ConfigMap."""
    return {"metadata": {"name": name, "labels": {KEY: label}}}


async def expect(watch: Watching, type_: str, obj: Object | None = None) -> Object:
    """The next event is of this type, and its object equals the one that the writer got, managed fields included."""
    found, seen = await watch.next()
    assert found == type_
    assert obj is None or seen == obj
    return seen


async def mutate(space: Space, name: str, mutation: str) -> Object:
    """Read a ConfigMap and write it with other data."""
    return await space.changed(space.core(f"configmaps/{name}"), lambda obj: obj.update(data={"mutation": mutation}))


async def relabel(space: Space, name: str, label: str) -> Object:
    """Read a ConfigMap and write it with another label."""
    return await space.changed(
        space.core(f"configmaps/{name}"), lambda obj: obj["metadata"]["labels"].update({KEY: label})
    )


def test_watchers_see_what_their_selectors_match_and_nothing_else(workloads: Workloads) -> None:
    """Watchers should observe add, update, and delete watch notifications on configmaps."""

    async def scenario(space: Space) -> None:
        maps = space.core("configmaps")
        async with AsyncExitStack() as stack:
            of_a, of_b, of_both = [
                await stack.enter_async_context(space.api.watch(maps, labelSelector=f"{KEY} in ({labels})"))
                for labels in ("fore", "aft", "fore,aft")
            ]
            first = await space.api.create(maps, config_map("a", "fore"))
            changes = [first, await mutate(space, "a", "1"), await mutate(space, "a", "2")]
            await space.api.delete(f"{maps}/a")
            second = await space.api.create(maps, config_map("b", "aft"))
            await space.api.delete(f"{maps}/b")
            for watch in (of_a, of_both):
                for type_, obj in zip(("ADDED", "MODIFIED", "MODIFIED"), changes, strict=True):
                    await expect(watch, type_, obj)
                await expect(watch, "DELETED")
            for watch in (of_b, of_both):
                await expect(watch, "ADDED", second)
                await expect(watch, "DELETED")
            assert [await watch.is_silent(20) for watch in (of_a, of_b, of_both)] == [True] * 3

    workloads.run(scenario)


def test_a_watch_starts_after_the_version_that_it_names(workloads: Workloads) -> None:
    """Watchers should be able to start watching from a specific resource version; ... restart watching from the last resource version observed ..."""

    async def scenario(space: Space) -> None:
        maps, selector = space.core("configmaps"), {"labelSelector": f"{KEY} in (past)"}
        async with space.api.watch(maps, **selector) as watch:
            created = await space.api.create(maps, config_map("a", "past"))
            await mutate(space, "a", "1")
            await expect(watch, "ADDED", created)
            last = await expect(watch, "MODIFIED")
        second = await mutate(space, "a", "2")
        async with space.api.watch(maps, resourceVersion=revision(last), **selector) as watch:
            await space.api.delete(f"{maps}/a")
            await expect(watch, "MODIFIED", second)
            await expect(watch, "DELETED")
        async with space.api.watch(maps, resourceVersion=revision(last), **selector) as watch:
            await expect(watch, "MODIFIED", second)
            await expect(watch, "DELETED")

    workloads.run(scenario)


def test_an_object_that_a_selector_loses_is_deleted_and_comes_back_as_added(workloads: Workloads) -> None:
    """Watchers should observe an object deletion if it stops meeting the requirements of the selector."""

    async def scenario(space: Space) -> None:
        maps = space.core("configmaps")
        async with space.api.watch(maps, labelSelector=f"{KEY} in (wanted)") as watch:
            created = await space.api.create(maps, config_map("a", "wanted"))
            first = await mutate(space, "a", "1")
            await relabel(space, "a", "unwanted")
            for type_, obj in (("ADDED", created), ("MODIFIED", first), ("DELETED", None)):
                await expect(watch, type_, obj)
            await mutate(space, "a", "2")
            restored = await relabel(space, "a", "wanted")
            third = await mutate(space, "a", "3")
            await space.api.delete(f"{maps}/a")
            for type_, obj in (("ADDED", restored), ("MODIFIED", third), ("DELETED", None)):
                await expect(watch, type_, obj)

    workloads.run(scenario)


async def produce(space: Space, stopped: asyncio.Event) -> None:
    """Create, overwrite (with nothing new, and without a version) and delete ConfigMaps at random."""
    chance, number, maps = random.Random(11), 0, space.core("configmaps")
    existing: list[str] = []
    while not stopped.is_set():
        what = chance.choice(("create", "update", "delete")) if existing else "create"
        if what == "create":
            name = f"cm-{number}"
            number += 1
            existing.append(name)
            await space.api.create(maps, {"metadata": {"name": name}})
        else:
            name = chance.choice(existing)
            if what == "update":
                await space.api.update(f"{maps}/{name}", {"metadata": {"name": name}})
            else:
                existing.remove(name)
                await space.api.delete(f"{maps}/{name}")
        await asyncio.sleep(0.001)


def test_a_hundred_watches_see_the_same_versions_in_the_same_order(workloads: Workloads) -> None:
    """Watchers should receive events on concurrent watches in same order."""

    async def scenario(space: Space) -> None:
        maps, stopped = space.core("configmaps"), asyncio.Event()
        version = revision(await space.api.get(maps))
        producer = asyncio.create_task(produce(space, stopped))
        try:
            async with AsyncExitStack() as stack:
                watches: list[Watching] = []
                for _ in range(ROUNDS):
                    watch = space.api.watch(maps, resourceVersion=version, allowWatchBookmarks="true")
                    watches.append(await stack.enter_async_context(watch))
                    versions = [await next_version(one) for one in watches]
                    assert len(set(versions)) == 1
                    version = versions[0]
        finally:
            stopped.set()
            await producer

    workloads.run(scenario)


async def next_version(watch: Watching) -> str:
    """The version in the next event that is no bookmark, of which a client that tries again shows nothing."""
    while (event := await watch.next())[0] == "BOOKMARK":
        pass
    return revision(event[1])


def test_a_long_list_comes_in_chunks_of_any_size(workloads: Workloads) -> None:
    """Servers with support for API chunking should return chunks of results for list calls."""

    async def scenario(space: Space) -> None:
        path, chance = space.core("podtemplates"), random.Random(5)
        template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}

        async def create(numbers: range) -> None:
            for number in numbers:
                await space.api.create(path, {"metadata": {"name": f"template-{number:04}"}, "template": template})

        await asyncio.gather(*(create(range(start, TEMPLATES, 20)) for start in range(20)))
        names = [f"template-{number:04}" for number in range(TEMPLATES)]
        for _ in range(3):
            found: list[str] = []
            versions, token = set(), ""
            while not found or token:
                limit = chance.randint(1, TEMPLATES // 10)
                chunk = await space.api.get(path, limit=str(limit), **({"continue": token} if token else {}))
                items = [one["metadata"]["name"] for one in chunk["items"]]
                assert len(items) <= limit
                found += items
                versions.add(revision(chunk))
                token = chunk["metadata"].get("continue", "")
                left = chunk["metadata"].get("remainingItemCount")
                assert left == (TEMPLATES - len(found) if token else None)
            assert (found, len(versions)) == (names, 1)
        assert await space.api.names(path, limit=str(TEMPLATES + 1)) == names

    workloads.run(scenario)
