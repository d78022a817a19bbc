"""Which pods a kubelet takes, over a simulated runtime, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.errors import SyncError
from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.kubelet.runtime.labels import POD_NAME
from tests.kubelet.simulator.played import ENDS, NODE, Played, container, gone, phase, play, ready


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"node_selector": {"disk": "tape"}},
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {"os": core_v1.PodOS(name="windows")},
            "PodOSNotSupported",
            "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS",
        ),
    ],
)
def test_a_pod_that_the_node_does_not_fit_is_rejected(spec: dict[str, Any], reason: str, message: str) -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(**spec)
            failed = await played.until(phase("Failed"))
            assert (failed.status.reason, failed.status.message) == (reason, message)
            assert not played.runtime.all_containers()
            await played.client.delete(core_v1.Pod, "p", "default")
            await played.until(gone)

    play(case)


def test_a_pod_has_not_ended_before_it_has_given_back_what_it_used() -> None:
    async def case(played: Played) -> None:
        seen: list[str] = []

        async def release(uid: str) -> None:
            found = await played.pod("p")
            assert found is not None
            seen.append(found.status.phase)
            if len(seen) < 3:
                raise SyncError("the driver is away", retry_after=1.0)

        async with played.running() as kubelet:
            kubelet.syncer.release = release
            await played.create(restart_policy="Never")
            await played.until(phase("Succeeded"))
            assert seen == ["Running"] * 3

    play(case, behaviours={"c": ENDS})


def test_a_label_that_came_just_before_its_pod_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node as the kubelet knows it is older than the pod."""

    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            known = replace(kubelet.node_state.offer(), node=await played.client.get(core_v1.Node, NODE))
            monkeypatch.setattr(kubelet.pods, "_offer", lambda: known)
            await played.client.patch(core_v1.Node, NODE, "", {"metadata": {"labels": {"disk": "tape"}}})
            await played.create(node_selector={"disk": "tape"})
            await played.until(phase("Running"))
            await played.create(name="q", node_selector={"disk": "none"})
            assert (await played.until(phase("Failed"), name="q")).status.reason == "NodeAffinity"

    play(case)


def test_a_pod_that_asks_for_more_than_is_left_is_rejected() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            wants = core_v1.ResourceRequirements(requests={"cpu": "3"})
            await played.create(container(resources=wants), name="first")
            await played.until(ready, "first")
            await played.create(container(resources=wants))
            failed = await played.until(phase("Failed"))
            assert failed.status.reason == "OutOfcpu"
            assert failed.status.message == (
                "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 3000, capacity: 4000"
            )
            first = await played.pod("first")
            assert ready(first)

    play(case)


def test_a_status_says_what_the_whole_pod_has() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            wants = core_v1.ResourceRequirements(requests={"cpu": "500m"}, limits={"memory": "64Mi"})
            await played.create(container(resources=wants), container("d", resources=wants))
            status = (await played.until(ready)).status
            assert status.allocated_resources == {"cpu": "1", "memory": "128Mi"}
            assert status.resources == core_v1.ResourceRequirements(
                requests={"cpu": "1", "memory": "128Mi"}, limits={"memory": "128Mi"}
            )

    play(case)


def test_a_critical_pod_starts_when_the_pods_that_make_room_have_ended() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            resources: list[str] = []
            kubelet.pods.on_preemption = resources.append
            for name, cpu in (("small", "1"), ("large", "3")):
                wants = core_v1.ResourceRequirements(requests={"cpu": cpu})
                await played.create(container(resources=wants), name=name)
                await played.until(ready, name)
            wants = core_v1.ResourceRequirements(requests={"cpu": "2"})
            await played.create(container("d", resources=wants), priority_class_name="system-node-critical")
            failed = await played.until(phase("Failed"), "large")
            assert (failed.status.reason, failed.status.message) == (
                "Preempting",
                "Preempted in order to admit critical pod",
            )
            disruption = next(each for each in failed.status.conditions if each.type == "DisruptionTarget")
            assert (disruption.reason, disruption.message) == (
                "TerminationByKubelet",
                "Pod was preempted by Kubelet to accommodate a critical pod.",
            )
            await played.until(ready)
            ended = next(each for each in played.runtime.all_containers() if each.config.labels[POD_NAME] == "large")
            started = next(each for each in played.runtime.all_containers() if each.config.name == "d")
            assert started.started_at >= ended.finished_at > 0
            assert ready(await played.pod("small"))
            assert [each.involved_object.name for each in await played.events("Preempting")] == ["large"]
            assert resources == ["cpu"]

    play(case, behaviours={"c": Behaviour(stop_seconds=7)})


def test_the_ports_of_an_ended_pod_are_free_again() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            port = core_v1.ContainerPort(container_port=80, host_port=80, protocol="TCP")
            await played.create(container(ports=(port,)), name="first", restart_policy="Never")
            await played.until(phase("Succeeded"), "first")
            await played.create(container("d", ports=(port,)))
            await played.until(ready)
            await played.create(container("e", ports=(port,)), name="third")
            failed = await played.until(phase("Failed"), "third")
            assert failed.status.reason == "NodePorts"

    play(case, behaviours={"c": ENDS})
