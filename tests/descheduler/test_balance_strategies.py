# ruff: noqa: E501 - one case, one line
"""Strategies that look at all pods together: duplicates, utilization, topology spread."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.quota.amounts import parsed
from bayplan.api.types import core_v1
from bayplan.descheduler.planner import StrategyEnd, decisions
from bayplan.descheduler.snapshot import Usage
from bayplan.testing.builders import node, selector, taint
from tests.descheduler.scenario import evicted, nodes, pod, policy, snapshot, zone


def some(count: int, where: str, prefix: str = "", **more: Any) -> list[core_v1.Pod]:
    """Pods on a node, named after it."""
    return [pod(f"{prefix}{where}{number:03}", where, **more) for number in range(count)]


TRIO = nodes("a", "b", "c")


@pytest.mark.parametrize(
    ("case", "arguments", "pods", "cluster", "expected"),
    [
        ("one goes of two on one node", {}, some(2, "a"), TRIO, 1),
        ("all but one node's share go", {}, some(6, "a"), TRIO, 4),
        ("an even spread stays", {}, [*some(2, "a"), *some(2, "b"), *some(2, "c")], TRIO, 0),
        ("the share is rounded up", {}, [*some(3, "a"), *some(1, "b")], TRIO, 1),
        ("another owner's pod is no duplicate", {}, [pod("p", "a"), pod("q", "a", owner="other")], TRIO, 0),
        ("another image is no duplicate", {}, [pod("p", "a"), pod("q", "a", image="x")], TRIO, 0),
        ("another namespace is no duplicate", {}, [pod("p", "a"), pod("q", "a", namespace="n")], TRIO, 0),
        ("an excluded kind stays", {"excludeOwnerKinds": ["ReplicaSet"]}, some(3, "a"), TRIO, 0),
        ("an excluded namespace stays", {"namespaces": {"exclude": ["default"]}}, some(3, "a"), TRIO, 0),
        ("protected pods stay", {}, some(3, "a", kind="DaemonSet"), TRIO, 0),
        ("pods that could be nowhere else stay", {}, some(3, "a", node_selector={"kubernetes.io/hostname": "a"}), TRIO, 0),
        ("tainted nodes are no targets", {}, some(3, "a"), [node("a"), node("b", taints=[taint("x", "NoSchedule")])], 0),
        ("nodes with a preference are targets", {}, some(3, "a"), [node("a"), node("b", taints=[taint("x", "PreferNoSchedule")])], 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_duplicates(
    case: str, arguments: dict[str, Any], pods: list[core_v1.Pod], cluster: list[core_v1.Node], expected: int
) -> None:
    assert len(evicted(policy("RemoveDuplicates", arguments), cluster, pods)) == expected, case


LOW = {"thresholds": {"cpu": 30, "pods": 30}, "targetThresholds": {"cpu": 50, "pods": 50}}


def low(evictor: dict[str, Any] | None = None, **more: Any) -> Any:
    return policy("LowNodeUtilization", {**LOW, **more}, evictor)


def sized(*names: str, **more: Any) -> list[core_v1.Node]:
    """Nodes of 4 cpus and 10 pods."""
    return [node(name, cpu="4", pods="10", **more) for name in names]


FULL = some(8, "a", cpu="400m")
"""3.2 of 4 cpus, 80 %."""


@pytest.mark.parametrize(
    ("case", "wanted", "cluster", "pods", "expected"),
    [
        ("pods go until the node is at its target", low(), sized("a", "b"), FULL, 3),
        ("nodes between the thresholds neither give nor take", low(), sized("a", "b"), [*FULL, *some(4, "b", cpu="400m")], 0),
        ("nothing goes if all nodes are underutilized", low(), sized("a", "b"), some(2, "a", cpu="100m"), 0),
        ("nothing goes if nothing is underutilized", low(), sized("a", "b"), [*FULL, *some(8, "b", cpu="400m")], 0),
        ("cordoned nodes do not take", low(), [*sized("a"), *sized("b", unschedulable=True), *sized("c")], [*FULL, *some(4, "c", cpu="400m")], 0),
        ("cordoned nodes give", low(), [*sized("a", unschedulable=True), *sized("b")], FULL, 3),
        ("more nodes must be underutilized than the number", low(numberOfNodes=1), sized("a", "b"), FULL, 0),
        ("as many as needed are", low(numberOfNodes=1), sized("a", "b", "c"), FULL, 3),
        ("the limit of the strategy holds for each node", low(evictionLimits={"node": 2}), sized("a", "b"), FULL, 2),
        ("excluded namespaces count and stay", low(evictableNamespaces={"exclude": ["default"]}), sized("a", "b"), FULL, 0),
        ("protected pods count and stay", low(), sized("a", "b"), some(8, "a", cpu="400m", kind="DaemonSet"), 0),
        ("too many pods are too much as well", low(), sized("a", "b"), some(8, "a"), 3),
        ("a destination's taint that is not tolerated stops all", low(), [*sized("a"), *sized("b", taints=[taint("x", "NoSchedule")])], FULL, 0),
        ("destinations take until they are at the target themselves", low(), [*sized("a"), node("b", cpu="1", pods="10")], FULL, 2),
        ("pods that fit nowhere stay", low({"nodeFit": True}), [*sized("a"), node("b", cpu="300m", pods="10")], FULL, 0),
        ("nodes are compared with the average", low(useDeviationThresholds=True, thresholds={"pods": 10}, targetThresholds={"pods": 10}), sized("a", "b", "c"), [*some(9, "a"), *some(3, "b")], 4),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_low_node_utilization(
    case: str, wanted: Any, cluster: list[core_v1.Node], pods: list[core_v1.Pod], expected: int
) -> None:
    assert len(evicted(wanted, cluster, pods)) == expected, case


def test_low_priority_leaves_a_full_node_first() -> None:
    pods = [pod(f"p{number}", "a", cpu="400m", priority=9 - number) for number in range(8)]
    assert evicted(low(), sized("a", "b"), pods) == ["p7", "p6", "p5"]


def test_the_fullest_node_gives_first() -> None:
    pods = [*some(7, "a", cpu="400m"), *some(9, "b", cpu="400m")]
    assert evicted(low(), sized("a", "b", "c"), pods)[0].startswith("b")


def test_extended_resources_are_looked_at_if_they_are_named() -> None:
    def device(name: str, where: str) -> core_v1.Pod:
        requests = core_v1.ResourceRequirements(requests={"x.io/gpu": "1"})
        return pod(name, where, containers=(core_v1.Container(name="main", image="app:1", resources=requests),))

    cluster = sized("a", "b")
    for one in cluster:
        one.status.allocatable["x.io/gpu"] = "4"
    thresholds = {"thresholds": {"x.io/gpu": 20}, "targetThresholds": {"x.io/gpu": 50}}
    pods = [device(f"p{number}", "a") for number in range(4)]
    assert len(evicted(policy("LowNodeUtilization", thresholds), cluster, pods)) == 2


def test_real_usage_is_looked_at_where_it_is_collected() -> None:
    pods = some(4, "a")
    usage = Usage(
        {"a": parsed({"cpu": "3600m", "memory": "1Gi"}), "b": parsed({"cpu": "0", "memory": "0"})},
        {("default", one.metadata.name): parsed({"cpu": "900m", "memory": "256Mi"}) for one in pods},
    )
    wanted = low(metricsUtilization={"source": "KubernetesMetrics"})
    assert len(evicted(wanted, sized("a", "b"), pods, usage=usage)) == 2
    assert evicted(low(), sized("a", "b"), pods) == []
    made = decisions(wanted, snapshot(sized("a", "b"), pods))
    assert [one.error for one in made if isinstance(one, StrategyEnd)] == [
        "metrics client not initialized: metricsProviders needs source KubernetesMetrics, and the cluster metrics.k8s.io"
    ]


def high(**more: Any) -> Any:
    return policy("HighNodeUtilization", {"thresholds": {"cpu": 30, "pods": 30}, **more})


@pytest.mark.parametrize(
    ("case", "wanted", "cluster", "pods", "expected"),
    [
        ("an underutilized node gives all", high(), sized("a", "b"), [*some(4, "a", cpu="400m"), *some(2, "b")], ["b000", "b001"]),
        ("the emptiest gives first", high(), sized("a", "b", "c"), [*some(4, "a"), *some(2, "b"), *some(1, "c")], ["c000", "b000", "b001"]),
        ("nothing goes if all nodes are underutilized", high(), sized("a", "b"), some(2, "b"), []),
        ("nothing goes if no other node is schedulable", high(), [*sized("a", unschedulable=True), *sized("b")], [*some(4, "a"), *some(2, "b")], []),
        ("more nodes must be underutilized than the number", high(numberOfNodes=1), sized("a", "b"), [*some(4, "a"), *some(2, "b")], []),
        ("others must have room", high(), sized("a", "b"), [*some(10, "a"), *some(2, "b")], []),
        ("pods without the resources stay if that is said", high(evictionModes=["OnlyThresholdingResources"]), sized("a", "b"), [*some(4, "a"), *some(1, "b"), *some(1, "b", "c", cpu="100m")], ["cb000"]),
        ("excluded namespaces stay", high(evictableNamespaces={"exclude": ["default"]}), sized("a", "b"), [*some(4, "a"), *some(2, "b")], []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_high_node_utilization(
    case: str, wanted: Any, cluster: list[core_v1.Node], pods: list[core_v1.Pod], expected: list[str]
) -> None:
    assert evicted(wanted, cluster, pods) == expected, case


def spread(skew: int = 1, **more: Any) -> dict[str, Any]:
    constraint = core_v1.TopologySpreadConstraint(
        max_skew=skew,
        topology_key="zone",
        label_selector=selector({"app": "x"}),
        **{"when_unsatisfiable": "DoNotSchedule", **more},
    )
    return {"meta": {"labels": {"app": "x"}}, "topology_spread_constraints": (constraint,)}


def zones(*names: str, **more: Any) -> list[core_v1.Node]:
    return [zone(name, name, **more) for name in names]


def domains(*sizes: int, **constraint: Any) -> tuple[list[core_v1.Node], list[core_v1.Pod]]:
    """Zones with so many pods."""
    names = "abcdefg"[: len(sizes)]
    pods = [one for name, size in zip(names, sizes, strict=True) for one in some(size, name, **spread(**constraint))]
    return zones(*names), pods


@pytest.mark.parametrize(
    ("sizes", "skew", "expected"),
    [
        ((2, 1), 1, 0),
        ((3, 1), 1, 1),
        ((5, 2), 1, 1),
        ((4, 0), 1, 2),
        ((0, 1, 100), 1, 66),
        ((0, 1, 3, 5), 1, 3),
        ((2, 6), 2, 1),
        ((8, 7, 0), 1, 5),
        ((5, 5, 5), 1, 0),
        ((2, 3, 5, 5, 7, 8), 1, 5),
    ],
)
def test_as_few_pods_go_as_bring_domains_within_the_skew(sizes: tuple[int, ...], skew: int, expected: int) -> None:
    cluster, pods = domains(*sizes, skew=skew)
    assert len(evicted(policy(SPREAD), cluster, pods)) == expected


SPREAD = "RemovePodsViolatingTopologySpreadConstraint"


def test_soft_constraints_are_looked_at_if_that_is_said() -> None:
    cluster, pods = domains(4, 0, when_unsatisfiable="ScheduleAnyway")
    assert evicted(policy(SPREAD), cluster, pods) == []
    assert len(evicted(policy(SPREAD, {"constraints": ["ScheduleAnyway"]}), cluster, pods)) == 2


def test_pods_that_fit_on_no_node_of_a_small_domain_stay() -> None:
    pods = some(4, "a", **spread(), cpu="1")
    cluster = [*zones("a"), *zones("b", cpu="500m")]
    assert evicted(policy(SPREAD), cluster, pods) == []
    assert len(evicted(policy(SPREAD, {"topologyBalanceNodeFit": False}), cluster, pods)) == 2


def test_low_priority_leaves_a_large_domain_first() -> None:
    pods = [pod(f"p{number}", "a", priority=number, **spread()) for number in range(4)]
    assert sorted(evicted(policy(SPREAD), zones("a", "b"), pods)) == ["p0", "p1"]


def test_pods_that_are_bound_to_nodes_stay_longest() -> None:
    bound = pod("bound", "a", node_selector={"zone": "a"}, **spread(node_affinity_policy="Ignore"))
    pods = [bound, *some(3, "a", **spread(node_affinity_policy="Ignore"), priority=7)]
    assert "bound" not in evicted(policy(SPREAD), zones("a", "b"), pods)


@pytest.mark.parametrize(
    ("case", "constraint", "spec", "cluster", "expected"),
    [
        ("a tainted domain counts as a rule", {}, {}, [*zones("a"), *zones("b", taints=[taint("x", "NoSchedule")])], 0),
        ("a tainted domain does not count if taints are honoured", {"node_taints_policy": "Honor"}, {}, [*zones("a", "c"), *zones("b", taints=[taint("x", "NoSchedule")])], 2),
        ("a domain that the node selector excludes does not count", {}, {"node_selector": {"zone": "a"}}, zones("a", "b"), 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_which_domains_count(
    case: str, constraint: dict[str, Any], spec: dict[str, Any], cluster: list[core_v1.Node], expected: int
) -> None:
    pods = some(4, "a", **spread(**constraint), **spec)
    assert len(evicted(policy(SPREAD), cluster, pods)) == expected, case


def test_match_label_keys_tell_revisions_apart() -> None:
    made = spread(match_label_keys=("hash",))
    pods = [
        pod(f"p{number}", "a", **{**made, "meta": {"labels": {"app": "x", "hash": value}}})
        for number, value in enumerate(("1", "2"))
    ]
    assert evicted(policy(SPREAD), zones("a", "b"), pods) == []
    same = [pod(f"q{number}", "a", **{**made, "meta": {"labels": {"app": "x", "hash": "1"}}}) for number in range(2)]
    assert len(evicted(policy(SPREAD), zones("a", "b"), same)) == 1


def test_domains_that_the_pods_cannot_be_in_do_not_count_even_without_node_fit() -> None:
    wanted = policy(SPREAD, {"topologyBalanceNodeFit": False})
    pods = some(4, "a", **spread(), node_selector={"zone": "a"})
    assert evicted(wanted, zones("a", "b"), pods) == []
    ignoring = some(4, "a", **spread(node_affinity_policy="Ignore"), node_selector={"zone": "a"})
    assert len(evicted(wanted, zones("a", "b"), ignoring)) == 2


def test_protected_and_unselected_pods_are_not_counted_in_domains() -> None:
    pods = [*some(3, "a", **spread(), kind="DaemonSet"), *some(1, "a", "free", **spread())]
    assert evicted(policy(SPREAD), zones("a", "b"), pods) == []
    elsewhere = [*some(3, "a", **spread(), namespace="n"), *some(1, "a", "free", **spread())]
    assert evicted(policy(SPREAD, {"namespaces": {"exclude": ["n"]}}), zones("a", "b"), elsewhere) == []


def test_nodes_that_do_not_count_are_no_targets() -> None:
    tainted = zone("b2", "b", taints=[taint("x", "NoSchedule")])
    pods = some(4, "a", **spread(node_taints_policy="Honor"))
    full = zone("b1", "b", pods="0")
    assert evicted(policy(SPREAD), [*zones("a"), full, tainted], pods) == []


def test_pods_with_node_affinity_or_a_priority_stay_longer_than_those_without() -> None:
    requirement = core_v1.NodeSelectorRequirement(key="zone", operator="Exists")
    term = core_v1.NodeSelectorTerm(match_expressions=(requirement,))
    preferred = (core_v1.PreferredSchedulingTerm(weight=1, preference=term),)
    affinity = core_v1.Affinity(
        node_affinity=core_v1.NodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
    )
    pods = [
        pod("bound", "a", affinity=affinity, **spread()),
        pod("high", "a", priority=-5, **spread()),
        pod("q0", "a", **spread()),
        pod("q1", "a", **spread()),
    ]
    assert sorted(evicted(policy(SPREAD), zones("a", "b"), pods)) == ["q0", "q1"]


def test_two_pods_of_different_constraints_are_balanced_one_by_one() -> None:
    pods = [*some(3, "a", "one", **spread(1)), *some(3, "a", "two", **spread(3))]
    assert len(evicted(policy(SPREAD), zones("a", "b"), pods)) == 3


def test_owners_whose_pods_could_be_on_one_node_only_are_left_alone() -> None:
    bound: dict[str, Any] = {"node_selector": {"kubernetes.io/hostname": "a"}}
    pods = [*some(2, "a", **bound), *some(2, "b", node_selector={"kubernetes.io/hostname": "b"})]
    assert evicted(policy("RemoveDuplicates"), TRIO, pods) == []
