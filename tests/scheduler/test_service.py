"""The service: what the cluster sees of decisions."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from bayplan.api.codec import from_tree
from bayplan.api.types.core_v1 import Pod
from bayplan.api.types.scheduling_v1 import PriorityClass
from bayplan.scheduler.framework.extension_points import Actions, PermitPlugin, Plugin, PreBindPlugin
from bayplan.scheduler.framework.state import CycleState, PodInfo
from bayplan.scheduler.framework.verdicts import PluginError, Reject
from tests.scheduler.installing import install
from tests.scheduler.objects import node, pod
from tests.scheduler.running import World, play


class Holding(PermitPlugin):
    """Holds pods with the label back for ever."""

    name: ClassVar[str] = "Holding"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | float | None:
        return 600.0 if "hold" in pod.shape.labels else None


class Failing(PreBindPlugin):
    """Fails the first time."""

    name: ClassVar[str] = "Failing"
    failed: ClassVar[set[str]] = set()

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> Reject | None:
        if pod.key not in self.failed:
            self.failed.add(pod.key)
            raise PluginError(self.name, "not yet")
        return None


async def create_urgent(world: World) -> None:
    """A pod before which others have to give way."""
    await world.client.create(from_tree(PriorityClass, {"metadata": {"name": "high"}, "value": 1000}))
    tree = pod("urgent", cpu="800m", priorityClassName="high")
    del tree["spec"]["priority"]
    await world.create(tree)


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: type[Plugin]) -> Path:
    """A configuration with one plugin more."""
    Failing.failed.clear()
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(install(monkeypatch, [plugin])))
    return file


def test_a_pod_that_waits_is_nominated_and_gives_way_without_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = written(tmp_path, monkeypatch, Holding)

    async def story(world: World) -> None:
        await world.create(node("a", cpu="1"), pod("low", cpu="800m", labels={"hold": "yes"}))

        async def nominated() -> str:
            return (await world.pod("low")).status.nominated_node_name

        assert await world.until(nominated) == "a"
        await create_urgent(world)
        assert await world.bound("urgent") == "a"

        async def told() -> bool:
            return any("preempted" in item for item in await world.events("FailedScheduling"))

        assert await world.until(told)
        assert (await world.pod("low")).metadata.deletion_timestamp is None
        assert any(item.startswith("Preempted by pod ") for item in await world.events("Preempted"))

    play(story, config=config)


def test_a_failed_pre_bind_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = written(tmp_path, monkeypatch, Failing)

    async def story(world: World) -> None:
        await world.create(node("a"), pod("p"))
        assert await world.refused("p", "Failing") == 'running PreBind plugin "Failing": not yet'
        assert await world.bound("p") == "a"
        assert 'running PreBind plugin "Failing": not yet' in await world.events("FailedScheduling")

    play(story, config=config)


def test_conditions_events_and_nomination_of_a_pod_that_fits_nowhere() -> None:
    async def story(world: World) -> None:
        await world.create(pod("p", cpu="800m"))
        assert await world.refused("p", "no nodes") == "no nodes available to schedule pods"
        await world.create(node("a", cpu="500m"))
        message = await world.refused("p", "Insufficient cpu")
        condition = next(item for item in (await world.pod("p")).status.conditions if item.type == "PodScheduled")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")

        async def told() -> bool:
            return message in await world.events("FailedScheduling")

        await world.until(told)

    play(story)


def test_victims_are_told_why_and_the_preemptor_takes_their_place() -> None:
    async def story(world: World) -> None:
        low = pod("low", cpu="800m", terminationGracePeriodSeconds=0)
        await world.create(node("a", cpu="1"), low)
        await world.bound("low")
        await create_urgent(world)

        async def gone() -> bool:
            return await world.gone(Pod, "low")

        await world.until(gone)
        assert await world.bound("urgent") == "a"
        urgent = await world.pod("urgent")
        assert f"Preempted by pod {urgent.metadata.uid} on node a" in await world.events("Preempted")

    play(story)


def test_a_pod_that_became_gated_in_the_queue_waits_silently() -> None:
    async def story(world: World) -> None:
        tree = pod("p", resourceClaims=[{"name": "r", "resourceClaimName": "later"}])
        await world.create(node("a"), tree)
        await world.create(pod("q"))
        assert await world.bound("q") == "a"
        assert (await world.pod("p")).status.conditions == ()
        assert await world.events("FailedScheduling") == []

    play(story)


def test_a_nomination_is_taken_back_with_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = written(tmp_path, monkeypatch, Holding)

    async def story(world: World) -> None:
        await world.create(node("a", cpu="1"), pod("low", cpu="800m", labels={"hold": "yes"}))

        async def nominated() -> str:
            return (await world.pod("low")).status.nominated_node_name

        assert await world.until(nominated) == "a"
        await create_urgent(world)
        assert await world.bound("urgent") == "a"

        async def open_again() -> bool:
            return not await nominated()

        await world.until(open_again)

    play(story, config=config)
