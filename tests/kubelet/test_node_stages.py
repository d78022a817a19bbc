"""Stages of nodes, in virtual time: what users describe comes on top of what simulated nodes do.

All nodes wait for a stage that is an hour away; heavier ones take its place when they fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import yaml

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.stages import Stage, read_stage
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod

_OVERHEATS = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: overheats}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchLabels: {hot: "true"}
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: In, values: ["True"]}
  weight: 1000000
  delay: {durationMilliseconds: 5000}
  next:
    event: {type: Warning, reason: Overheated, message: it became too hot}
    statusTemplate: |
      conditions:
      - {type: Ready, status: "False", reason: Overheated, message: {{ printf "%s at %s" NodeName NodeIP | Quote }},
         lastTransitionTime: {{ Now | Quote }}}
"""
_RESTS = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: rests}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector: {matchExpressions: [{key: .metadata.name, operator: Exists}]}
  delay: {durationMilliseconds: 3600000}
  next: {event: {type: Normal, reason: Rested, message: nothing happened for an hour}}
"""
_GOES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: goes}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector: {matchAnnotations: {gone: "true"}}
  weight: 1000000
  delay: {durationMilliseconds: 60000}
  next: {delete: true}
"""


def stage(text: str) -> Stage:
    found = read_stage(yaml.safe_load(text))
    assert found is not None
    return found


def play(case: Callable[[VirtualCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = SimulatorSettings(nodes=2, stages=(stage(_OVERHEATS), stage(_RESTS), stage(_GOES)))
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
