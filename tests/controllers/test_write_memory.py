from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.types import apps_v1
from bayplan.controllers.write_memory import CHECK_SECONDS, WriteMemory
from bayplan.informers import ObjectCache
from bayplan.testing.builders import replica_set
from bayplan.testing.clock import ManualClock


def at(revision: int, name: str = "web-1") -> apps_v1.ReplicaSet:
    one = replica_set(name)
    one.metadata.resource_version = str(revision)
    return one


class Memory:
    """A memory with a cache and a server."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.memory = WriteMemory(self.clock)
        self.cache: ObjectCache[Any] = ObjectCache()
        self.server: list[Any] = []
        self.asked = 0

    def is_current(self) -> bool:
        async def ask() -> list[Any]:
            self.asked += 1
            return self.server

        return asyncio.run(self.memory.is_current("default/web", self.cache, ask))


def test_the_cache_has_to_show_what_was_written() -> None:
    one = Memory()
    one.cache.put(at(6))
    assert one.is_current()
    one.memory.wrote("default/web", at(7))
    assert not one.is_current()
    one.cache.put(at(7))
    assert one.is_current()
    assert not one.asked


def test_a_new_object_has_to_be_in_the_cache() -> None:
    one = Memory()
    one.memory.wrote("default/web", at(7))
    assert not one.is_current()
    one.cache.put(at(9))
    assert one.is_current()


def test_after_a_lost_answer_the_server_is_asked() -> None:
    one = Memory()
    one.cache.put(at(6))
    one.server = [at(7)]
    one.memory.lost("default/web")
    assert not one.is_current()
    one.cache.put(at(7))
    assert one.is_current()
    assert one.asked == 1


def test_what_is_gone_is_not_waited_for() -> None:
    one = Memory()
    one.memory.wrote("default/web", at(7))
    one.memory.gone("default/web", at(8))
    assert one.is_current()


def test_an_object_that_came_and_went_unseen_is_given_up_when_the_server_does_not_have_it() -> None:
    one = Memory()
    one.memory.wrote("default/web", at(7))
    one.clock.advance(CHECK_SECONDS / 2)
    assert not one.is_current()
    one.clock.advance(CHECK_SECONDS)
    assert one.is_current()
    assert one.asked == 1
