"""How many more pods fit equals what placing them one after the other gives."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.library import typed
from bayplan.scheduler.planning.capacity import capacity_for, capacity_for_mix
from bayplan.testing.builders import container, node, pod, selector, taint
from tests.scheduler.devices import claim, device, device_class, slice_of, user


def placed_one_by_one(planner: Planner, asked: core_v1.Pod) -> tuple[dict[str, int], str]:
    found: dict[str, int] = {}
    while True:
        name = f"copy-{sum(found.values())}"
        decision = planner.schedule(replace(asked, metadata=replace(asked.metadata, name=name)))
        if decision.node is None:
            return dict(sorted(found.items())), decision.message
        found[decision.node] = found.get(decision.node, 0) + 1


def cluster(seed: int) -> list[object]:
    chance = random.Random(seed)
    nodes = [
        node(
            f"n{number}",
            cpu=str(chance.randint(1, 6)),
            memory=f"{chance.randint(1, 8)}Gi",
            pods=str(chance.randint(1, 9)),
            taints=(taint("only", "NoSchedule"),) if chance.random() < 0.2 else (),
            meta={"labels": {"kubernetes.io/hostname": f"n{number}", "zone": chance.choice("abc")}},
        )
        for number in range(6)
    ]
    pods = [
        pod(f"p{number}", cpu=f"{chance.randint(1, 9)}00m", memory="100Mi", node_name=f"n{chance.randint(0, 5)}")
        for number in range(8)
    ]
    return [*nodes, *pods]


def reasons(message: str) -> str:
    return message.partition(". ")[0].rstrip(".")


@pytest.mark.parametrize("seed", range(40))
def test_filling_all_nodes_at_once_equals_placing_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    amounts = {"cpu": f"{chance.randint(0, 9) * 50}m", "memory": f"{chance.randint(0, 5) * 100}Mi"}
    asked = pod("asked", containers=(container(**{k: v for k, v in amounts.items() if v[0] != "0"}),))
    room = capacity_for(Planner(cluster(seed)), asked)
    expected, message = placed_one_by_one(Planner(cluster(seed)), asked)
    assert room.per_node == expected
    assert not room.one_by_one
    assert reasons(room.message) == reasons(message)


@pytest.mark.parametrize("seed", range(20))
def test_pods_that_spread_are_placed_one_by_one(seed: int) -> None:
    constraint = core_v1.TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=selector({"app": "x"})
    )
    asked = pod("asked", cpu="300m", meta={"labels": {"app": "x"}}, topology_spread_constraints=(constraint,))
    room = capacity_for(Planner(cluster(seed)), asked)
    expected, _ = placed_one_by_one(Planner(cluster(seed)), asked)
    assert room.per_node == expected
    assert room.one_by_one


def test_the_planner_is_as_before_afterwards() -> None:
    planner = Planner(cluster(1))
    before = planner.snapshot.requested.copy()
    first = capacity_for(planner, pod("asked", cpu="100m"))
    assert (planner.snapshot.requested == before).all()
    assert capacity_for(planner, pod("asked", cpu="100m")) == first


def test_the_limits_name_the_nodes_and_why() -> None:
    nodes = [node("a", cpu="1"), node("b", cpu="1", taints=(taint("only", "NoSchedule"),))]
    room = capacity_for(Planner(nodes), pod("asked", cpu="600m"))
    assert room.total == 1
    assert [(one.reasons, one.nodes) for one in room.limits] == [
        (("Insufficient cpu",), ("a",)),
        (("node(s) had untolerated taint(s)",), ("b",)),
    ]


def test_a_host_port_is_taken_once_per_node() -> None:
    port = core_v1.ContainerPort(container_port=80, host_port=80)
    asked = pod("asked", containers=(container(ports=(port,)),))
    assert capacity_for(Planner([node("a"), node("b")]), asked).per_node == {"a": 1, "b": 1}


def test_no_more_than_wanted_are_placed() -> None:
    assert capacity_for(Planner([node("a"), node("b")]), pod("asked", cpu="100m"), most=5).total == 5


def test_a_mix_fits_in_whole_sets() -> None:
    answer = capacity_for_mix(Planner([node("a", cpu="4")]), [(pod("big", cpu="1"), 1), (pod("small", cpu="250m"), 2)])
    assert (answer.sets, answer.per_node, answer.stopped_by) == (2, {"a": 6}, "default/small")


def test_a_pending_pod_like_a_running_one_may_go_elsewhere() -> None:
    planner = Planner([node("a"), node("b"), pod("there", cpu="1", node_name="a")])
    assert planner.decide(pod("new", cpu="1")).node == "b"


def test_devices_that_were_only_tried_are_free_afterwards() -> None:
    planner = Planner([node("a"), device_class(), slice_of("a", device("gpu-0")), claim("c"), claim("d")])
    wanting = typed("Pod", user("p", "c"))
    assert capacity_for(planner, wanting).per_node == {"a": 110}  # they share the claim
    assert capacity_for_mix(planner, [(wanting, 1)]).sets == 110
    assert planner.decide(user("q", "d")).node == "a"


def test_pods_share_a_claim_that_the_first_of_them_gets_allocated() -> None:
    planner = Planner(
        [node("a"), node("b"), device_class(), slice_of("b", device("gpu-0"), device("gpu-1")), claim("shared")]
    )
    assert planner.schedule(user("p", "shared")).node == "b"
    assert planner.schedule(user("q", "shared")).node == "b"
    (shared,) = planner.snapshot.catalog.resource_claims.values()
    assert [one.name for one in shared.status.reserved_for] == ["p", "q"]
    assert not planner.snapshot.catalog.pending_allocations


def test_pods_that_share_a_claim_fill_its_node_and_leave_no_trace() -> None:
    planner = Planner([node("a", pods="3"), device_class(), slice_of("a", device("gpu-0")), claim("c"), claim("d")])
    assert capacity_for(planner, typed("Pod", user("p", "c"))).per_node == {"a": 3}
    claims = planner.snapshot.catalog.resource_claims.values()
    assert all(one.status.allocation is None and not one.status.reserved_for for one in claims)
    assert planner.decide(user("q", "d")).node == "a"


@pytest.mark.parametrize("uid", ["uid-of-{}", ""])
def test_devices_are_free_once_nobody_uses_their_claim(uid: str) -> None:
    planner = Planner([node("a"), device_class(), slice_of("a", device("gpu-0")), claim("c"), claim("d")])
    for name in ("p", "q"):
        asked = user(name, "c")
        asked["metadata"]["uid"] = uid.format(name)
        assert planner.schedule(asked).node == "a"
    planner.remove("default/p")
    assert planner.decide(user("other", "d")).node is None
    planner.remove("default/q")
    assert planner.schedule(user("other", "d")).node == "a"
