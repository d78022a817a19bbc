"""Topology spread in clusters of upstream's own tests, with the numbers of evictions that those expect. Pods request 100m."""
# ruff: noqa: E501 - one case, one line

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.testing.builders import node, selector, taint
from tests.descheduler.scenario import evicted, pod, policy


def machine(name: str, cpu: int = 2000, taints: tuple[core_v1.Taint, ...] = (), **labels: str) -> core_v1.Node:
    return node(name, cpu=f"{cpu}m", memory="3000", pods="10", taints=taints, meta={"labels": labels})


def limit(
    key: str = "zone", skew: int = 1, action: str = "DoNotSchedule", **more: Any
) -> core_v1.TopologySpreadConstraint:
    return core_v1.TopologySpreadConstraint(
        max_skew=skew, topology_key=key, when_unsatisfiable=action, label_selector=selector({"foo": "bar"}), **more
    )


def group(
    count: int, where: str, *limits: core_v1.TopologySpreadConstraint, first: int = 0, **more: Any
) -> list[core_v1.Pod]:
    meta = {"labels": {"foo": "bar"}, **more.pop("meta", {})}
    return [
        pod(f"pod-{where}-{first + n}", where, cpu="100m", meta=meta, topology_spread_constraints=limits, **more)
        for n in range(count)
    ]


def requires(key: str, *values: str) -> core_v1.Affinity:
    operator = "In" if values else "Exists"
    term = core_v1.NodeSelectorTerm(
        match_expressions=(core_v1.NodeSelectorRequirement(key=key, operator=operator, values=values),)
    )
    required = core_v1.NodeSelector(node_selector_terms=(term,))
    return core_v1.Affinity(
        node_affinity=core_v1.NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    )


ZONE, NODE = limit(), limit("node")
AB = [machine("n1", zone="A"), machine("n2", zone="B")]
SYSTEMS = [
    *(machine(f"n{n}", node=f"linux-{n}", os="linux") for n in (1, 2, 3)),
    *(machine(f"n{n}", node=f"windows-{n}", os="windows") for n in (4, 5, 6)),
]
WINDOWS: dict[str, Any] = {"node_selector": {"os": "windows"}}
SIX = [machine(f"n{n}", zone="A" if n < 4 else "B", hostname=f"n{n}") for n in range(1, 7)]
BOTH = (limit(action="ScheduleAnyway"), limit("hostname"))
SMALL = [machine("n1", 250, zone="A"), machine("n2", 1000, zone="B"), machine("n3", 1000, zone="C")]
STEPS = [*group(2, "n1", ZONE), *group(3, "n2", ZONE), *group(4, "n3", ZONE)]
PAIRS = [machine(f"{z}{n}", {"A1": 150, "A2": 50}.get(f"{z}{n}", 1000), zone=z) for n in (1, 2) for z in "ABC"]
EVEN = [machine(f"{z}{n}", 1000, zone=z) for z in "AB" for n in (1, 2)]
GPU = (taint("hardware", "NoSchedule", "gpu"),)
APPS = [
    machine(
        "cp",
        zone="A",
        hostname="cp",
        taints=(taint("controlplane", "NoSchedule", "true"), taint("etcd", "NoSchedule", "true")),
    ),
    machine("infra", zone="A", hostname="infra", taints=(taint("infra_service", "NoSchedule"),)),
    machine("app1", zone="A", hostname="app1", app_service="true"),
    machine("app2", zone="B", hostname="app2", app_service="true"),
]
HOSTS: dict[str, Any] = {"affinity": requires("app_service")}


def ending(count: int, where: str) -> list[core_v1.Pod]:
    meta = {"labels": {"foo": "bar"}, "deleted": "2026-05-31T23:59:59Z"}
    return [pod(f"ending-{n}", where, meta=meta, topology_spread_constraints=(ZONE,)) for n in range(count)]


@pytest.mark.parametrize(
    ("case", "cluster", "pods", "arguments", "fit", "expected"),
    [
        (
            "pods with node selector and affinity stay",
            AB,
            [
                *group(2, "n1", ZONE, node_selector={"zone": "A"}),
                *group(1, "n1", ZONE, first=2, affinity=requires("foo", "bar")),
                *group(1, "n1", ZONE, first=3),
            ],
            {},
            True,
            1,
        ),
        ("nodes of another system do not count", SYSTEMS, [*group(3, "n4", NODE, **WINDOWS), *group(3, "n5", NODE, **WINDOWS), *group(2, "n6", NODE, **WINDOWS)], {}, False, 0),
        ("a new node gets two", [*SYSTEMS, machine("n7", node="windows-7", os="windows")], [*group(3, "n4", NODE, **WINDOWS), *group(3, "n5", NODE, **WINDOWS), *group(2, "n6", NODE, **WINDOWS)], {}, False, 2),
        ("one leaves the fullest node", SYSTEMS, [*group(4, "n4", NODE, **WINDOWS), *group(3, "n5", NODE, **WINDOWS), *group(1, "n6", NODE, **WINDOWS)], {}, False, 1),
        ("pods that can be on one node only stay", SYSTEMS, [*group(4, "n4", NODE, node_selector={"node": "windows-4"}), *group(3, "n5", NODE, **WINDOWS), *group(1, "n6", NODE, **WINDOWS)], {}, True, 0),
        ("a selector that matches several nodes", [machine("n1", zone="A", region="x"), machine("n2", zone="B", region="x")], [*group(1, "n1", ZONE, node_selector={"region": "x"}), *group(3, "n1", first=1, node_selector={"region": "x"})], {}, False, 2),
        ("taints of the small domain", [machine("n1", zone="A", taints=GPU), machine("n2", zone="B")], [*group(1, "n1", limit(skew=2)), *group(1, "n1", first=1), *group(6, "n2")], {}, True, 0),
        ("no cpu in the small domain", [machine("n1", 200, zone="A"), machine("n2", zone="B")], [*group(1, "n1", limit(skew=2)), *group(1, "n1", first=1), *group(6, "n2")], {}, True, 0),
        ("several constraints", SIX, [one for n in range(1, 5) for one in group(1, f"n{n}", *BOTH)], {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}, False, 1),
        ("terminating pods do not count", AB, [*group(2, "n1", ZONE), *ending(2, "n1"), *group(2, "n2", ZONE)], {}, False, 0),
        ("a small zone is full", SMALL, STEPS, {}, True, 0),
        ("only domains with too few pods are targets", PAIRS, [*group(1, "A1", ZONE), *group(1, "B1", ZONE), *group(1, "B2", ZONE), *group(2, "C1", ZONE), *group(1, "C2", ZONE)], {}, True, 0),
        ("zones of two nodes", EVEN, [*group(1, "A1", ZONE), *group(4, "A2", ZONE), *group(2, "B1", ZONE), *group(1, "B2", ZONE)], {}, True, 1),
        ("tainted nodes outside the affinity", APPS, [*group(2, "app1", limit("hostname"), **HOSTS), *group(2, "app2", limit("hostname"), **HOSTS)], {}, True, 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_topology_spread(
    case: str, cluster: list[core_v1.Node], pods: list[core_v1.Pod], arguments: dict[str, Any], fit: bool, expected: int
) -> None:
    wanted = policy("RemovePodsViolatingTopologySpreadConstraint", arguments, {"nodeFit": fit})
    assert len(evicted(wanted, cluster, pods)) == expected, case


def test_without_node_fit_while_balancing_a_pod_is_evicted_though_the_small_zone_is_full() -> None:
    wanted = policy("RemovePodsViolatingTopologySpreadConstraint", {"topologyBalanceNodeFit": False}, {"nodeFit": True})
    assert len(evicted(wanted, SMALL, STEPS)) == 1


def test_pods_that_fit_elsewhere_go_before_those_that_do_not() -> None:
    arm: dict[str, Any] = {"arch": "arm64"}
    cluster = [machine(f"{z}1", 1000, zone=z, **arm) for z in "ABC"]
    ignoring = limit(node_affinity_policy="Ignore")
    pods = [
        *group(1, "A1", ignoring, node_selector=arm),
        *group(1, "A1", ignoring, first=1, node_selector={"zone": "A", **arm}),
        *group(1, "B1", ignoring, node_selector=arm),
    ]
    assert evicted(policy("RemovePodsViolatingTopologySpreadConstraint"), cluster, pods) == ["pod-A1-0"]
