"""Gangs against an API server that has pod groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from bayplan.api.kinds import DEFAULT_KINDS, POD_GROUP
from bayplan.api.types.scheduling_v1alpha2 import PodGroup
from bayplan.cluster.settings import CLUSTER_API
from tests.scheduler.objects import node
from tests.scheduler.running import World, play
from tests.scheduler.test_gangs import group, member


@pytest.fixture(autouse=True)
def served() -> Iterator[None]:
    DEFAULT_KINDS.add(POD_GROUP)
    yield
    DEFAULT_KINDS.remove(POD_GROUP)


def test_a_gang_is_bound_when_its_last_pod_comes() -> None:
    async def story(world: World) -> None:
        await world.create(node("a"), node("b"), group("g", 2), member("g0", "g"))
        assert (await world.pod("g0")).spec.node_name == ""
        await world.create(member("g1", "g"))
        assert {await world.bound("g0"), await world.bound("g1")} <= {"a", "b"}

        async def condition() -> bool:
            made = await world.client.get(PodGroup, "g", "default")
            return [(item.type, item.status, item.reason) for item in made.status.conditions] == [
                ("PodGroupScheduled", "True", "Scheduled")
            ]

        await world.until(condition)

    play(story, api=dataclasses.replace(CLUSTER_API, authorization_modes=("AlwaysAllow",)))
