"""Stages of nodes, in virtual time: what users describe comes on top of what simulated nodes do.

All nodes wait for a stage that is an hour away; heavier ones take its place when they fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.stages.stages import Stage, read_stage
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod

HEAVY = 1_000_000
IS_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
TOO_HOT = """
conditions:
- {type: Ready, status: "False", reason: Overheated, message: {{ printf "%s at %s" NodeName NodeIP | Quote }}, lastTransitionTime: {{ Now | Quote }}}
"""


def stage(name: str, seconds: float, selector: dict[str, Any], following: dict[str, Any], weight: int = HEAVY) -> Stage:
    spec = {
        "resourceRef": {"apiGroup": "v1", "kind": "Node"},
        "selector": selector,
        "delay": {"durationMilliseconds": seconds * 1000},
        "weight": weight,
        "next": following,
    }
    found = read_stage({"metadata": {"name": name}, "spec": spec})
    assert found is not None
    return found


def told(reason: str) -> dict[str, str]:
    return {"type": "Warning", "reason": reason, "message": "so it is"}


STAGES = (
    stage(
        "overheats",
        5,
        {"matchLabels": {"hot": "true"}, "matchExpressions": [{"key": IS_READY, "operator": "In", "values": ["True"]}]},
        {"event": told("Overheated"), "statusTemplate": TOO_HOT},
    ),
    stage("goes", 60, {"matchAnnotations": {"gone": "true"}}, {"delete": True}),
    stage(
        "rests",
        3600,
        {"matchExpressions": [{"key": ".metadata.name", "operator": "Exists"}]},
        {"event": told("Rested")},
        weight=1,
    ),
)


def play(case: Callable[[VirtualCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = SimulatorSettings(nodes=2, stages=STAGES)
        async with VirtualCluster(nodes=settings) as cluster:
            await cluster.advance(seconds=5)
            await case(cluster)

    run(main())


async def ready(cluster: VirtualCluster, name: str) -> core_v1.NodeCondition:
    node = await cluster.client.get(core_v1.Node, name)
    return next(one for one in node.status.conditions if one.type == "Ready")


async def mark(cluster: VirtualCluster, name: str, **metadata: Any) -> None:
    await cluster.client.patch(core_v1.Node, name, "", {"metadata": metadata})


def test_a_node_comes_to_a_stage_after_its_delay_and_others_do_not() -> None:
    async def case(cluster: VirtualCluster) -> None:
        assert (await ready(cluster, "node-1")).status == "True"
        assert (await cluster.client.get(core_v1.Node, "node-1")).status.phase == "Running", "as kwok's stages expect"
        await mark(cluster, "node-1", labels={"hot": "true"})
        await cluster.advance(seconds=4)
        assert (await ready(cluster, "node-1")).status == "True"
        await cluster.advance(seconds=2)
        node = await cluster.client.get(core_v1.Node, "node-1")
        address = next(one.address for one in node.status.addresses if one.type == "InternalIP")
        condition = await ready(cluster, "node-1")
        assert (condition.status, condition.reason, condition.message) == (
            "False",
            "Overheated",
            f"node-1 at {address}",
        )
        assert (await ready(cluster, "node-2")).status == "True"
        events = (await cluster.client.list(core_v1.Event)).items
        assert [one.involved_object.name for one in events if one.reason == "Overheated"] == ["node-1"]
        await cluster.advance(minutes=5)
        assert (await ready(cluster, "node-1")).status == "False", "its leases do not make it well"

    play(case)


def test_pods_live_their_usual_lives_beside_stages_of_nodes() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(pod("web", restart_policy="Always"))
        await cluster.advance(seconds=5)
        assert (await cluster.client.get(core_v1.Pod, "web", "default")).status.phase == "Running"

    play(case)


def test_a_silent_node_comes_to_no_stage() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await mark(cluster, "node-1", labels={"hot": "true"}, annotations={"bayplan.dev/silent": "true"})
        await cluster.advance(seconds=20)
        assert (await ready(cluster, "node-1")).reason != "Overheated"

    play(case)


def test_a_node_is_deleted_by_a_stage() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await mark(cluster, "node-2", annotations={"gone": "true"})
        await cluster.advance(seconds=70)
        assert [one.metadata.name for one in (await cluster.client.list(core_v1.Node)).items] == ["node-1"]

    play(case)
