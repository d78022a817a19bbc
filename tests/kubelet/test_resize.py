"""Resizing running pods in place: accepted, put off, refused, and with a restart where the policy asks for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.resize_requests import DEFERRED, IN_PROGRESS, INFEASIBLE, PENDING
from bayplan.kubelet.simulator.pods import next_step
from bayplan.kubelet.simulator.resize import (
    Resize,
    Room,
    advance,
    is_concerned,
    promised,
)
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, changed, container, pod

NOW = parse_rfc3339(CREATED)
GIB = 2**30
EMPTY = Room({"cpu": 4000, "memory": 8 * GIB}, {"cpu": 0, "memory": 0})
RESTART = (core_v1.ContainerResizePolicy(resource_name="memory", restart_policy="RestartContainer"),)


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
        status = next_step(one, NOW, SimulatorSettings(nodes=1), "172.18.0.1", "10.128.0.2", 0.1).status
        assert status is not None
        one = changed(one, status=status)
    return one


def wanting(one: core_v1.Pod, generation: int = 2, **requests: str) -> core_v1.Pod:
    """The pod after somebody asked for other resources."""
    [first] = one.spec.containers
    resources = msgspec.structs.replace(first.resources, requests={**first.resources.requests, **requests})
    spec = msgspec.structs.replace(one.spec, containers=(msgspec.structs.replace(first, resources=resources),))
    metadata = msgspec.structs.replace(one.metadata, generation=generation)
    return msgspec.structs.replace(one, spec=spec, metadata=metadata)


def step(one: core_v1.Pod, after: float = 0.0, room: Room = EMPTY) -> Resize:
    return advance(one, NOW + after, 2.0, lambda: room)


def conditions(status: core_v1.PodStatus) -> dict[str, tuple[str, int]]:
    return {
        one.type: (one.reason, one.observed_generation)
        for one in status.conditions
        if one.type in (PENDING, IN_PROGRESS)
    }


def test_a_pod_that_starts_has_what_it_asks_for() -> None:
    one = running()
    [status] = one.status.container_statuses
    assert status.resources == one.spec.containers[0].resources
    assert status.allocated_resources == {"cpu": "1", "memory": "1Gi"}
    assert not is_concerned(one)
    assert step(one).status is one.status


def test_an_accepted_resize_is_promised_at_once_and_done_a_moment_later() -> None:
    one = wanting(running(), cpu="2")
    assert is_concerned(one)
    first = step(one)
    [status] = first.status.container_statuses
    assert status.allocated_resources["cpu"] == "2"
    assert status.resources is not None
    assert status.resources.requests["cpu"] == "1"
    assert conditions(first.status) == {IN_PROGRESS: ("", 2)}
    assert first.wait == pytest.approx(2.0)
    one = changed(one, status=first.status)
    assert step(one, 1.0).wait == pytest.approx(1.0)
    done = step(one, 2.0)
    [status] = done.status.container_statuses
    assert status.resources is not None
    assert status.resources.requests["cpu"] == "2"
    assert (status.restart_count, conditions(done.status), done.wait) == (0, {}, None)


def test_what_the_node_never_has_is_infeasible() -> None:
    found = step(wanting(running(), cpu="100"))
    assert conditions(found.status) == {PENDING: (INFEASIBLE, 2)}
    [condition] = [one for one in found.status.conditions if one.type == PENDING]
    assert condition.message == "Node didn't have enough capacity: cpu, requested: 100000, capacity: 4000"
    assert found.wait is None
    assert found.status.container_statuses[0].allocated_resources["cpu"] == "1"


def test_what_others_have_now_is_deferred_and_tried_again() -> None:
    one = wanting(running(), memory="6Gi")
    full = Room(EMPTY.capacity, {"cpu": 0, "memory": 4 * GIB})
    found = step(one, room=full)
    assert conditions(found.status) == {PENDING: (DEFERRED, 2)}
    [condition] = [each for each in found.status.conditions if each.type == PENDING]
    assert condition.message == (
        f"Node didn't have enough resource: memory, requested: {6 * GIB}, used: {4 * GIB}, capacity: {8 * GIB}"
    )
    one = changed(one, status=found.status)
    assert step(one, 60.0, room=full).status is one.status, "nothing is written while nothing changes"
    assert conditions(step(one, 60.0).status) == {IN_PROGRESS: ("", 2)}


def test_taking_it_back_ends_a_pending_resize() -> None:
    one = wanting(running(), cpu="100")
    one = changed(one, status=step(one).status)
    assert conditions(step(wanting(one, 3, cpu="1")).status) == {}


@pytest.mark.parametrize(
    ("requests", "restarts"),
    [
        pytest.param({"memory": "2Gi"}, 1, id="the resource that demands it changes"),
        pytest.param({"cpu": "2"}, 0, id="another one changes"),
    ],
)
def test_a_container_restarts_only_if_its_policy_says_so(requests: dict[str, Any], restarts: int) -> None:
    one = wanting(running(resize_policy=RESTART), **requests)
    one = changed(one, status=step(one).status)
    [status] = step(one, 5.0).status.container_statuses
    assert status.restart_count == restarts
    assert (status.last_state.terminated is not None) is bool(restarts)


def test_a_pod_takes_what_is_promised_not_what_it_asks_for() -> None:
    one = wanting(running(), cpu="100")
    assert promised(one) == {"cpu": 1000, "memory": GIB}
    assert promised(pod("new", cpu="250m")) == {"cpu": 250, "memory": 0}
