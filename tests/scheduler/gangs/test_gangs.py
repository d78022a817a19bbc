"""Gangs: all or nothing, without holding room for those that do not come."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.core import Outcome
from bayplan.scheduler.library import place, typed
from tests.scheduler.devices import claim, device, device_class, slice_of
from tests.scheduler.objects import Tree, apart, node, pod, taint
from tests.scheduler.test_core import Setup


def group(name: str, count: int) -> Tree:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": count}} if count else {"basic": {}}},
    }


def member(name: str, of: str, **fields: Any) -> Tree:
    return pod(name, schedulingGroup={"podGroupName": of}, **fields)


def outcomes(setup: Setup) -> list[Outcome]:
    """Attempts until the queue has nothing more to try now."""
    found = []
    while (outcome := setup.core.schedule_one()) is not None:
        found.append(outcome)
    return found


def messages(found: list[Outcome]) -> dict[str, str]:
    return {item.decision.pod.removeprefix("default/"): item.decision.message for item in found}


def places(found: list[Outcome]) -> dict[str, str | None]:
    return {item.decision.pod.removeprefix("default/"): item.decision.node for item in found}


def gang_of(setup: Setup, name: str, size: int, *, need: int | None = None, **fields: Any) -> list[Pod]:
    setup.see("PodGroup", group(name, need if need is not None else size))
    return [setup.see("Pod", member(f"{name}{index}", name, **fields)) for index in range(size)]


def test_pods_of_a_gang_stay_out_until_there_are_enough() -> None:
    setup = Setup()
    setup.see("Node", node("a"))
    setup.see("Pod", member("g0", "g"))
    queued = setup.core.queue.get("default/g0")
    assert queued is not None
    decision = setup.core.explain(queued.pod.pod)
    assert decision.gate is not None
    assert decision.gate[1].reasons == ('waiting for pods\'s pod group "g" to appear in scheduling queue',)
    setup.see("PodGroup", group("g", 2))
    decision = setup.core.explain(queued.pod.pod)
    assert decision.gate is not None
    assert decision.gate[1].reasons == ("waiting for minCount pods from a gang to appear in scheduling queue",)
    assert setup.core.queue.sizes()["gated"] == 1
    setup.see("Pod", member("g1", "g"))
    assert places(outcomes(setup)) == {"g0": "a", "g1": "a"}


def test_a_gang_is_placed_as_a_whole() -> None:
    setup = Setup()
    for name in "ab":
        setup.see("Node", node(name, cpu="1"))
    gang_of(setup, "g", 2, cpu="700m")
    found = outcomes(setup)
    assert sorted(str(node_name) for node_name in places(found).values()) == ["a", "b"]
    assert found[0].group is not None
    assert (found[0].group.key, found[0].group.scheduled) == ("default/g", True)
    assert all(item.binding_cycle is not None and not item.binding_cycle.has_work for item in found)


def test_a_gang_that_does_not_fit_holds_nothing() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    gang_of(setup, "g", 2, cpu="700m")
    found = outcomes(setup)
    assert places(found) == {"g0": None, "g1": None}
    assert messages(found)["g0"] == (
        "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to "
        "wait and no plugin rejected pod"
    )
    assert messages(found)["g1"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert found[0].group is not None
    result = found[0].group
    assert result.reason == "Unschedulable"
    assert result.message == "pod group is unschedulable; 1 of the 2 pods that are needed fit"
    assert setup.core.snapshot.requested[0, 0] == 0
    assert len(setup.core.waiting) == 0
    setup.see("Pod", pod("other", cpu="900m"))
    assert places(outcomes(setup)) == {"other": "a"}


def test_room_wakes_the_whole_gang() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    gang_of(setup, "g", 2, cpu="700m")
    outcomes(setup)
    assert setup.core.queue.sizes()["unschedulable"] == 2
    setup.see("Node", node("b", cpu="1"))
    setup.clock.seconds += 10
    assert sorted(str(name) for name in places(outcomes(setup)).values()) == ["a", "b"]


def test_two_gangs_that_both_want_all_do_not_block_each_other() -> None:
    setup = Setup()
    for name in "abcd":
        setup.see("Node", node(name, cpu="1"))
    setup.see("PodGroup", group("g", 3))
    setup.see("PodGroup", group("h", 3))
    for index in range(3):
        setup.see("Pod", member(f"g{index}", "g", cpu="700m"))
        setup.see("Pod", member(f"h{index}", "h", cpu="700m"))
    placed = {name for name, node_name in places(outcomes(setup)).items() if node_name}
    assert placed == {"g0", "g1", "g2"}


def test_more_than_the_minimum_may_fail() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    gang_of(setup, "g", 3, need=1, cpu="700m")
    found = places(outcomes(setup))
    assert [name for name, node_name in found.items() if node_name] == ["g0"]


def test_pods_that_run_already_count() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    setup.see("PodGroup", group("g", 2))
    setup.see("Pod", member("g0", "g", cpu="300m", on="a"))
    setup.see("Pod", member("g1", "g", cpu="300m"))
    assert places(outcomes(setup)) == {"g1": "a"}


def test_a_smaller_minimum_lets_a_gang_in() -> None:
    setup = Setup()
    setup.see("Node", node("a"))
    before = setup.see("PodGroup", group("g", 3))
    for index in range(2):
        setup.see("Pod", member(f"g{index}", "g"))
    assert outcomes(setup) == []
    setup.core.handle("PodGroup", before, typed("PodGroup", group("g", 2)))
    assert places(outcomes(setup)) == {"g0": "a", "g1": "a"}


def test_a_group_without_a_gang_policy_is_scheduled_pod_by_pod() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    gang_of(setup, "g", 2, need=0, cpu="700m")
    assert sorted(places(outcomes(setup)).items()) == [("g0", "a"), ("g1", None)]


def full(setup: Setup, *names: str) -> None:
    for name in names:
        setup.see("Node", node(name, cpu="1"))
        setup.see("Pod", pod(f"low-{name}", cpu="800m", on=name))


def test_a_gang_evicts_only_if_all_of_it_fits_then() -> None:
    setup = Setup()
    full(setup, "a", "b")
    gang_of(setup, "g", 2, cpu="700m", priority=10)
    found = outcomes(setup)
    assert sorted(item.decision.victims for item in found) == [("default/low-a",), ("default/low-b",)]
    assert {setup.core.nominator.node_of(f"default/g{index}") for index in range(2)} == {"a", "b"}
    assert sorted(setup.core.snapshot.pods) == ["default/low-a", "default/low-b"]
    assert found[0].group is not None
    assert found[0].group.message == "pod group is unschedulable, pod group is waiting for preemption to complete"


def test_a_gang_that_fits_nowhere_evicts_nobody() -> None:
    setup = Setup()
    full(setup, "a")
    gang_of(setup, "g", 2, cpu="700m", priority=10)
    found = outcomes(setup)
    assert [item.decision.victims for item in found] == [(), ()]
    assert sorted(setup.core.snapshot.pods) == ["default/low-a"]
    assert len(setup.core.nominator) == 0


def test_the_free_part_of_a_gang_waits_nominated_for_victims_of_the_rest() -> None:
    setup = Setup()
    full(setup, "a")
    setup.see("Node", node("b", cpu="1"))
    gang_of(setup, "g", 2, cpu="700m", priority=10)
    found = outcomes(setup)
    by_node = {item.decision.nomination: item.decision.message for item in found}
    assert sorted(str(name) for name in by_node) == ["a", "b"]
    assert by_node["b"] == "pod group is unschedulable, pod group is waiting for preemption to complete"
    assert setup.core.snapshot.requested[0, setup.core.snapshot.row_of["b"]] == 0


def test_a_gang_is_not_tried_again_while_room_is_made_for_one_of_its_pods() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    low = setup.see("Pod", pod("low-a", cpu="800m", on="a"))
    setup.see("Node", node("b", cpu="2"))
    gang_of(
        setup,
        "g",
        2,
        cpu="900m",
        priority=10,
        affinity=apart("kubernetes.io/hostname", {"gang": "g"}),
        labels={"gang": "g"},
    )
    (held,) = (item.decision.pod for item in outcomes(setup) if item.decision.victims)
    setup.see("Pod", member("late", "g", cpu="100m", priority=10))
    assert [item.decision.victims for item in outcomes(setup) if item.decision.victims] == []
    setup.gone("Pod", low)
    setup.core.queue.release(held)
    setup.clock.seconds += 10
    assert places(outcomes(setup)) == {held.removeprefix("default/"): "a"}


def test_pods_of_a_gang_see_one_another() -> None:
    setup = Setup()
    for name in "ab":
        setup.see("Node", node(name))
    affinity = apart("kubernetes.io/hostname", {"app": "g"})
    gang_of(setup, "g", 3, labels={"app": "g"}, affinity=affinity)
    assert set(places(outcomes(setup)).values()) == {None}
    setup.see("Node", node("c"))
    setup.clock.seconds += 10
    assert sorted(str(name) for name in places(outcomes(setup)).values()) == ["a", "b", "c"]


def test_the_claims_of_a_placed_gang_can_be_used_by_others() -> None:
    objects = [node("a"), group("g", 1), device_class(), slice_of("a", device("gpu-0")), claim("c")]
    wants = [{"name": "r", "resourceClaimName": "c"}]
    run = place(objects, [member("p", "g", resourceClaims=wants), pod("q", resourceClaims=wants)])
    assert [attempt.decision.node for attempt in run.attempts] == ["a", "a"]


def test_a_gang_that_asks_for_two_schedulers_is_an_error() -> None:
    setup = Setup({"profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}]})
    setup.see("Node", node("a"))
    setup.see("PodGroup", group("g", 2))
    for name in ("one", "two"):
        tree = member(name, "g")
        tree["spec"]["schedulerName"] = name
        setup.see("Pod", tree)
    found = setup.core.schedule_one()
    assert found is not None
    assert found.decision.message == (
        'all pods in a single pod group should have the same .spec.schedulerName set, got: "two" and "one"'
    )


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_gang_never_stays_half_placed_whatever_refuses_its_last_pod(effect: str) -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    setup.see("Node", node("b", cpu="1", taints=(taint("gone", effect),)))
    gang_of(setup, "g", 2, cpu="700m")
    assert set(places(outcomes(setup)).values()) == {None}
    assert len(setup.core.snapshot.pods) == 0


def placed(nodes: list[Tree], queue: list[Tree], *groups: Tree, pods: list[Tree] | None = None) -> list[Tree]:
    """What `place` does with a queue."""
    objects: dict[str, list[Tree]] = {"nodes": nodes, "pods": pods or [], "podgroups": list(groups)}
    return list(place(objects, queue).to_dict()["attempts"])


def test_placing_a_queue_keeps_gangs_together() -> None:
    nodes = [node("a", cpu="1"), node("b", cpu="1"), node("c", cpu="1")]
    queue = [member(f"{name}{index}", name, cpu="700m") for index in range(2) for name in "gh"]
    found = placed(nodes, queue, group("g", 2), group("h", 2))
    assert {item["pod"]: item.get("node") for item in found} == {
        "default/g0": "a",
        "default/g1": "b",
        "default/h0": None,
        "default/h1": None,
    }


def test_placing_an_incomplete_gang_places_nothing() -> None:
    (found,) = placed([node("a")], [member("g0", "g")], group("g", 2))
    assert found["gated"] == ["waiting for minCount pods from a gang to appear in scheduling queue"]


def test_placing_a_gang_that_preempts_tries_it_again_as_a_whole() -> None:
    nodes = [node("a", cpu="1"), node("b", cpu="1")]
    low = [pod("low", cpu="800m", on="a")]
    queue = [member(f"g{index}", "g", cpu="700m", priority=10) for index in range(2)]
    found = placed(nodes, queue, group("g", 2), pods=low)
    assert [item["attempt"] for item in found] == [1, 1, 2, 2]
    assert sorted(str(item.get("node")) for item in found[2:]) == ["a", "b"]


def test_a_pod_that_comes_is_looked_at_once_for_each_gang_that_waits() -> None:
    """Not once for each pod that waits: gangs of thousands of pods come one pod at a time."""
    setup = Setup()
    setup.see("Node", node("a", cpu="100", pods="300"))
    looks: list[str] = []
    setup.core.queue.waiting.hinted = lambda plugin, event, answer, seconds: looks.append(event)
    setup.see("PodGroup", group("other", 2))
    setup.see("Pod", member("other0", "other"))
    looks.clear()
    gang_of(setup, "g", 100)
    assert looks.count("UnscheduledPodAdd") <= 2 * 100
    assert len(outcomes(setup)) == 100
