"""Watches of custom resources that a webhook converts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import ApiError
from tests.apiserver.custom_resources.converters import Converter, converting, versions
from tests.apiserver.custom_resources.test_conversion import HERE, TABLE, THERE, two
from tests.apiserver.custom_resources.things import GROUP, Door, Tree, definition, path, thing
from tests.apiserver.serving import client_of

Following = Callable[[], Awaitable[Tree | None]]


async def following(follow: Following, count: int) -> list[tuple[str, str, Tree]]:
    """The next events: type, name, spec."""
    found = []
    for _ in range(count):
        event = await follow()
        assert event is not None
        assert event["object"]["apiVersion"] == f"{GROUP}/v2"
        found.append((event["type"], event["object"]["metadata"]["name"], event["object"].get("spec", {})))
    return found


def test_a_watch_shows_changes_in_its_version() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing("a", spec=HERE))
        await door.create(path(), thing("b", spec=HERE))
        async with door.watch(two(watch="true")) as follow:
            assert await following(follow, 2) == [("ADDED", "a", THERE), ("ADDED", "b", THERE)]
            assert converter.names() == [["a", "b"]]
            await door.patch(path("a"), {"spec": {"hostPort": "other:1"}})
            changed = {"host": "other", "port": "1"}
            assert await following(follow, 1) == [("MODIFIED", "a", changed)]
            gone = await door.send("DELETE", path("a"))
            assert gone.code == 200
            event = await follow()
            assert event is not None
            assert (event["type"], event["object"]["spec"]) == ("DELETED", changed)
            revision = event["object"]["metadata"]["resourceVersion"]
            await door.create(two(), thing("c", version="v2", spec=THERE))
            assert await following(follow, 1) == [("ADDED", "c", THERE)]
        async with door.watch(two(watch="true", resourceVersion=str(int(revision) - 1))) as follow:
            assert await following(follow, 2) == [("DELETED", "a", changed), ("ADDED", "c", THERE)]

    converting(scenario)


def test_the_initial_events_of_a_watch_end_with_a_bookmark() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing("a", spec=HERE))
        asked = {"watch": "true", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
        async with door.watch(two(**asked, resourceVersionMatch="NotOlderThan")) as follow:
            assert await following(follow, 1) == [("ADDED", "a", THERE)]
            event = await follow()
            assert event is not None
            assert (event["type"], event["object"]["apiVersion"]) == ("BOOKMARK", f"{GROUP}/v2")
            assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    converting(scenario)


def test_a_watch_converts_what_it_is_about_and_nothing_else() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        for name in "ab":
            await door.create(path(), thing(name, spec=HERE))
        await door.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
        await door.create(path(namespace="other"), thing("c", spec=HERE))
        of_one = two("b").replace("/namespaces/", "/watch/namespaces/", 1)
        for where in (of_one, two(watch="true", fieldSelector="metadata.name=b")):
            async with door.watch(where) as follow:
                assert await following(follow, 1) == [("ADDED", "b", THERE)]
        await door.patch(path("a"), {"spec": {"n": 1}})
        async with door.watch(path(version="v2", namespace="other", watch="true")) as follow:
            assert await following(follow, 1) == [("ADDED", "c", THERE)]
        assert converter.names() == [["b"], ["c"]]

    converting(scenario)


def test_objects_enter_and_leave_a_watch_as_the_version_shows_them() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        one, other = versions()
        other["selectableFields"] = [{"jsonPath": ".spec.host"}]
        await door.define(definition(one, other, conversion=converter.config()))
        await door.create(path(), thing("a", spec={"hostPort": "here:1"}))
        await door.create(path(), thing("b", spec={"hostPort": "there:1"}))
        async with door.watch(two(watch="true", fieldSelector="spec.host=there")) as follow:
            spec = {"host": "there", "port": "1"}
            assert await following(follow, 1) == [("ADDED", "b", spec)]
            await door.patch(path("a"), {"spec": {"hostPort": "there:2"}})
            assert await following(follow, 1) == [("ADDED", "a", {"host": "there", "port": "2"})]
            await door.patch(path("b"), {"spec": {"hostPort": "here:2"}})
            assert await following(follow, 1) == [("DELETED", "b", spec)]

    converting(scenario, define=False)


def test_many_watches_share_what_is_converted() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing("a", spec=HERE))
        async with contextlib.AsyncExitStack() as stack:
            watches = [await stack.enter_async_context(door.watch(two(watch="true"))) for _ in range(20)]
            for follow in watches:
                assert await following(follow, 1) == [("ADDED", "a", THERE)]
            await door.patch(path("a"), {"spec": {"hostPort": "other:1"}})
            for follow in watches:
                assert await following(follow, 1) == [("MODIFIED", "a", {"host": "other", "port": "1"})]
        assert converter.names() == [["a"], ["a"]]

    converting(scenario)


def test_watches_as_tables_and_in_the_version_that_is_kept() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        async with door.watch(path(watch="true")) as here, door.watch(two(watch="true"), Accept=TABLE) as there:
            await door.create(path(), thing("a", spec=HERE))
            event = await here()
            assert event is not None
            assert (event["type"], event["object"]["spec"]) == ("ADDED", HERE)
            event = await there()
            assert event is not None
            assert (event["object"]["kind"], event["object"]["rows"][0]["cells"][0]) == ("Table", "a")

    converting(scenario)


def test_a_watch_ends_with_an_error_if_objects_cannot_be_converted() -> None:
    async def ends_with(follow: Following, message: str) -> None:
        event = await follow()
        assert event is not None
        assert (event["type"], event["object"]["kind"], event["object"]["code"]) == ("ERROR", "Status", 500)
        assert (event["object"]["reason"], event["object"]["message"]) == ("InternalError", message)
        assert await follow() is None

    async def scenario(door: Door, converter: Converter) -> None:
        told = f"Internal error occurred: conversion webhook for {GROUP}/v1, Kind=Thing failed: my custom error"
        async with door.watch(two(watch="true")) as follow:
            await door.create(path(), thing("a", spec=HERE))
            assert await following(follow, 1) == [("ADDED", "a", THERE)]
            converter.fail()
            await door.patch(path("a"), {"spec": {"hostPort": "other:1"}})
            await ends_with(follow, told)
        async with door.watch(two(watch="true")) as follow:
            await ends_with(follow, told)
        converter.spoil = None
        async with door.watch(two(watch="true")) as follow:
            assert await following(follow, 1) == [("ADDED", "a", {"host": "other", "port": "1"})]

    converting(scenario)


def test_clients_in_this_process_watch_as_others_do() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        kind = door.server.api.context.kinds.of_kind(f"{GROUP}/v2", "Thing")
        assert isinstance(kind, CustomKind)
        client = client_of(door.server.api)
        await door.create(path(), thing("a", spec=HERE))
        async with asyncio.timeout(10):
            transport = client.transport
            watch = await transport.watch(kind, kind.path("default"), {"watch": "true"}, lambda _: None)
            [(event_type, obj)] = await watch.next_batch()
            assert (event_type, obj.metadata.name, obj.content["spec"]) == ("ADDED", "a", THERE)
            converter.fail()
            await door.patch(path("a"), {"spec": {"n": 1}})
            with pytest.raises(ApiError, match="my custom error"):
                await watch.next_batch()

    converting(scenario)


def test_watches_end_when_the_definition_changes_or_the_client_goes() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        def feeders() -> list[str]:
            return [one.get_name() for one in asyncio.all_tasks() if one.get_name().startswith("watch of converted")]

        async with door.watch(two(watch="true")) as follow:
            assert len(feeders()) == 1
            await door.define(definition(*versions(storage="v2"), conversion=converter.config()))
            assert await follow() is None
        assert feeders() == []
        refused = await door.get(two(watch="true", resourceVersion="1"))
        assert refused.code == 410
        assert feeders() == []

    converting(scenario)
