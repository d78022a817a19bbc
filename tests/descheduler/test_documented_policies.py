"""The examples of upstream's page as files: each parses, and does to a small cluster what the page says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1, scheduling_v1
from bayplan.descheduler.policy_reader import load_policy
from bayplan.testing.builders import metadata, node, taint
from tests.descheduler.scenario import ago, evicted, nodes, pod, zone
from tests.descheduler.test_balance_strategies import some, spread
from tests.descheduler.test_pod_strategies import apart, status, wants

FOLDER = Path(__file__).parent / "policies"
DAY = 86_400.0
PAIR = nodes("a", "b")
LABELS = {"labels": {"component": "redis", "tier": "cache"}}

Case = tuple[Sequence[core_v1.Node], list[core_v1.Pod], list[str]]

TENS = [node("a", cpu="10", pods="10"), node("b", cpu="10", pods="10")]
STORED: dict[str, Any] = {
    "volumes": (
        core_v1.Volume(
            name="data", persistent_volume_claim=core_v1.PersistentVolumeClaimVolumeSource(claim_name="data")
        ),
    )
}
COMPLETED = core_v1.PodCondition(type="Ready", status="True", reason="PodCompleted", last_transition_time=ago(14_400))


def cases() -> dict[str, Case]:
    """File -> nodes, pods, the names of those that go."""
    old = pod("old", "a", age=DAY + 1)
    return {
        "top-level": (
            [node("a", meta={"labels": {"node": "node1"}}), node("b", meta={"labels": {"node": "node1"}}), *nodes("c")],
            [old, pod("elsewhere", "c", age=DAY + 1), pod("peer", "b", age=1)],
            ["old"],
        ),
        "protected-storage-classes": (PAIR, [old, pod("stored", "a", age=DAY + 1, **STORED)], ["old"]),
        "remove-duplicates": (PAIR, [*some(2, "a"), *some(2, "a", "job-", owner="j", kind="Job")], ["job-a001"]),
        "low-node-utilization": (TENS, some(8, "a"), ["a000", "a001", "a002"]),
        "high-node-utilization": (
            TENS,
            [
                *some(4, "a", cpu="1"),
                pod("asks", "b", cpu="100m"),
                pod("asks-nothing", "b"),
            ],
            ["asks"],
        ),
        "inter-pod-anti-affinity": (
            PAIR,
            [pod("a1", "a", meta={"labels": {"app": "x"}}), pod("b1", "a", affinity=apart("x"))],
            ["b1"],
        ),
        "node-affinity": ([zone("a", "one"), zone("b", "two")], [pod("p", "a", affinity=wants("two"))], ["p"]),
        "excluded-taints": (
            [
                node("a", taints=[taint("dedicated", "NoSchedule", "special-user"), taint("reserved", "NoSchedule")]),
                node("b", taints=[taint("dedicated", "NoSchedule", "other")]),
            ],
            [pod("excluded", "a"), pod("p", "b")],
            ["p"],
        ),
        "included-taints": (
            [node("a", taints=[taint("decommissioned", "NoSchedule", "end-of-life")]), node("b", taints=[taint("x", "NoSchedule")])],
            [pod("p", "a"), pod("other", "b")],
            ["p"],
        ),
        "topology-spread": (
            [zone("a", "a"), zone("b", "b")],
            some(3, "a", **spread()),
            ["a002"],
        ),
        "too-many-restarts": (
            PAIR,
            [pod("p", "a", status=status(restarts=100)), pod("fine", "a", status=status(restarts=99))],
            ["p"],
        ),
        "pod-life-time-transition": (
            PAIR,
            [
                pod("p", "a", status=core_v1.PodStatus(phase="Succeeded", conditions=(COMPLETED,))),
                pod("job", "a", kind="Job", status=core_v1.PodStatus(phase="Succeeded", conditions=(COMPLETED,))),
                pod("runs", "a"),
            ],
            ["p"],
        ),
        "pod-life-time": (
            PAIR,
            [pod("p", "a", age=DAY + 1, status=status("Pending")), pod("runs", "a", age=DAY + 1)],
            ["p"],
        ),
        "failed-pods": (
            PAIR,
            [
                pod("p", "a", age=3600, status=status("Failed", reason="NodeAffinity", ended=("Error", 1))),
                pod("young", "a", age=3599, status=status("Failed", reason="NodeAffinity", ended=("Error", 1))),
                pod("job", "a", age=3600, kind="Job", status=status("Failed", reason="NodeAffinity", ended=("Error", 1))),
            ],
            ["p"],
        ),
        "included-namespaces": (PAIR, [old, pod("n", "a", namespace="namespace1", age=DAY + 1)], ["n"]),
        "excluded-namespaces": (PAIR, [old, pod("n", "a", namespace="namespace1", age=DAY + 1)], ["old"]),
        "priority-value": (PAIR, [old, pod("high", "a", age=DAY + 1, priority=10_000)], ["old"]),
        "priority-class": (PAIR, [old, pod("high", "a", age=DAY + 1, priority=500)], ["old"]),
        "label-selector": (
            PAIR,
            [
                old,
                pod("cache", "a", age=DAY + 1, meta=LABELS),
                pod("dev", "a", age=DAY + 1, meta={"labels": {**LABELS["labels"], "environment": "dev"}}),
            ],
            ["cache"],
        ),
        "node-fit": (
            PAIR,
            [old, pod("bound", "a", age=DAY + 1, node_selector={"kubernetes.io/hostname": "a"})],
            ["old"],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(cases()))
def test_an_example_does_what_the_page_says(name: str) -> None:
    cluster, pods, expected = cases()[name]
    classes = [scheduling_v1.PriorityClass(metadata=metadata("priorityClassName1"), value=500)]
    claims = [
        core_v1.PersistentVolumeClaim(
            metadata=meta_v1.ObjectMeta(name="data", namespace="default"),
            spec=core_v1.PersistentVolumeClaimSpec(storage_class_name="storage-class-1"),
        )
    ]
    policy = load_policy(FOLDER / f"{name}.yaml")
    assert evicted(policy, cluster, pods, priority_classes=classes, claims=claims) == expected


def test_every_file_has_a_case() -> None:
    assert {file.stem for file in FOLDER.glob("*.yaml")} == set(cases())
