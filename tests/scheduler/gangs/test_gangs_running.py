"""Gangs against an API server that has pod groups."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.optional_kinds import POD_GROUP
from bayplan.api.types.resource_v1 import ResourceClaim
from bayplan.api.types.scheduling_v1alpha2 import PodGroup
from bayplan.cluster.settings import CLUSTER_API
from bayplan.scheduler.binding import ClientActions
from bayplan.scheduler.framework.verdicts import ActionError
from bayplan.scheduler.service import SchedulerService
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from tests.scheduler.devices import claim, device, device_class, slice_of
from tests.scheduler.gangs.test_gang_claims import sharing
from tests.scheduler.gangs.test_gangs import group, member
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.running import World, play


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


@pytest.mark.parametrize("refused", [None, "g1"])
def test_the_pods_of_a_gang_are_bound_by_one_call(refused: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bindings, calls = ClientActions.write_bindings, []

    async def noted(self: ClientActions, placed: Sequence[tuple[PodInfo, str]]) -> list[ActionError | None]:
        names = [one.pod.metadata.name for one, _ in placed]
        calls.append(names)
        problems = await write_bindings(self, [one for one in placed if one[0].pod.metadata.name != refused])
        if refused in names:
            problems.insert(names.index(refused), ActionError("not now", 500))
        return problems

    monkeypatch.setattr(ClientActions, "write_bindings", noted)

    async def story(world: World) -> None:
        await world.create(node("a"), node("b"), group("g", 4), *(member(f"g{index}", "g") for index in range(4)))
        for index in range(4):
            assert await world.bound(f"g{index}") in ("a", "b")
        assert calls == [["g0", "g1", "g2", "g3"]]

    play(story, api=dataclasses.replace(CLUSTER_API, authorization_modes=("AlwaysAllow",)))


def test_a_gang_that_shares_a_claim_is_bound_with_all_its_pods_as_users() -> None:
    async def story(world: World) -> None:
        await world.create(node("a"), node("b"), device_class(), slice_of("b", device("gpu-0")), claim("c"))
        names = [f"g{index}" for index in range(8)]
        await world.create(group("g", len(names)), *(sharing(name, "g") for name in names))
        assert {await world.bound(name) for name in names} == {"b"}
        made = await world.client.get(ResourceClaim, "c", "default")
        assert made.status.allocation is not None
        assert [item.device for item in made.status.allocation.devices.results] == ["gpu-0"]
        assert sorted(item.name for item in made.status.reserved_for) == names

    play(story, api=dataclasses.replace(CLUSTER_API, authorization_modes=("AlwaysAllow",)))


def test_what_is_done_for_a_gang_is_seen_in_the_metrics(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"profiles": [{"schedulerName": "second"}]}))

    def mine(tree: Tree) -> Tree:
        tree["spec"]["schedulerName"] = "second"
        return tree

    async def story(world: World) -> None:
        registry = Registry()

        def values(name: str) -> dict[tuple[str, ...], float]:
            text = registry.render().decode()
            samples = [sample for metric in text_string_to_metric_families(text) for sample in metric.samples]
            return {tuple(sample.labels.values()): sample.value for sample in samples if sample.name == name}

        service = SchedulerService(
            world.client, clock=SystemClock(), randomness=SeededRandomness(1), metrics=registry, config=config
        )
        running = asyncio.create_task(service.run())
        try:
            await world.create(node("a", cpu="1"), group("g", 2), mine(member("g0", "g")), mine(member("g1", "g")))
            await world.bound("g0")
            await world.bound("g1")
            await world.create(mine(pod("large", cpu="4")))
            await world.refused("large", "Insufficient cpu")

            async def told() -> bool:
                calls = values("scheduler_async_api_call_execution_total")
                return calls == {("pod_binding", "success"): 2, ("pod_status_patch", "success"): 1}

            await world.until(told)
            assert values("scheduler_podgroup_schedule_attempts_total") == {("second", "scheduled"): 1}
            assert values("scheduler_pending_async_api_calls") == {("pod_binding",): 0}
            assert values("scheduler_plugin_evaluation_total")["PreFilter", "NodeResourcesFit", "second"] >= 2
            assert values("scheduler_goroutines")["prioritizing_extender",] == 0
            assert values("scheduler_inflight_events")["PodPopped",] == 0
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(story, api=dataclasses.replace(CLUSTER_API, authorization_modes=("AlwaysAllow",)))
