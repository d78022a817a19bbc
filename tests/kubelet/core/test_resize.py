"""What a resize changes, in which order, and whether a node has room for it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.core.admission import NodeAccount, NodeOffer, Requests
from bayplan.kubelet.core.resize import (
    Allocation,
    Change,
    ResizePlan,
    allocation_of,
    decreasing_memory,
    is_in_progress,
    plan_container,
    plan_pod,
    resources_between,
    with_allocation,
)
from bayplan.kubelet.core.resize_requests import Refusal, raises_requests, refusal, resize_text


def resources(cpu: str = "", memory: str = "", **requests: str) -> core_v1.ResourceRequirements:
    limits = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return core_v1.ResourceRequirements(limits=dict(limits), requests={**limits, **requests})


def container(name: str, wanted: core_v1.ResourceRequirements, *restarts: str) -> core_v1.Container:
    policy = tuple(
        core_v1.ContainerResizePolicy(resource_name=each, restart_policy="RestartContainer") for each in restarts
    )
    return core_v1.Container(name=name, image="i", resources=wanted, resize_policy=policy)


def pod(*containers: core_v1.Container, uid: str = "1", **spec: Any) -> core_v1.Pod:
    metadata = meta_v1.ObjectMeta(name=f"p{uid}", uid=uid, generation=2)
    return core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=containers, **spec))


def plan_of(one: core_v1.Pod, actuated: Allocation) -> tuple[ResizePlan, list[Change]]:
    plan = ResizePlan()
    changes = [plan_container(plan, one, each, f"id-{each.name}", actuated) for each in one.spec.containers]
    plan_pod(plan, one, actuated)
    return plan, changes


def account_of(*others: core_v1.Pod) -> NodeAccount:
    account = NodeAccount(Requests())
    for other in others:
        account.add(other)
    return account


class TestPlan:
    def test_equal_amounts_in_another_spelling_change_nothing(self) -> None:
        one = pod(container("c", resources("1", "1Gi")))
        plan, changes = plan_of(one, Allocation({"c": resources("1000m", "1024Mi")}))
        assert changes == [Change.NONE]
        assert not plan.changes_anything

    def test_decreases_come_before_increases(self) -> None:
        one = pod(container("up", resources("2", "2Gi")), container("down", resources("1", "1Gi")))
        plan, changes = plan_of(one, Allocation({"up": resources("1", "1Gi"), "down": resources("2", "2Gi")}))
        assert changes == [Change.UPDATE, Change.UPDATE]
        for resource in ("cpu", "memory"):
            assert [each.container.name for each in plan.updates[resource]] == ["down", "up"]
        assert decreasing_memory(plan.updates["memory"]) == {"down": 1 << 30}

    @pytest.mark.parametrize(
        ("restarts", "wanted"), [(("memory",), Change.UPDATE), (("cpu",), Change.RESTART), ((), Change.UPDATE)]
    )
    def test_only_a_policy_of_the_changed_resource_restarts(self, restarts: tuple[str, ...], wanted: Change) -> None:
        one = pod(container("c", resources("2", "1Gi"), *restarts))
        plan, changes = plan_of(one, Allocation({"c": resources("1", "1Gi")}))
        assert changes == [wanted]
        assert plan.pod is (wanted is Change.RESTART)
        assert ("cpu" in plan.updates) is (wanted is Change.UPDATE)

    def test_a_container_without_a_record_is_updated_and_not_started_again(self) -> None:
        one = pod(container("c", resources("2", "1Gi"), "cpu", "memory"))
        assert plan_of(one, Allocation())[1] == [Change.UPDATE]

    def test_memory_changes_first_and_cpu_keeps_what_it_is_until_then(self) -> None:
        one = pod(container("c", resources("2", "2Gi", **{"ephemeral-storage": "1Gi"})))
        plan, _ = plan_of(one, Allocation({"c": resources("1", "1Gi")}))
        memory = resources_between(plan.updates["memory"][0], "memory")
        assert memory.limits == {"cpu": "1000m", "memory": str(2 << 30)}
        assert memory.requests == {"cpu": "1000m", "memory": str(2 << 30), "ephemeral-storage": "1Gi"}
        assert resources_between(plan.updates["cpu"][0], "cpu").limits == {"cpu": "2000m", "memory": str(2 << 30)}

    def test_the_limit_of_the_pod_holds_for_containers_without_one(self) -> None:
        one = pod(container("c", core_v1.ResourceRequirements()), resources=resources("2"))
        plan, changes = plan_of(one, Allocation({"c": core_v1.ResourceRequirements()}, resources("1")))
        assert changes == [Change.UPDATE]
        assert plan.pod


class TestAllocation:
    def test_a_pod_is_seen_with_what_is_allocated_to_it(self) -> None:
        one = pod(container("a", resources("2")), container("b", resources("1")))
        allocated = with_allocation(one, Allocation({"a": resources("1"), "b": resources("1000m")}))
        assert [each.resources.limits["cpu"] for each in allocated.spec.containers] == ["1", "1"]
        assert with_allocation(one, allocation_of(one)) is one
        assert raises_requests(one, allocated)
        assert not raises_requests(allocated, one)

    def test_a_resize_is_in_progress_only_while_a_running_container_differs(self) -> None:
        one = pod(container("a", resources("2")))
        actuated = Allocation({"a": resources("1")})
        assert is_in_progress(one, ["a"], actuated)
        assert not is_in_progress(one, [], actuated)
        assert not is_in_progress(one, ["a"], allocation_of(one))


class TestRefusal:
    offer = NodeOffer(core_v1.Node(status=core_v1.NodeStatus(allocatable={"cpu": "2", "memory": "4Gi", "pods": "10"})))

    def test_what_fits_is_granted(self) -> None:
        other = pod(container("c", resources("1")), uid="2")
        assert refusal(pod(container("c", resources("1"))), account_of(other), self.offer) is None

    def test_more_than_the_node_has_is_infeasible(self) -> None:
        text = "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"
        assert refusal(pod(container("c", resources("3"))), account_of(), self.offer) == Refusal("Infeasible", text)

    def test_more_than_is_left_is_deferred(self) -> None:
        other = pod(container("c", resources("1")), uid="2")
        text = "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"
        assert refusal(pod(container("c", resources("1500m"))), account_of(other), self.offer) == Refusal(
            "Deferred", text
        )


def test_events_say_what_is_asked_for() -> None:
    text = resize_text("Pod resize error", pod(container("c", resources("1"))), 2, "no")
    assert text == (
        'Pod resize error: {"containers":[{"name":"c","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}],'
        '"generation":2,"error":"no"}'
    )
