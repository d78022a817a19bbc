"""Nodes that fall silent, taints that drive pods away, nodes that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.types import core_v1
from bayplan.cluster.settings import ClusterSettings
from bayplan.controllers.settings import ControllerSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.builders import deployment, pod, taint, toleration
from bayplan.testing.cluster import LiveCluster, running_cluster

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
IMPATIENT = ClusterSettings(
    nodes=SimulatorSettings(nodes=2, start_seconds=0.01, stop_seconds=0.01, lease_seconds=0.2),
    controller=ControllerSettings(node_monitor_period=0.1, node_monitor_grace_period=0.6, orphaned_pod_period=0.1),
)


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster(settings=IMPATIENT) as cluster:
            await test(cluster)

    asyncio.run(run())


async def silence(cluster: LiveCluster, name: str, value: str | None = "true") -> None:
    await cluster.client.patch(core_v1.Node, name, "", {"metadata": {"annotations": {"bayplan.dev/silent": value}}})


async def set_taints(cluster: LiveCluster, name: str, *taints: core_v1.Taint) -> None:
    await cluster.client.patch(core_v1.Node, name, "", {"spec": {"taints": list(taints)}})


async def taints_of(cluster: LiveCluster, name: str) -> set[tuple[str, str]]:
    return {(one.key, one.effect) for one in (await cluster.client.get(core_v1.Node, name)).spec.taints}


async def conditions_of(cluster: LiveCluster, name: str) -> dict[str, str]:
    return {one.type: one.status for one in (await cluster.client.get(core_v1.Node, name)).status.conditions}


async def start_pod(cluster: LiveCluster, name: str, node: str = "node-1", **spec: Any) -> None:
    await cluster.client.create(pod(name, node_name=node, **spec))
    await cluster.eventually(lambda: is_ready(cluster, name))


async def is_ready(cluster: LiveCluster, name: str) -> bool:
    return name in {one.metadata.name for one in await cluster.ready_pods()}


async def is_leaving(cluster: LiveCluster, name: str) -> bool:
    return bool((await cluster.client.get(core_v1.Pod, name, "default")).metadata.deletion_timestamp)


async def messages(cluster: LiveCluster, reason: str) -> set[str]:
    events = (await cluster.client.list(core_v1.Event, "default")).items
    return {one.message for one in events if one.reason == reason}


def test_a_silent_node_becomes_unknown_and_its_pods_move_and_come_to_an_end_when_it_is_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        limits = (
            toleration(UNREACHABLE, effect="NoExecute", seconds=1),
            toleration(NOT_READY, effect="NoExecute", seconds=1),
        )
        await cluster.client.create(deployment("web", 4, pod_spec={"tolerations": limits}))
        await cluster.rolled_out("web", 4)
        await silence(cluster, "node-1")

        async def lost() -> bool:
            return (await conditions_of(cluster, "node-1"))["Ready"] == "Unknown"

        await cluster.eventually(lost)

        async def tainted() -> bool:
            return await taints_of(cluster, "node-1") == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}

        await cluster.eventually(tainted)
        assert set((await conditions_of(cluster, "node-1")).values()) == {"Unknown"}

        async def moved() -> bool:
            ready = await cluster.ready_pods(app="web")
            return len(ready) == 4 and {one.spec.node_name for one in ready} == {"node-2"}

        await cluster.eventually(moved)
        stuck = [
            one for one in (await cluster.client.list(core_v1.Pod, "default")).items if one.spec.node_name == "node-1"
        ]
        assert stuck, "nobody is there to end them"
        assert all(one.metadata.deletion_timestamp for one in stuck)
        disruption = [each for one in stuck for each in one.status.conditions if each.type == "DisruptionTarget"]
        assert {each.reason for each in disruption} == {"DeletionByTaintManager"}
        await silence(cluster, "node-1", None)

        async def back() -> bool:
            well = (await conditions_of(cluster, "node-1"))["Ready"] == "True"
            return well and not await taints_of(cluster, "node-1")

        await cluster.eventually(back)

        async def cleared() -> bool:
            pods = (await cluster.client.list(core_v1.Pod, "default")).items
            return {one.metadata.name for one in pods}.isdisjoint(one.metadata.name for one in stuck)

        await cluster.eventually(cleared)

    live(scenario)


def test_a_pod_that_tolerates_the_loss_waits_for_its_node_and_is_ready_again() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await start_pod(cluster, "patient", tolerations=(toleration(),))
        await silence(cluster, "node-1")

        async def unready() -> bool:
            return not await is_ready(cluster, "patient")

        await cluster.eventually(unready)
        assert "Node is not ready" in await cluster.eventually(lambda: messages(cluster, "NodeNotReady"))
        await silence(cluster, "node-1", None)
        await cluster.eventually(lambda: is_ready(cluster, "patient"))

    live(scenario)


def test_a_node_that_was_given_up_though_it_lives_reports_itself() -> None:
    """As after a laptop slept: nothing was silent, but for the controller time has passed."""

    async def scenario(cluster: LiveCluster) -> None:
        conditions = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        await cluster.client.patch(
            core_v1.Node, "node-1", "", {"status": {"conditions": conditions}}, subresource="status"
        )

        async def well() -> bool:
            return (await conditions_of(cluster, "node-1"))["Ready"] == "True" and not await taints_of(
                cluster, "node-1"
            )

        await cluster.eventually(well)

    live(scenario)


def test_a_taint_drives_out_what_does_not_tolerate_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await start_pod(cluster, "leaves")
        await start_pod(cluster, "stays", tolerations=(toleration("maintenance"),))
        await set_taints(cluster, "node-1", taint("maintenance"))
        await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "leaves"))
        assert not await is_leaving(cluster, "stays")

        async def told() -> bool:
            return "Marking for deletion Pod default/leaves" in await messages(cluster, "TaintManagerEviction")

        await cluster.eventually(told)

    live(scenario)


def test_toleration_seconds_run_out_also_for_a_taint_without_a_time() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await start_pod(cluster, "later", tolerations=(toleration("maintenance", seconds=1),))
        loop = asyncio.get_running_loop()
        started = loop.time()
        await set_taints(cluster, "node-1", taint("maintenance"))
        await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "later"))
        assert loop.time() - started >= 0.9

    live(scenario)


def test_an_eviction_is_cancelled_when_the_taint_goes() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await start_pod(cluster, "spared", tolerations=(toleration("maintenance", seconds=1),))
        await start_pod(cluster, "first-to-go")
        await start_pod(cluster, "witness", node="node-2", tolerations=(toleration("maintenance", seconds=1),))
        await set_taints(cluster, "node-1", taint("maintenance"))
        await set_taints(cluster, "node-2", taint("maintenance"))
        await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "first-to-go"))
        await set_taints(cluster, "node-1")
        await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "witness"))
        assert await is_ready(cluster, "spared")

        async def told() -> bool:
            return "Cancelling deletion of Pod default/spared" in await messages(cluster, "TaintManagerEviction")

        await cluster.eventually(told)

    live(scenario)


def test_a_cordoned_node_takes_no_new_pods() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.patch(core_v1.Node, "node-1", "", {"spec": {"unschedulable": True}})

        async def shown() -> bool:
            return ("node.kubernetes.io/unschedulable", "NoSchedule") in await taints_of(cluster, "node-1")

        await cluster.eventually(shown)
        await cluster.client.create(deployment("web", 3))
        await cluster.rolled_out("web", 3)
        assert {one.spec.node_name for one in await cluster.pods(app="web")} == {"node-2"}
        await cluster.client.patch(core_v1.Node, "node-1", "", {"spec": {"unschedulable": False}})

        async def usable() -> bool:
            return not await taints_of(cluster, "node-1")

        await cluster.eventually(usable)

    live(scenario)


def test_pods_of_a_node_that_is_gone_are_collected_and_replaced() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 4))
        await cluster.rolled_out("web", 4)
        assert {one.spec.node_name for one in await cluster.pods(app="web")} == {"node-1", "node-2"}
        await cluster.client.delete(core_v1.Node, "node-1")

        async def moved() -> bool:
            pods = (await cluster.client.list(core_v1.Pod, "default")).items
            return len(pods) == 4 and {one.spec.node_name for one in pods} == {"node-2"}

        await cluster.eventually(moved)
        await cluster.rolled_out("web", 4)

    live(scenario)
