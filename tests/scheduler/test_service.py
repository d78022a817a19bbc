"""The service: what the cluster sees of decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.optional_kinds import POD_GROUP
from bayplan.api.types.core_v1 import Pod, PodCondition
from bayplan.api.types.meta_v1 import Status
from bayplan.api.types.scheduling_v1 import PriorityClass
from bayplan.client import Client
from bayplan.scheduler.framework.extension_points import Actions, PermitPlugin, Plugin, PreBindPlugin
from bayplan.scheduler.framework.state import CycleState, PodInfo
from bayplan.scheduler.framework.verdicts import PluginError, Reject
from bayplan.scheduler.library import typed
from bayplan.scheduler.reporting import Preemptor, Reporter
from bayplan.scheduler.service import SchedulerService
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from tests.client.transports import StubTransport
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


def test_no_more_pods_are_evicted_than_have_to_go() -> None:
    count = 8

    async def story(world: World) -> None:
        await world.client.create(from_tree(PriorityClass, {"metadata": {"name": "high"}, "value": 1000}))
        await world.create(*(node(f"n{number}", cpu="4") for number in range(count)))
        low = [
            pod(f"low-{number}", cpu="900m", on=f"n{number // 4}", terminationGracePeriodSeconds=0)
            for number in range(4 * count)
        ]
        await world.create(*low)
        high = [pod(f"high-{number}", cpu="3", priorityClassName="high") for number in range(count)]
        for tree in high:
            del tree["spec"]["priority"]
        await asyncio.gather(*(world.create(tree) for tree in high))
        nodes = [await world.bound(tree["metadata"]["name"]) for tree in high]
        assert sorted(nodes) == [f"n{number}" for number in range(count)]
        left = [one for one in (await world.client.list(Pod, "default")).items if one.spec.priority == 0]
        assert len(left) == count

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


def test_a_pod_whose_victims_the_server_would_not_let_go_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    evict, refused = Reporter.evict, list[str]()

    async def reluctant(reporter: Reporter, victims: Sequence[Pod], preemptor: Preemptor) -> list[Pod]:
        if not refused:
            refused.extend(victim.metadata.name for victim in victims)
            return [*victims]
        return await evict(reporter, victims, preemptor)

    monkeypatch.setattr(Reporter, "evict", reluctant)

    async def story(world: World) -> None:
        await world.create(node("a", cpu="1"), pod("low", cpu="800m", terminationGracePeriodSeconds=0))
        await world.bound("low")
        await create_urgent(world)
        assert await world.bound("urgent") == "a"
        assert refused == ["low"]

    play(story)


@pytest.mark.parametrize(
    ("refused", "code", "stays"), [("PATCH", 422, 1), ("PATCH", 404, 0), ("DELETE", 409, 1), ("DELETE", 404, 0)]
)
def test_a_victim_is_deleted_once_its_condition_says_why(refused: str, code: int, stays: int) -> None:
    asked: list[str] = []

    def answer(method: str, path: str, query: Mapping[str, str]) -> bytes:
        asked.append(method)
        if method == refused:
            raise ApiError(Status(status="Failure", code=code))
        return b"{}"

    reporter = Reporter(Client(StubTransport(answer)), SystemClock(), {}, lambda key: None)
    victim, preemptor = typed("Pod", pod("low")), typed("Pod", pod("urgent"))
    assert len(asyncio.run(reporter.evict([victim], Preemptor.of_pod(preemptor)))) == stays
    assert asked == (["PATCH"] if refused == "PATCH" else ["PATCH", "DELETE"])


def test_what_a_pods_status_says_already_is_not_written_again_where_there_are_pod_groups() -> None:
    changes: list[str] = []

    def answer(method: str, path: str, query: Mapping[str, str]) -> bytes:
        if method != "GET":
            changes.append(f"{method} {path}")
        if "v1beta1" in path:
            raise ApiError(Status(status="Failure", code=404))
        return b"{}"

    client = Client(StubTransport(answer))
    service = SchedulerService(client, clock=SystemClock(), randomness=SeededRandomness(1), metrics=Registry())
    queued: Pod = typed("Pod", pod("p"))
    told: Pod = typed("Pod", pod("p"))
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
    told.status.conditions = (condition,)

    async def main() -> None:
        await service._find_optional_kinds()
        assert POD_GROUP.kind not in service._absent
        await service.reporter.not_scheduled(queued, "Unschedulable", "no room", None)
        assert len(changes) == 1
        service.informers.informer(Pod).cache.put(told)
        await service.reporter.not_scheduled(queued, "Unschedulable", "no room", None)
        assert len(changes) == 1

    asyncio.run(main())


def test_events_that_a_pod_may_have_missed_are_in_the_metrics() -> None:
    async def main() -> None:
        registry = Registry()
        client = Client(StubTransport(lambda method, path, query: b"{}"))
        service = SchedulerService(client, clock=SystemClock(), randomness=SeededRandomness(1), metrics=registry)
        service.core.handle("Pod", None, typed("Pod", pod("p")))
        service.core.queue.pop()
        service.core.handle("Node", None, typed("Node", node("a")))
        assert b'scheduler_inflight_events{event="NodeAdd"} 1\n' in registry.render()
        assert b'scheduler_inflight_events{event="PodPopped"} 1\n' in registry.render()

    asyncio.run(main())


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Patches of the status of one pod take their time; names of the pods whose status has been patched."""
    patch_status, names = Reporter.patch_status, list[str]()

    async def slow(reporter: Reporter, changed: Pod, patch: dict[str, Any]) -> None:
        if changed.metadata.name == "urgent":
            await asyncio.sleep(0.2)
        await patch_status(reporter, changed, patch)
        names.append(changed.metadata.name)

    monkeypatch.setattr(Reporter, "patch_status", slow)
    return names


async def is_scheduled_for_good(world: World, told: list[str]) -> bool:
    """Whether the urgent pod, when it is bound and all has been told of it, is still said to be scheduled."""
    await world.bound("urgent")

    async def all_told() -> bool:
        return "urgent" in told

    await world.until(all_told)
    conditions = (await world.pod("urgent")).status.conditions
    return [item.status for item in conditions if item.type == "PodScheduled"] == ["True"]


def test_that_a_pod_had_to_make_room_is_not_told_after_it_was_scheduled(told: list[str]) -> None:
    async def story(world: World) -> None:
        await world.create(node("a", cpu="1"), pod("low", cpu="800m", terminationGracePeriodSeconds=0))
        await world.bound("low")
        await create_urgent(world)
        assert await is_scheduled_for_good(world, told)

    play(story)


def test_that_a_pod_fitted_nowhere_is_not_told_after_it_was_scheduled(told: list[str]) -> None:
    async def story(world: World) -> None:
        await create_urgent(world)
        await world.until(lambda: world.events("FailedScheduling"))
        await world.create(node("a", cpu="1"))
        assert await is_scheduled_for_good(world, told)

    play(story)
