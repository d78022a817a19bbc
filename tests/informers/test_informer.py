"""Informers list once and follow; they survive a server that goes away and a history that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.informers import InformerFactory
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SeededRandomness
from tests.client.doors import IN_PROCESS, TRANSPORTS, Door, door

Case = Callable[[Door], Awaitable[None]]


@pytest.fixture(params=TRANSPORTS)
def over(request: pytest.FixtureRequest) -> Callable[[Case], None]:
    """Runs a case over one transport."""

    def run(case: Case) -> None:
        async def inner() -> None:
            async with asyncio.timeout(30), door(request.param) as opened:
                await case(opened)

        asyncio.run(inner())

    return run


def config_map(name: str, **data: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data=data)


def test_an_object_that_was_replaced_between_two_lists_is_another_one() -> None:
    async def case(door: Door) -> None:
        await door.client.create(config_map("a"))
        factory, told = factory_of(door.client), list[tuple[str, str]]()
        informer = factory.informer(core_v1.ConfigMap, "default")
        informer.on_change(
            lambda obj: told.append(("add", obj.metadata.uid)),
            lambda old, new: told.append(("update", new.metadata.uid)),
            lambda obj: told.append(("delete", obj.metadata.uid)),
        )
        await informer._list()
        await door.client.delete(core_v1.ConfigMap, "a", "default")
        await door.client.create(config_map("a"))
        await informer._list()
        [(_, first), *_, (_, second)] = told
        assert first != second
        assert told == [("add", first), ("delete", first), ("add", second)]

    async def inner() -> None:
        async with door(IN_PROCESS) as opened:
            await case(opened)

    asyncio.run(inner())


def factory_of(client: Client) -> InformerFactory:
    return InformerFactory(client, SystemClock(), SeededRandomness(1))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - what is waited for is no event of its own
        await asyncio.sleep(0.01)


class Recorder:
    """A handler that writes down what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def attach(self, factory: InformerFactory) -> None:
        factory.informer(core_v1.ConfigMap, "default").on_change(
            lambda obj: self.seen.append(("add", obj.metadata.name)),
            lambda old, new: self.seen.append(("update", new.metadata.name)),
            lambda obj: self.seen.append(("delete", obj.metadata.name)),
        )


def test_handlers_are_told_in_order_and_late_ones_catch_up(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client = door.client
        await client.create(config_map("a"))
        factory, first, late = factory_of(client), Recorder(), Recorder()
        first.attach(factory)
        factory.start()
        await factory.wait_for_sync()
        assert first.seen == [("add", "a")]
        await client.create(config_map("b"))
        await client.patch(core_v1.ConfigMap, "a", "default", {"data": {"x": "1"}})
        await client.delete(core_v1.ConfigMap, "b", "default")
        await until(lambda: len(first.seen) == 4)
        assert first.seen[1:] == [("add", "b"), ("update", "a"), ("delete", "b")]
        late.attach(factory)
        assert late.seen == [("add", "a")]
        await factory.stop()

    over(case)


def test_everybody_who_asks_for_the_same_shares_one_informer(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        factory = factory_of(door.client)
        assert factory.informer(core_v1.ConfigMap) is factory.informer(core_v1.ConfigMap)
        assert factory.informer(core_v1.ConfigMap) is not factory.informer(core_v1.ConfigMap, "default")
        factory.informer(core_v1.ConfigMap)
        factory.start()
        await factory.wait_for_sync()
        kind = door.api.context.kinds.of_kind("v1", "ConfigMap")
        assert kind is not None
        await until(lambda: len(door.api.context.objects.cache(kind).watchers) == 2)
        await factory.stop()

    over(case)


def test_indexes_follow_the_objects(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client, factory = door.client, factory_of(door.client)
        informer = factory.informer(core_v1.ConfigMap, "default")
        informer.add_index("colour", lambda obj: [obj.data["colour"]] if "colour" in obj.data else [])
        factory.start()
        await factory.wait_for_sync()
        await client.create(config_map("a", colour="red"))
        await until(lambda: len(informer.cache.by_index("colour", "red")) == 1)
        await client.patch(core_v1.ConfigMap, "a", "default", {"data": {"colour": "blue"}})
        await until(lambda: len(informer.cache.by_index("colour", "blue")) == 1)
        assert informer.cache.by_index("colour", "red") == []
        await client.delete(core_v1.ConfigMap, "a", "default")
        await until(lambda: not informer.cache.by_index("colour", "blue"))
        await factory.stop()

    over(case)


def test_a_watch_that_ends_is_resumed_without_a_new_list(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client, factory, recorder = door.client, factory_of(door.client), Recorder()
        await client.create(config_map("a"))
        recorder.attach(factory)
        factory.start()
        await factory.wait_for_sync()
        await door.shut()
        await door.serve()
        await client.create(config_map("b"))
        await until(lambda: len(recorder.seen) >= 2)
        assert recorder.seen == [("add", "a"), ("add", "b")]
        await factory.stop()

    over(case)


def test_after_a_revision_that_is_gone_the_differences_are_told(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client, factory, recorder = door.client, factory_of(door.client), Recorder()
        for name in ("kept", "lost"):
            await client.create(config_map(name))
        recorder.attach(factory)
        factory.start()
        await factory.wait_for_sync()
        kind = door.api.context.kinds.of_kind("v1", "ConfigMap")
        assert kind is not None
        cache = door.api.context.objects.cache(kind)
        await until(lambda: len(cache.watchers) == 1)
        informer = factory.informer(core_v1.ConfigMap, "default")
        informer.resource_version = "1"
        cache.history_start = 2
        await door.shut()
        await door.serve()
        await client.delete(core_v1.ConfigMap, "lost", "default")
        await client.create(config_map("new"))
        await until(lambda: informer.cache.get("default", "new") is not None)
        await until(lambda: informer.cache.get("default", "lost") is None)
        assert recorder.seen.count(("delete", "lost")) == 1
        assert recorder.seen.count(("add", "new")) == 1
        await factory.stop()

    over(case)


def test_what_is_asked_for_while_the_factory_stops_does_not_start(over: Callable[[Case], None]) -> None:
    async def case(opened: Door) -> None:
        factory = factory_of(opened.client)
        factory.informer(core_v1.ConfigMap)
        factory.start()
        await factory.wait_for_sync()
        before = asyncio.all_tasks()
        stopping = asyncio.create_task(factory.stop())
        await asyncio.sleep(0)
        factory.informer(core_v1.Secret)
        await stopping
        factory.informer(core_v1.Node)
        assert not {task.get_name() for task in asyncio.all_tasks() - before} & {"informer Secret", "informer Node"}

    over(case)
