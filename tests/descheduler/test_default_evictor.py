"""DefaultEvictor: what is protected, by which argument, and what overrides it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1, policy_v1, scheduling_v1
from bayplan.descheduler.errors import PolicyError
from bayplan.descheduler.planner import decisions
from bayplan.descheduler.pods import EVICT, PREFER_NO_EVICTION
from bayplan.descheduler.policy import DeschedulerPolicy
from bayplan.testing.builders import metadata, node, selector, taint
from tests.descheduler.scenario import evicted, nodes, owners, pod, policy, refused, snapshot

PAIR = nodes("a", "b")


def old(**evictor: Any) -> DeschedulerPolicy:
    """Evict everything that is older than a second."""
    return policy("PodLifeTime", {"maxPodLifeTimeSeconds": 1}, evictor)


def volume(**source: Any) -> core_v1.Volume:
    return core_v1.Volume(name="data", **source)


def claim(name: str = "data") -> core_v1.Volume:
    return volume(persistent_volume_claim=core_v1.PersistentVolumeClaimVolumeSource(claim_name=name))


LOCAL: dict[str, Any] = {"volumes": (volume(empty_dir=core_v1.EmptyDirVolumeSource()),)}
HOST: dict[str, Any] = {"volumes": (volume(host_path=core_v1.HostPathVolumeSource(path="/x")),)}
DEVICES: dict[str, Any] = {"resource_claims": (core_v1.PodResourceClaim(name="gpu"),)}
FAILED = core_v1.PodStatus(phase="Failed")


@pytest.mark.parametrize(
    ("case", "one", "arguments", "goes"),
    [
        ("a pod of a replica set goes", pod("p", "a"), {}, True),
        ("a pod of nobody stays", pod("p", "a", owner=""), {}, False),
        ("a failed pod of nobody stays", pod("p", "a", owner="", status=FAILED), {}, False),
        (
            "a failed pod of nobody goes by the older flag",
            pod("p", "a", owner="", status=FAILED),
            {"evictFailedBarePods": True},
            True,
        ),
        ("a running pod of nobody stays even so", pod("p", "a", owner=""), {"evictFailedBarePods": True}, False),
        ("a mirror pod stays", pod("p", "a", meta={"annotations": {"kubernetes.io/config.mirror": "x"}}), {}, False),
        ("a static pod stays", pod("p", "a", meta={"annotations": {"kubernetes.io/config.source": "file"}}), {}, False),
        ("a pod from the API goes", pod("p", "a", meta={"annotations": {"kubernetes.io/config.source": "api"}}), {}, True),
        ("a terminating pod stays", pod("p", "a", meta={"deleted": "2026-05-31T23:59:59Z"}), {}, False),
        ("a daemon stays", pod("p", "a", kind="DaemonSet"), {}, False),
        ("a daemon goes by the older flag", pod("p", "a", kind="DaemonSet"), {"evictDaemonSetPods": True}, True),
        ("an emptyDir protects", pod("p", "a", **LOCAL), {}, False),
        ("a hostPath protects", pod("p", "a", **HOST), {}, False),
        ("local storage does not protect by the older flag", pod("p", "a", **LOCAL), {"evictLocalStoragePods": True}, True),
        (
            "local storage does not protect if that is disabled",
            pod("p", "a", **LOCAL),
            {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}},
            True,
        ),
        (
            "other protections stay on if one is disabled",
            pod("p", "a", kind="DaemonSet"),
            {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}},
            False,
        ),
        ("a system critical pod stays", pod("p", "a", priority=2_000_000_000), {}, False),
        ("a pod just below goes", pod("p", "a", priority=1_999_999_999), {}, True),
        ("a critical pod goes by the older flag", pod("p", "a", priority=2_000_000_000), {"evictSystemCriticalPods": True}, True),
        ("a pod at the threshold stays", pod("p", "a", priority=100), {"priorityThreshold": {"value": 100}}, False),
        ("a pod below the threshold goes", pod("p", "a", priority=99), {"priorityThreshold": {"value": 100}}, True),
        (
            "no threshold counts if critical pods may go",
            pod("p", "a", priority=100),
            {"priorityThreshold": {"value": 100}, "evictSystemCriticalPods": True},
            True,
        ),
        ("a pod at the priority of a class stays", pod("p", "a", priority=50), {"priorityThreshold": {"name": "mid"}}, False),
        ("a pod below a class goes", pod("p", "a", priority=49), {"priorityThreshold": {"name": "mid"}}, True),
        ("a claim does not protect", pod("p", "a", volumes=(claim(),)), {}, True),
        ("a claim protects by the older flag", pod("p", "a", volumes=(claim(),)), {"ignorePvcPods": True}, False),
        (
            "a claim protects if that is enabled",
            pod("p", "a", volumes=(claim(),)),
            {"podProtections": {"extraEnabled": ["PodsWithPVC"]}},
            False,
        ),
        (
            "a claim of a protected class protects",
            pod("p", "a", volumes=(claim("fast"),)),
            {
                "podProtections": {
                    "extraEnabled": ["PodsWithPVC"],
                    "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
                }
            },
            False,
        ),
        (
            "a claim of another class does not",
            pod("p", "a", volumes=(claim("slow"),)),
            {
                "podProtections": {
                    "extraEnabled": ["PodsWithPVC"],
                    "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
                }
            },
            True,
        ),
        (
            "a claim that is not there protects, as its class is not known",
            pod("p", "a", volumes=(claim("gone"),)),
            {
                "podProtections": {
                    "extraEnabled": ["PodsWithPVC"],
                    "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
                }
            },
            False,
        ),
        ("a pod without budget stays if that is asked for", pod("p", "a"), {"ignorePodsWithoutPDB": True}, False),
        (
            "a pod with budget goes",
            pod("p", "a", meta={"labels": {"app": "covered"}}),
            {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}},
            True,
        ),
        ("resource claims do not protect", pod("p", "a", **DEVICES), {}, True),
        (
            "resource claims protect if that is enabled",
            pod("p", "a", **DEVICES),
            {"podProtections": {"extraEnabled": ["PodsWithResourceClaims"]}},
            False,
        ),
        (
            "other labels than the selector's protect",
            pod("p", "a", meta={"labels": {"app": "x"}}),
            {"labelSelector": {"matchLabels": {"app": "y"}}},
            False,
        ),
        (
            "labels of the selector do not",
            pod("p", "a", meta={"labels": {"app": "y"}}),
            {"labelSelector": {"matchLabels": {"app": "y"}}},
            True,
        ),
        ("an owner with too few pods keeps them", pod("p", "a"), {"minReplicas": 2}, False),
        ("an owner with one pod keeps it not for a minimum of one", pod("p", "a"), {"minReplicas": 1}, True),
        ("a young pod stays", pod("p", "a", age=599), {"minPodAge": "10m"}, False),
        ("an old pod goes", pod("p", "a", age=600), {"minPodAge": "10m"}, True),
        (
            "a pod that has not started stays",
            pod("p", "a", status=core_v1.PodStatus(phase="Pending")),
            {"minPodAge": "1s"},
            False,
        ),
        ("the annotation that prefers no eviction is a preference", pod("p", "a", meta={"annotations": {PREFER_NO_EVICTION: ""}}), {}, True),
        (
            "it protects if it is mandatory",
            pod("p", "a", meta={"annotations": {PREFER_NO_EVICTION: ""}}),
            {"noEvictionPolicy": "Mandatory"},
            False,
        ),
        (
            "the annotation that asks for eviction overrides everything",
            pod("p", "a", kind="DaemonSet", priority=2_000_000_000, meta={"annotations": {EVICT: "", PREFER_NO_EVICTION: ""}}, **LOCAL),
            {"noEvictionPolicy": "Mandatory"},
            True,
        ),
        (
            "a namespace with the labels of the selector goes",
            pod("p", "a", namespace="open"),
            {"namespaceLabelSelector": {"matchLabels": {"may": "go"}}},
            True,
        ),
        (
            "another namespace stays",
            pod("p", "a"),
            {"namespaceLabelSelector": {"matchLabels": {"may": "go"}}},
            False,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_protection(case: str, one: core_v1.Pod, arguments: dict[str, Any], goes: bool) -> None:
    budget = policy_v1.PodDisruptionBudget(
        metadata=metadata("b", "default"), spec=policy_v1.PodDisruptionBudgetSpec(selector=selector({"app": "covered"}))
    )
    claims = [
        core_v1.PersistentVolumeClaim(
            metadata=metadata(name, "default"), spec=core_v1.PersistentVolumeClaimSpec(storage_class_name=name)
        )
        for name in ("fast", "slow")
    ]
    namespaces = [
        core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="default")),
        core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="open", labels={"may": "go"})),
    ]
    classes = [scheduling_v1.PriorityClass(metadata=metadata("mid"), value=50)]
    more: dict[str, Any] = {
        "budgets": [budget],
        "claims": claims,
        "namespaces": namespaces,
        "priority_classes": classes,
    }
    assert evicted(old(**arguments), PAIR, [one], **more) == (["p"] if goes else [])
    objections = refused(old(**arguments), PAIR, [one], **more)
    assert bool(objections) is not goes, case


def test_all_objections_are_given() -> None:
    one = pod("p", "a", kind="DaemonSet", priority=2_000_000_000, **LOCAL)
    assert refused(old(), PAIR, [one]) == {
        "p": (
            "pod has system critical priority and is protected against eviction",
            "pod has local storage and is protected against eviction",
            "daemonset pods are protected against eviction",
        )
    }


def test_enough_replicas_let_pods_go_until_too_few_are_left() -> None:
    pods = [pod(f"p{number}", "a", age=100 - number) for number in range(4)]
    assert evicted(old(minReplicas=3), PAIR, pods) == ["p0", "p1"]


def test_a_priority_class_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(PolicyError, match='"none" not found'):
        decisions(old(priorityThreshold={"name": "none"}), snapshot(PAIR, []))


@pytest.mark.parametrize(
    ("case", "other", "spec", "fits"),
    [
        ("an empty node fits", node("b"), {}, True),
        ("a cordoned node does not", node("b", unschedulable=True), {}, False),
        ("a tainted node does not", node("b", taints=[taint("x", "NoSchedule")]), {}, False),
        ("a node that is not preferred does", node("b", taints=[taint("x", "PreferNoSchedule")]), {}, True),
        ("a node of another name does not", node("b"), {"node_selector": {"kubernetes.io/hostname": "a"}}, False),
        ("a node with too little cpu does not", node("b", cpu="1"), {"cpu": "2"}, False),
        ("a node with just enough does", node("b", cpu="2"), {"cpu": "2"}, True),
        ("a node without room for pods does not", node("b", pods="0"), {}, False),
        ("a node that is not ready does not", node("b", conditions={"Ready": "False"}), {}, False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_node_fit(case: str, other: core_v1.Node, spec: dict[str, Any], fits: bool) -> None:
    extra = node("c", unschedulable=True)  # so that two nodes are ready
    pods = [pod("p", "a", **spec)]
    assert evicted(old(nodeFit=True), [node("a"), other, extra], pods) == (["p"] if fits else []), case
    assert evicted(old(), [node("a"), other, extra], pods) == ["p"], "without nodeFit it goes"


def test_node_fit_looks_at_nodes_of_the_selector_only() -> None:
    pods = [pod("p", "a")]
    assert evicted(old(nodeFit=True, nodeSelector="kubernetes.io/hostname=b"), PAIR, pods) == ["p"]
    assert evicted(old(nodeFit=True, nodeSelector="kubernetes.io/hostname=a"), PAIR, pods) == []


def test_node_fit_counts_what_runs_on_the_other_node() -> None:
    pods = [pod("p", "a", cpu="2"), pod("full", "b", cpu="3", age=0)]
    assert evicted(old(nodeFit=True), PAIR, pods) == []
    assert evicted(old(nodeFit=True), PAIR, pods[:1]) == ["p"]


def test_node_fit_looks_at_anti_affinity_on_the_other_node() -> None:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": "x"}), topology_key="kubernetes.io/hostname")
    apart = core_v1.Affinity(
        pod_anti_affinity=core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )
    one = pod("p", "a", affinity=apart)
    other = pod("q", "b", age=0, meta={"labels": {"app": "x"}})
    assert evicted(old(nodeFit=True), PAIR, [one, other]) == []
    assert evicted(old(nodeFit=True), PAIR, [one]) == ["p"]


def test_pods_of_several_owners_are_not_counted_as_replicas() -> None:
    one = pod("p", "a", meta={"owners": (*owners("x"), *owners("y"))})
    assert evicted(old(minReplicas=5), PAIR, [one]) == ["p"]


def test_a_priority_class_above_all_is_an_error() -> None:
    classes = [scheduling_v1.PriorityClass(metadata=metadata("top"), value=2_000_000_001)]
    with pytest.raises(PolicyError, match="can't be greater than 2000000000"):
        decisions(old(priorityThreshold={"name": "top"}), snapshot(PAIR, [], priority_classes=classes))
    critical = [scheduling_v1.PriorityClass(metadata=metadata("top"), value=2_000_000_000)]
    assert decisions(old(priorityThreshold={"name": "top"}), snapshot(PAIR, [], priority_classes=critical))
