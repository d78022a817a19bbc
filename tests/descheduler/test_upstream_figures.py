"""Clusters of upstream's own tests, with the numbers of evictions that those expect.

Nodes have 4 cpus, 3000 bytes and 10 pods unless a case says otherwise; pods request 400m unless it says otherwise.
"""
# ruff: noqa: E501 - one case, one line

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.testing.builders import node, taint, toleration
from tests.descheduler.scenario import evicted, owners, pod, policy

GPU = "example.com/foo"


def machine(
    name: str, *, cpu: int = 4000, memory: int = 3000, pods: int = 10, gpus: int = 0, **more: Any
) -> core_v1.Node:
    made = node(name, cpu=f"{cpu}m", memory=str(memory), pods=str(pods), **more)
    if gpus:
        made.status.allocatable[GPU] = made.status.capacity[GPU] = str(gpus)
    return made


def asks(name: str, where: str, cpu: int = 400, memory: int = 0, gpus: int = 0, **more: Any) -> core_v1.Pod:
    given = {"cpu": f"{cpu}m" if cpu else "", "memory": str(memory) if memory else "", GPU: str(gpus) if gpus else ""}
    requests: dict[str, Any] = {key: value for key, value in given.items() if value}
    resources = core_v1.ResourceRequirements(requests=requests)
    return pod(name, where, containers=(core_v1.Container(name="main", image="app:1", resources=resources),), **more)


LOCAL = (core_v1.Volume(name="data", empty_dir=core_v1.EmptyDirVolumeSource()),)


def protected(where: str = "n1", **request: Any) -> list[core_v1.Pod]:
    """A daemon, a mirror pod with local storage, and a critical pod."""
    mirror = {"annotations": {"kubernetes.io/config.mirror": "test"}}
    return [
        asks("p6", where, kind="DaemonSet", **request),
        asks("p7", where, kind="Pod", meta=mirror, volumes=LOCAL, **request),
        asks("p8", where, kind="Pod", namespace="kube-system", priority=2_000_000_000, **request),
    ]


def five(**request: Any) -> list[core_v1.Pod]:
    return [asks(f"p{number}", "n1", **request) for number in range(1, 6)]


TRIO = [machine("n1", pods=9), machine("n2"), machine("n3", unschedulable=True)]
USUAL = [*five(), *protected(), asks("p9", "n2")]
CPU = {"thresholds": {"cpu": 30, "pods": 30}, "targetThresholds": {"cpu": 50, "pods": 50}}
DEVIATION = {
    "thresholds": {"cpu": 5, "pods": 5},
    "targetThresholds": {"cpu": 5, "pods": 5},
    "useDeviationThresholds": True,
}
GPUS = {"thresholds": {"pods": 30, GPU: 30}, "targetThresholds": {"pods": 50, GPU: 50}}
MIXED = [asks(name, "n1", 0 if name != "p3" else 400) for name in ("p1", "p2", "p3", "p4", "p5")]


@pytest.mark.parametrize(
    ("case", "arguments", "cluster", "pods", "evictor", "expected"),
    [
        ("no evictable pods", CPU, TRIO, [*(asks(f"d{n}", "n1", kind="DaemonSet") for n in range(5)), *protected(), asks("p9", "n2")], {}, 0),
        ("without priorities", CPU, TRIO, USUAL, {}, 4),
        ("excluded namespaces", {**CPU, "evictableNamespaces": {"exclude": ["default"]}}, TRIO, USUAL, {}, 0),
        ("best-effort pods first", CPU, TRIO, [*MIXED, *protected(), asks("p9", "n2")], {}, 4),
        ("with extended resource", GPUS, [machine("n1", pods=9, gpus=8), machine("n2", gpus=8), machine("n3", unschedulable=True)], [*five(cpu=0, gpus=1), asks("p6", "n1", 0, gpus=1, kind="Pod"), *protected(cpu=0, gpus=1)[1:], asks("p9", "n2", 0, gpus=1)], {}, 3),
        ("extended resource in some nodes", GPUS, [machine("n1", pods=9, gpus=8), machine("n2"), machine("n3", unschedulable=True)], [asks("p1", "n1", 0, gpus=1), asks("p9", "n2", 0)], {}, 0),
        (
            "extended resource with deviation",
            {"thresholds": {"pods": 5, GPU: 10}, "targetThresholds": {"pods": 5, GPU: 10}, "useDeviationThresholds": True},
            [machine("n1", gpus=8), machine("n2", gpus=8), machine("n3", unschedulable=True)],
            [asks("p1", "n1", 0, gpus=1), asks("p2", "n2", 0, gpus=7), asks("p3", "n2", 0), asks("p8", "n3", 0), asks("p9", "n3", 0)],
            {},
            1,
        ),
        ("only other node is unschedulable", CPU, [machine("n1", pods=9), machine("n2", unschedulable=True)], USUAL[:-1], {"nodeFit": True}, 0),
        ("deviation thresholds", DEVIATION, TRIO, USUAL, {}, 2),
        ("deviation thresholds and no memory left", DEVIATION, [machine("n1"), machine("n2"), machine("n3", unschedulable=True)], [*five(memory=375), *protected(memory=375), asks("p9", "n2", memory=3000)], {}, 0),
        ("eviction limit of a node", {**CPU, "evictionLimits": {"node": 2}}, TRIO, USUAL, {}, 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_low_node_utilization(
    case: str,
    arguments: dict[str, Any],
    cluster: list[core_v1.Node],
    pods: list[core_v1.Pod],
    evictor: dict[str, Any],
    expected: int,
) -> None:
    names = evicted(policy("LowNodeUtilization", arguments, evictor), cluster, pods)
    assert len(names) == expected, case
    if case == "best-effort pods first":
        assert sorted(names) == ["p1", "p2", "p4", "p5"]


def on(where: str, *names: str, **more: Any) -> list[core_v1.Pod]:
    return [asks(name, where, **more) for name in names]


THREE = [machine("n1"), machine("n2"), machine("n3", unschedulable=True)]
SELECTED = {"node_selector": {"datacenter": "west"}}


@pytest.mark.parametrize(
    ("case", "thresholds", "cluster", "pods", "expected"),
    [
        ("no node below", {"cpu": 20, "pods": 20}, [machine("n1"), machine("n2"), machine("n3")], [*on("n1", "p1", "p2", "p3"), *on("n2", "p4", "p5", "p6"), *on("n3", "p7", "p8", "p9")], []),
        ("no node to schedule on", {"cpu": 20, "pods": 20}, THREE, [*on("n1", "p1"), *on("n2", "p2"), *on("n3", "p3", "p4", "p5")], []),
        ("without priorities", {"cpu": 30, "pods": 30}, THREE, [*on("n1", "p1"), *protected("n1")[2:], *on("n2", "p3", "p4", "p5", "p6"), *on("n3", "q7")], ["p1", "q7"]),
        ("until capacity is depleted", {"cpu": 30, "pods": 30}, [machine("n1", cpu=2000), machine("n2", cpu=2000), machine("n3", cpu=2000, unschedulable=True)], [*on("n1", "p1"), *on("n2", "p2", "p3", "p4", "p5"), *on("n3", "p6")], ["p1"]),
        ("with priorities", {"cpu": 30}, [machine("n1"), machine("n2", cpu=2000), machine("n3", cpu=2000, unschedulable=True)], [*on("n1", "p1", priority=0), *on("n1", "p2", priority=10_000), *on("n2", "p5", "p6", "p7", "p8"), *on("n3", "p9", kind="DaemonSet")], ["p1"]),
        ("best-effort pods first", {"cpu": 30}, [machine("n1", cpu=3000), machine("n2", cpu=3000, pods=5), machine("n3", cpu=3000, unschedulable=True)], [*on("n1", "p1", cpu=0), *on("n1", "p2"), *on("n2", "p3", "p4", "p5", "p6")], ["p1"]),
        ("with extended resource", {"cpu": 20, GPU: 40}, [machine("n1", gpus=8), machine("n2", gpus=8), machine("n3", unschedulable=True)], [*on("n1", "p1", "p2", cpu=100, gpus=1), *on("n2", "p3", "p4", "p5", "p6", cpu=500, gpus=1)], ["p1", "p2"]),
        ("extended resource in some nodes", {"cpu": 40, GPU: 40}, [machine("n1", gpus=8), machine("n2"), machine("n3", unschedulable=True)], [*on("n1", "p1", "p2", cpu=100, gpus=1), *on("n2", "p3", "p4", "p5", "p6", cpu=500)], []),
        ("other node does not match the selector", {"cpu": 30, "pods": 30}, [machine("n1", pods=9), machine("n2")], [*on("n1", "p1", "p2", "p3"), *on("n1", "p4", kind="DaemonSet"), *on("n2", "p5", **SELECTED)], []),
        ("other node matches the selector", {"cpu": 30, "pods": 30}, [machine("n1", pods=9, meta={"labels": {"datacenter": "west"}}), machine("n2")], [*on("n1", "p1", "p2", "p3"), *on("n1", "p4", kind="DaemonSet"), *on("n2", "p5", **SELECTED)], ["p5"]),
        ("other node lacks memory", {"cpu": 30, "pods": 30}, [machine("n1", memory=200, pods=9), machine("n2")], [*on("n1", "p1", "p2", "p3", memory=50), *on("n1", "p4", memory=50, kind="DaemonSet"), *on("n2", "p5", memory=100)], []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_high_node_utilization(
    case: str, thresholds: dict[str, int], cluster: list[core_v1.Node], pods: list[core_v1.Pod], expected: list[str]
) -> None:
    wanted = policy("HighNodeUtilization", {"thresholds": thresholds}, {"nodeFit": True})
    found = evicted(wanted, cluster, pods)
    assert len(found) == len(expected), case
    if case != "until capacity is depleted":
        assert sorted(found) == expected, case


WORKERS = [machine("n1"), machine("n2"), machine("n3")]
MASTERS = [machine(f"m{number}", taints=[taint("control-plane", "NoSchedule")]) for number in range(3)]


def spread(counts: tuple[int, ...], prefix: str = "p", **more: Any) -> list[core_v1.Pod]:
    return [
        pod(f"{prefix}{place}{n}", f"n{place}", **more) for place, count in enumerate(counts, 1) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("case", "cluster", "pods", "expected"),
    [
        ("uniformly", WORKERS, spread((5, 3, 1)), 2),
        ("uniformly with one node left out", WORKERS[:2], spread((5, 3, 1)), 1),
        ("pods of two owners are evicted once, which upstream counts twice", WORKERS, spread((5, 3, 1), meta={"owners": (*owners("x"), *owners("y"))}), 2),
        ("uniformly with two owners", WORKERS, [*spread((5, 3, 1)), *spread((1, 3, 5), "q", owner="other")], 4),
        ("fewer pods than nodes", WORKERS, spread((2,)), 1),
        ("a single pod", WORKERS, spread((1,)), 0),
        ("respecting taints", [*WORKERS, *MASTERS], spread((5, 3, 1), tolerations=(toleration("k1", value="v1", effect="NoSchedule"),)), 2),
        ("no node of the selector", WORKERS, spread((5, 3, 1), node_selector={"worker": "k1"}), 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_duplicates(case: str, cluster: list[core_v1.Node], pods: list[core_v1.Pod], expected: int) -> None:
    assert len(evicted(policy("RemoveDuplicates"), cluster, pods)) == expected, case
