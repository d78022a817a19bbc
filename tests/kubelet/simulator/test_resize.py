"""Resizing running pods in place on simulated nodes: accepted, put off, refused, and with a restart where the policy asks for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.resize_requests import DEFERRED, IN_PROGRESS, INFEASIBLE, PENDING
from bayplan.kubelet.simulator.allocation import account_of, allocated, is_concerned
from bayplan.kubelet.simulator.pods import Step, next_step
from bayplan.kubelet.simulator.references import Surroundings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, changed, container, node, pod

NOW = parse_rfc3339(CREATED)
GIB = 2**30
SETTINGS = SimulatorSettings(nodes=1, resize_seconds=2.0)
RESTART = (core_v1.ContainerResizePolicy(resource_name="memory", restart_policy="RestartContainer"),)


def surroundings(*others: core_v1.Pod) -> Surroundings:
    """A node of four cpus and 8 GiB with other pods."""
    return Surroundings(node=node("n", cpu="4", memory="8Gi"), others=lambda: others)


def running(**fields: Any) -> core_v1.Pod:
    """A running pod of one container with one cpu and a GiB."""
    one = pod(
        "web",
        meta={"generation": 1},
        node_name="n",
        restart_policy="Always",
        containers=(container(cpu="1", memory="1Gi", **fields),),
    )
    for _ in range(2):
        one = after(one)
    return one


def wanting(one: core_v1.Pod, generation: int = 2, **requests: str) -> core_v1.Pod:
    """The pod after somebody asked for other resources."""
    [first] = one.spec.containers
    resources = msgspec.structs.replace(first.resources, requests={**first.resources.requests, **requests})
    spec = msgspec.structs.replace(one.spec, containers=(msgspec.structs.replace(first, resources=resources),))
    metadata = msgspec.structs.replace(one.metadata, generation=generation)
    return msgspec.structs.replace(one, spec=spec, metadata=metadata)


def step(one: core_v1.Pod, moment: float = 0.0, around: Surroundings | None = None) -> Step:
    return next_step(one, NOW + moment, SETTINGS, "172.18.0.1", "10.128.0.2", 0.1, around=around or surroundings())


def after(one: core_v1.Pod, moment: float = 0.0, around: Surroundings | None = None) -> core_v1.Pod:
    status = step(one, moment, around).status
    assert status is not None
    return changed(one, status=status)


def conditions(one: core_v1.Pod) -> dict[str, tuple[str, int]]:
    return {
        each.type: (each.reason, each.observed_generation)
        for each in one.status.conditions
        if each.type in (PENDING, IN_PROGRESS)
    }


def cpu(one: core_v1.Pod) -> tuple[Any, Any]:
    """(cpu that is allocated, cpu that the container has)."""
    [status] = one.status.container_statuses
    assert status.resources is not None
    return status.allocated_resources["cpu"], status.resources.requests["cpu"]


def reasons(found: Step) -> list[str]:
    return [each.reason for each in found.told if not each.ordinary]


def test_a_pod_that_starts_has_what_it_asks_for() -> None:
    one = running()
    [status] = one.status.container_statuses
    assert status.resources == one.spec.containers[0].resources
    assert status.allocated_resources == {"cpu": "1", "memory": "1Gi"}
    assert not is_concerned(one)
    assert step(one) == Step()


def test_an_accepted_resize_is_promised_at_once_and_done_a_moment_later() -> None:
    one = wanting(running(), cpu="2")
    first = step(one)
    assert (first.wait, reasons(first)) == (2.0, ["ResizeStarted"])
    one = after(one)
    assert cpu(one) == ("2", "1")
    assert conditions(one) == {IN_PROGRESS: ("", 2)}
    assert step(one, 1.0) == Step(wait=1.0)
    assert reasons(step(one, 2.0)) == ["ResizeCompleted"]
    done = after(one, 2.0)
    assert cpu(done) == ("2", "2")
    assert (done.status.container_statuses[0].restart_count, conditions(done)) == (0, {})
    assert step(done, 3.0) == Step()


def test_limits_change_with_requests() -> None:
    limits = core_v1.ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"})
    one = running(resources=limits)
    [first] = one.spec.containers
    larger = msgspec.structs.replace(
        first,
        resources=core_v1.ResourceRequirements(
            requests={"cpu": "1", "memory": "2Gi"}, limits={"cpu": "1", "memory": "2Gi"}
        ),
    )
    metadata = msgspec.structs.replace(one.metadata, generation=2)
    one = changed(one, metadata=metadata, spec=msgspec.structs.replace(one.spec, containers=(larger,)))
    done = after(after(one), 2.0)
    assert done.status.container_statuses[0].resources == larger.resources


def test_what_the_node_never_has_is_infeasible() -> None:
    one = wanting(running(), cpu="100")
    assert (step(one).wait, reasons(step(one))) == (None, ["ResizeInfeasible"])
    one = after(one)
    assert conditions(one) == {PENDING: (INFEASIBLE, 2)}
    [condition] = [each for each in one.status.conditions if each.type == PENDING]
    assert condition.message == "Node didn't have enough capacity: cpu, requested: 100000, capacity: 4000"
    assert cpu(one) == ("1", "1")
    assert step(one, 60) == Step(), "it is told once"


def test_what_others_have_now_is_deferred_and_tried_again() -> None:
    one = wanting(running(), memory="6Gi")
    full = surroundings(pod("other", meta={"uid": "o"}, memory="4Gi"))
    one = after(one, around=full)
    assert conditions(one) == {PENDING: (DEFERRED, 2)}
    [condition] = [each for each in one.status.conditions if each.type == PENDING]
    assert condition.message == (
        f"Node didn't have enough resource: memory, requested: {6 * GIB}, used: {4 * GIB}, capacity: {8 * GIB}"
    )
    assert step(one, 60.0, around=full) == Step(), "nothing is written while nothing changes"
    assert conditions(after(one, 60.0)) == {IN_PROGRESS: ("", 2)}


def test_taking_it_back_ends_a_pending_resize() -> None:
    one = after(wanting(running(), cpu="100"))
    assert conditions(after(wanting(one, 3, cpu="1"))) == {}


@pytest.mark.parametrize(
    ("requests", "restarts"),
    [
        pytest.param({"memory": "2Gi"}, 1, id="the resource that demands it changes"),
        pytest.param({"cpu": "2"}, 0, id="another one changes"),
    ],
)
def test_a_container_restarts_only_if_its_policy_says_so(requests: dict[str, Any], restarts: int) -> None:
    one = running(resize_policy=RESTART, resources=core_v1.ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"}))
    one = after(wanting(one, **requests))
    told = [each.message for each in step(one, 5.0).told if each.reason == "Killing"]
    assert told == ["Container main resize requires restart"] * restarts
    [status] = after(one, 5.0).status.container_statuses
    assert status.restart_count == restarts
    assert (status.last_state.terminated is not None) is bool(restarts)


def test_a_pod_takes_what_is_promised_not_what_it_asks_for() -> None:
    one = after(wanting(running(), cpu="100"))
    assert allocated(one).spec.containers[0].resources.requests["cpu"] == "1"
    others = (one, pod("new", cpu="250m", meta={"uid": "n"}), pod("over", cpu="1", status=ended(), meta={"uid": "e"}))
    used = account_of(others).used
    assert (used["cpu"], used["memory"], used["pods"]) == (1250, GIB, 2)


def ended() -> core_v1.PodStatus:
    return core_v1.PodStatus(phase="Succeeded")
