"""Simulated nodes that run out of memory, and the images that they list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection
from bayplan.kubelet.simulator.admission import NodeAdmission
from bayplan.kubelet.simulator.nodes.images import REPORTED, image_of, reported_images
from bayplan.kubelet.simulator.nodes.node_images import NodeImages
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import container, node, pod

Case = Callable[[VirtualCluster], Awaitable[None]]
NODE = "node-1"


def play(case: Case) -> None:
    async def main() -> None:
        settings = SimulatorSettings(nodes=1, capacity={"cpu": "4", "memory": "1Gi", "pods": "110"}, lease_seconds=40)
        async with VirtualCluster(nodes=settings) as cluster:
            await case(cluster)

    run(main())


def using(name: str, memory: str, request: str = "", **spec: Any) -> core_v1.Pod:
    annotations = {"bayplan.dev/memory-usage": memory}
    return pod(name, meta={"annotations": annotations}, node_name=NODE, restart_policy="Always", memory=request, **spec)


async def pods(cluster: VirtualCluster) -> dict[str, core_v1.PodStatus]:
    return {one.metadata.name: one.status for one in (await cluster.client.list(core_v1.Pod, "default")).items}


async def memory_pressure(cluster: VirtualCluster) -> core_v1.NodeCondition:
    found = await cluster.client.get(core_v1.Node, NODE)
    return next(one for one in found.status.conditions if one.type == "MemoryPressure")


def test_a_node_evicts_what_uses_more_than_it_asked_for() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(using("modest", "300Mi", request="300Mi"))
        await cluster.client.create(using("greedy", "200Mi@0s 700Mi@60s", request="100Mi"))
        await cluster.advance(seconds=30)
        assert (await memory_pressure(cluster)).status == "False"
        await cluster.advance(seconds=60)
        found = await pods(cluster)
        assert found["modest"].phase == "Running"
        assert (found["greedy"].phase, found["greedy"].reason) == ("Failed", "Evicted")
        killed = found["greedy"].container_statuses[0].state.terminated
        assert killed is not None
        assert (killed.exit_code, killed.reason) == (137, "Error")
        text = found["greedy"].message
        assert text.startswith("The node was low on resource: memory. Threshold quantity: 100Mi, available: ")
        assert "Container main was using " in text
        assert text.endswith(", request is 100Mi, has larger consumption of memory. ")
        [target] = [one for one in found["greedy"].conditions if one.type == "DisruptionTarget"]
        assert (target.status, target.reason, target.message) == ("True", "TerminationByKubelet", text)
        events = {one.reason: one for one in (await cluster.client.list(core_v1.Event, "default")).items}
        assert (events["Evicted"].type, events["Evicted"].message) == ("Warning", text)
        assert events["EvictionThresholdMet"].message == "Attempting to reclaim memory"
        assert events["NodeHasInsufficientMemory"].involved_object.name == NODE

    play(case)


def test_the_condition_lasts_five_minutes_and_keeps_the_least_pods_away() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(using("greedy", "2000Mi"))
        await cluster.advance(seconds=20)
        assert "available: 0. " in (await pods(cluster))["greedy"].message
        shown = await memory_pressure(cluster)
        assert (shown.status, shown.reason) == ("True", "KubeletHasInsufficientMemory")
        tainted = await cluster.client.get(core_v1.Node, NODE)
        assert "node.kubernetes.io/memory-pressure" in [one.key for one in tainted.spec.taints]
        await cluster.client.create(pod("late", node_name=NODE, restart_policy="Always"))
        await cluster.advance(seconds=2)
        late = (await pods(cluster))["late"]
        assert (late.phase, late.reason) == ("Failed", "Evicted")
        assert late.message == "Pod was rejected: The node had condition: [MemoryPressure]. "
        await cluster.advance(seconds=320)
        shown = await memory_pressure(cluster)
        assert (shown.status, shown.message) == ("False", "kubelet has sufficient memory available")
        simulator = cluster.components.node_simulator
        assert simulator is not None
        assert simulator._memory is not None
        await cluster.client.delete(core_v1.Pod, "greedy", "default", grace_period_seconds=0)
        await cluster.advance(seconds=20)
        assert not simulator._memory._nodes, "nobody looks any more"

    play(case)


def test_a_pod_that_the_system_needs_stays() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(using("greedy", "1000Mi", priority_class_name="system-node-critical"))
        await cluster.advance(seconds=60)
        assert (await pods(cluster))["greedy"].phase == "Running"
        assert (await memory_pressure(cluster)).status == "True"

    play(case)


def test_a_node_lists_the_images_of_its_pods() -> None:
    async def case(cluster: VirtualCluster) -> None:
        for image in ("nginx", "redis:8", "nonexistent"):
            name = image.partition(":")[0]
            await cluster.client.create(pod(name, image=image, node_name=NODE, restart_policy="Always"))
        await cluster.advance(seconds=60)
        shown = (await cluster.client.get(core_v1.Node, NODE)).status.images
        assert {one.names[-1] for one in shown} == {"docker.io/library/nginx:latest", "docker.io/library/redis:8"}
        assert [one.size_bytes for one in shown] == sorted((one.size_bytes for one in shown), reverse=True)
        status = (await pods(cluster))["nginx"].container_statuses[0]
        assert status.image_id in {one.names[0] for one in shown}

    play(case)


def test_a_status_has_room_for_fifty_images() -> None:
    shown = reported_images(f"app:{number}" for number in range(200))
    assert len(shown) == REPORTED == 50
    left = {f"docker.io/library/app:{number}" for number in range(200)} - {one.names[-1] for one in shown}
    assert min(one.size_bytes for one in shown) >= max(image_of(name).size_bytes for name in left)


def test_images_of_pods_that_have_gone_stay() -> None:
    images, shown = NodeImages(), node(NODE)

    def see(image: str) -> None:
        status = core_v1.ContainerStatus(name="c", image=image, image_id=image_of(image).image_id)
        images.see(pod("p", node_name=NODE, status=core_v1.PodStatus(container_statuses=(status,))))

    shown.status.images = reported_images(["earlier:1"])
    see("app:1")
    patch = images.patch(shown)
    assert patch is not None
    names = [one["names"][-1] for one in patch["status"]["images"]]
    assert sorted(names) == ["docker.io/library/app:1", "docker.io/library/earlier:1"]
    see("app:1")
    assert images.patch(shown) is None, "nothing is new"


def test_a_node_under_pressure_takes_pods_that_ask_for_memory() -> None:
    short = node(NODE, conditions={"Ready": "True", "MemoryPressure": "True"})
    admission = NodeAdmission({NODE: short}.get)
    assert admission.admit(pod("a", node_name=NODE, meta={"uid": "a"}, memory="1Mi"), lambda: ()) == []
    rejection = admission.admit(pod("b", node_name=NODE, meta={"uid": "b"}, containers=(container(),)), lambda: ())
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "Evicted"


def test_a_critical_pod_takes_the_place_of_others() -> None:
    async def case(cluster: VirtualCluster) -> None:
        for name in ("a", "b"):
            await cluster.client.create(pod(name, node_name=NODE, restart_policy="Always", cpu="2"))
        await cluster.advance(seconds=5)
        critical: dict[str, Any] = {
            "node_name": NODE,
            "restart_policy": "Always",
            "priority_class_name": "system-node-critical",
        }
        await cluster.client.create(pod("critical", cpu="2", **critical))
        await cluster.advance(seconds=5)
        found = await pods(cluster)
        assert found["critical"].phase == "Running"
        [ended] = [status for status in found.values() if status.phase == "Failed"]
        assert (ended.reason, ended.message) == ("Preempting", "Preempted in order to admit critical pod")
        [target] = [one for one in ended.conditions if one.type == "DisruptionTarget"]
        assert target.message == "Pod was preempted by Kubelet to accommodate a critical pod."
        assert ended.container_statuses[0].state.terminated is not None

    play(case)
