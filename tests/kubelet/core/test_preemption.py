"""Which pods make room for a critical one: the cases of Kubernetes' own tests (pkg/kubelet/preemption/preemption_test.go)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.core.admission import CRITICAL_PRIORITY, Rejection, Requests
from bayplan.kubelet.core.preemption import NoRoomError, make_room, victims

MI = 1 << 20


def pod(name: str, size: int = 0, *, limited: bool = False, priority: int | None = None) -> core_v1.Pod:
    """A pod that requests so many millicores and mebibytes."""
    amounts: dict[str, str | int | float] = {"cpu": f"{size}m", "memory": f"{size}Mi"} if size else {}
    resources = core_v1.ResourceRequirements(requests=amounts, limits=amounts if limited else {})
    spec = core_v1.PodSpec(containers=(core_v1.Container(name="c", resources=resources),), priority=priority)
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, uid=name), spec=spec)


CLUSTER = pod("cluster", 100, priority=CRITICAL_PRIORITY)
NODE = pod("node", 100, priority=CRITICAL_PRIORITY + 100)
BEST_EFFORT, BURSTABLE, LARGE_BURSTABLE = pod("best-effort"), pod("burstable", 100), pod("large-burstable", 300)
GUARANTEED, LARGE_GUARANTEED = pod("guaranteed", 100, limited=True), pod("large-guaranteed", 300, limited=True)
ALL = [BEST_EFFORT, BURSTABLE, LARGE_BURSTABLE, GUARANTEED, LARGE_GUARANTEED]


def missing(cpu: int, memory: int, pods: int = 0) -> dict[str, int]:
    found = {"cpu": cpu, "memory": memory * MI, "pods": pods}
    return {resource: amount for resource, amount in found.items() if amount}


@pytest.mark.parametrize(
    ("critical", "others", "shortages", "wanted"),
    [
        pytest.param(CLUSTER, [], missing(0, 0), [], id="nothing is missing"),
        pytest.param(CLUSTER, [BURSTABLE], missing(100, 100, 1), ["burstable"], id="one has just enough"),
        pytest.param(
            CLUSTER, [BURSTABLE, BEST_EFFORT], missing(0, 0, 1), ["best-effort"], id="BestEffort before Burstable"
        ),
        pytest.param(
            CLUSTER, [BURSTABLE, GUARANTEED], missing(0, 0, 1), ["burstable"], id="Burstable before Guaranteed"
        ),
        pytest.param(
            CLUSTER, [BEST_EFFORT, LARGE_BURSTABLE, BURSTABLE], missing(100, 100), ["burstable"], id="the smaller one"
        ),
        pytest.param(
            CLUSTER,
            [BEST_EFFORT, BURSTABLE, LARGE_BURSTABLE],
            missing(150, 150),
            ["large-burstable"],
            id="the one that suffices",
        ),
        pytest.param(CLUSTER, ALL, missing(350, 350), ["burstable", "large-burstable"], id="several"),
        pytest.param(
            CLUSTER, ALL, missing(0, 550), ["large-burstable", "large-guaranteed"], id="Guaranteed where it must be"
        ),
        pytest.param(NODE, [CLUSTER], missing(100, 0), ["cluster"], id="a critical one of lower priority"),
    ],
)
def test_few_pods_of_low_classes_end(
    critical: core_v1.Pod, others: list[core_v1.Pod], shortages: dict[str, int], wanted: list[str]
) -> None:
    assert sorted(each.metadata.name for each in victims(critical, others, shortages, Requests())) == wanted


@pytest.mark.parametrize(
    ("others", "shortages", "text"),
    [
        ([], missing(0, 0, 1), "[(res: pods, q: 1), ]"),
        ([BURSTABLE], missing(200, 200, 2), "[(res: cpu, q: 100), (res: memory, q: 104857600), (res: pods, q: 1), ]"),
        ([NODE], missing(100, 0), "[(res: cpu, q: 100), ]"),
    ],
    ids=["no pods", "too few", "of higher priority"],
)
def test_what_cannot_be_freed_is_said(others: list[core_v1.Pod], shortages: dict[str, int], text: str) -> None:
    with pytest.raises(NoRoomError) as caught:
        victims(CLUSTER, others, shortages, Requests())
    assert str(caught.value) == f"no set of running pods found to reclaim resources: {text}"


CPU = Rejection("OutOfcpu", "Node didn't have enough resource: cpu", "cpu", 100)
PORTS = Rejection("NodePorts", "Predicate NodePorts failed")


def test_room_is_made_for_critical_pods_only_and_only_where_that_helps() -> None:
    requests = Requests()
    assert make_room(GUARANTEED, [BURSTABLE], [CPU], requests) == ([CPU], [])
    assert make_room(CLUSTER, [BURSTABLE], [CPU, PORTS], requests) == ([PORTS], [])
    assert make_room(CLUSTER, [BURSTABLE], [CPU], requests) == ([], [BURSTABLE])
    (found,), ending = make_room(CLUSTER, [BEST_EFFORT], [CPU], requests)
    assert (found.reason, ending) == ("UnexpectedAdmissionError", [])
    assert found.message == (
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods "
        "to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 100), ]"
    )


@given(
    st.lists(st.tuples(st.integers(0, 500), st.booleans(), st.booleans()), max_size=12),
    st.integers(0, 1500),
    st.integers(0, 1500),
)
def test_the_chosen_suffice_and_are_none_too_many(sizes: list[tuple[int, bool, bool]], cpu: int, memory: int) -> None:
    others: list[Any] = [
        pod(f"p{index}", size, limited=limited, priority=CRITICAL_PRIORITY if critical else 0)
        for index, (size, limited, critical) in enumerate(sizes)
    ]
    normal = sum(size for size, _, critical in sizes if not critical)
    shortages = missing(cpu, memory)
    if max(cpu, memory) > normal:
        with pytest.raises(NoRoomError):
            victims(CLUSTER, others, shortages, Requests())
        return
    chosen = [sizes[int(each.metadata.name[1:])] for each in victims(CLUSTER, others, shortages, Requests())]
    assert not any(critical for _, _, critical in chosen)
    freed = [size for size, _, _ in chosen]
    assert sum(freed) >= max(cpu, memory)
    assert not chosen or max(cpu, memory) > 0
