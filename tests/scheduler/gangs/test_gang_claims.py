"""Pods of a gang that share a resource claim which nobody has allocated yet."""

from __future__ import annotations

from typing import Any

from bayplan.scheduler.library import Planner, place, typed
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from tests.scheduler.devices import attempt, claim, cluster, device, device_class, slice_of, user
from tests.scheduler.gangs.test_gangs import group, member, messages, outcomes, places
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.test_core import Setup


def sharing(name: str, of: str, claim_name: str = "c", **fields: Any) -> Tree:
    return member(name, of, resourceClaims=[{"name": "r", "resourceClaimName": claim_name}], **fields)


def everywhere(*devices: Tree) -> Tree:
    """Devices that all nodes can reach."""
    return slice_of("net", *devices, allNodes=True)


def gang_and(*trees: Tree, size: int = 2, nodes: str = "ab", cpu: str = "1") -> Setup:
    """A gang whose pods share the claim `c`; each needs a node of its own if its cpu is that of a node."""
    setup = cluster(*trees, claim("c"), group("g", size), nodes="")
    for name in nodes:
        setup.see("Node", node(name, cpu="1"))
    for index in range(size):
        setup.see("Pod", sharing(f"g{index}", "g", cpu=cpu))
    return setup


def test_the_first_is_given_devices_and_the_others_follow_to_where_they_are() -> None:
    setup = gang_and(slice_of("b", device("gpu-0")), size=3, cpu="200m")
    found = outcomes(setup)
    assert places(found) == {"g0": "b", "g1": "b", "g2": "b"}
    pending = setup.core.snapshot.catalog.pending_allocations
    assert list(pending) == ["uid-c"]
    assert pending.user_count(pending["uid-c"]) == 3


def test_devices_that_all_nodes_reach_do_not_keep_a_gang_together() -> None:
    setup = gang_and(everywhere(device("gpu-0")))
    assert sorted(str(name) for name in places(outcomes(setup)).values()) == ["a", "b"]


def test_a_gang_that_does_not_fit_where_its_devices_are_gives_all_back() -> None:
    setup = gang_and(slice_of("b", device("gpu-0")))
    found = outcomes(setup)
    assert set(places(found).values()) == {None}
    assert setup.core.snapshot.catalog.pending_allocations == {}
    assert len(setup.core.snapshot.pods) == 0
    assert all(item.decision.post_filter is None or not item.decision.post_filter.deallocates for item in found)
    setup.see("ResourceClaim", claim("d"))
    setup.see("Pod", user("p", "d"))
    assert attempt(setup).decision.node == "b"


def test_members_that_fail_to_be_bound_give_up_the_devices_only_with_the_last_of_them() -> None:
    setup = gang_and(everywhere(device("gpu-0")))
    first, second = outcomes(setup)
    assert first.binding_cycle is not None
    assert second.binding_cycle is not None
    first.binding_cycle.undo()
    assert list(setup.core.snapshot.catalog.pending_allocations) == ["uid-c"]
    second.binding_cycle.undo()
    assert setup.core.snapshot.catalog.pending_allocations == {}


def test_who_comes_after_the_gang_waits_until_the_allocation_is_written() -> None:
    setup = gang_and(everywhere(device("gpu-0")), nodes="abcd")
    outcomes(setup)
    setup.see("Pod", user("p", "c"))
    setup.see("Pod", sharing("late", "g", cpu="1"))
    found = messages(outcomes(setup))
    for name in ("p", "late"):
        assert "resource claim default/c is in the process of being allocated" in found[name]


def test_a_gang_waits_for_a_claim_that_is_being_allocated_for_somebody_else() -> None:
    setup = cluster(everywhere(device("gpu-0")), claim("c"), group("g", 2), user("p", "c"))
    attempt(setup)
    for index in range(2):
        setup.see("Pod", sharing(f"g{index}", "g"))
    found = messages(outcomes(setup))
    assert "resource claim default/c is in the process of being allocated" in found["g0"]


def test_any_number_of_pods_may_join_since_the_limit_of_users_is_the_business_of_the_api() -> None:
    setup = cluster(everywhere(device("gpu-0")), claim("c"), group("g", 257), nodes="")
    setup.see("Node", node("a", cpu="64", pods="1000"))
    for index in range(257):
        setup.see("Pod", sharing(f"g{index}", "g"))
    found = outcomes(setup)
    assert set(places(found).values()) == {"a"}
    pending = setup.core.snapshot.catalog.pending_allocations
    assert pending.user_count(pending["uid-c"]) == 257


def objects(*slices: Tree) -> list[Tree]:
    return [node("a", cpu="1"), node("b", cpu="1"), group("g", 2), device_class(), *slices, claim("c"), claim("d")]


def test_a_placed_gang_uses_one_claim_together() -> None:
    queue = [sharing("g0", "g", cpu="1"), sharing("g1", "g", cpu="1"), user("p", "d")]
    run = place(objects(everywhere(device("gpu-0"))), queue)
    assert [item.decision.node for item in run.attempts] == ["a", "b", None]
    assert "cannot allocate all claims" in run.attempts[2].decision.message


def test_in_a_planner_all_pods_of_a_gang_become_users_and_are_taken_back_one_by_one() -> None:
    planner = Planner(objects(everywhere(device("gpu-0"))))
    pods = [typed("Pod", sharing(name, "g", cpu="1")) for name in ("g0", "g1")]
    for one in pods:
        planner.add("Pod", one)
    members, _ = planner.decide_gang([QueuedPod(planner.pod(one), (), 0.0) for one in pods])
    binding_cycles = [member.binding_cycle for member in members if member.binding_cycle is not None]
    for binding_cycle in binding_cycles:
        binding_cycle.conclude()

    def users() -> list[str]:
        return [user.name for user in planner.snapshot.catalog.resource_claims["default/c"].status.reserved_for]

    assert users() == ["g0", "g1"]
    assert planner.snapshot.catalog.pending_allocations == {}
    binding_cycles[1].undo()
    assert users() == ["g0"]
    binding_cycles[0].undo()
    assert planner.snapshot.catalog.resource_claims["default/c"].status.allocation is None


def test_a_gang_that_is_not_placed_leaves_the_devices_to_others() -> None:
    queue = [sharing("g0", "g", cpu="1"), sharing("g1", "g", cpu="1"), user("p", "d")]
    run = place(objects(slice_of("b", device("gpu-0"))), queue)
    assert [item.decision.node for item in run.attempts] == [None, None, "b"]


def test_a_gang_of_objects_that_no_server_has_seen_shares_its_claim_and_no_other() -> None:
    trees = [*objects(slice_of("a", device("gpu-0"), device("gpu-1")))]
    queue = [sharing("g0", "g", cpu="300m"), sharing("g1", "g", cpu="300m"), user("p", "c", "d"), pod("q")]
    for tree in (*trees, *queue):
        tree["metadata"].pop("uid", None)
    run = place(trees, queue)
    assert [item.decision.node for item in run.attempts][:3] == ["a", "a", "a"]
