# ruff: noqa: E501 - one case, one line
"""Strategies that look at one pod after the other: age, failure, restarts, taints, affinity."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.descheduler.plugins.remove_pods_violating_node_affinity import PREFERRED, REQUIRED
from bayplan.testing.builders import node, selector, taint, toleration
from tests.descheduler.scenario import ago, evicted, nodes, pod, policy, zone

PAIR = nodes("a", "b")


def status(
    phase: str = "Running",
    *,
    reason: str = "",
    waiting: str = "",
    ended: tuple[str, int] | None = None,
    restarts: int = 0,
    where: str = "container_statuses",
    conditions: tuple[core_v1.PodCondition, ...] = (),
) -> core_v1.PodStatus:
    state = core_v1.ContainerState()
    if waiting:
        state = core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting(reason=waiting))
    elif ended is not None:
        state = core_v1.ContainerState(terminated=core_v1.ContainerStateTerminated(reason=ended[0], exit_code=ended[1]))
    one = core_v1.ContainerStatus(name="main", state=state, restart_count=restarts)
    more: dict[str, Any] = {where: (one,)}
    return core_v1.PodStatus(phase=phase, reason=reason, conditions=conditions, start_time=ago(60), **more)


def done(seconds: float, reason: str = "PodCompleted", value: str = "True") -> core_v1.PodCondition:
    return core_v1.PodCondition(type="Ready", status=value, reason=reason, last_transition_time=ago(seconds))


@pytest.mark.parametrize(
    ("case", "arguments", "one", "goes"),
    [
        ("older than the limit", {"maxPodLifeTimeSeconds": 600}, pod("p", "a", age=601), True),
        ("as old as the limit", {"maxPodLifeTimeSeconds": 600}, pod("p", "a", age=600), False),
        ("from the future", {"maxPodLifeTimeSeconds": 0}, pod("p", "a", age=-5), False),
        ("in one of the phases", {"states": ["Pending"]}, pod("p", "a", status=status("Pending")), True),
        ("in another phase", {"states": ["Pending"]}, pod("p", "a", status=status()), False),
        ("old and in one of the phases", {"states": ["Pending"], "maxPodLifeTimeSeconds": 10}, pod("p", "a", status=status("Pending")), True),
        ("young and in one of the phases", {"states": ["Pending"], "maxPodLifeTimeSeconds": 100}, pod("p", "a", status=status("Pending")), False),
        ("with a reason of the pod", {"states": ["NodeLost"]}, pod("p", "a", status=status(reason="NodeLost")), True),
        ("with a container that waits", {"states": ["CrashLoopBackOff"]}, pod("p", "a", status=status(waiting="CrashLoopBackOff")), True),
        ("with a container that ended", {"states": ["OOMKilled"]}, pod("p", "a", status=status(ended=("OOMKilled", 137))), True),
        ("with an init container that waits, which do not count", {"states": ["ImagePullBackOff"]}, pod("p", "a", status=status("Running", waiting="ImagePullBackOff", where="init_container_statuses")), False),
        ("with an init container that waits, which count", {"states": ["ImagePullBackOff"], "includingInitContainers": True}, pod("p", "a", status=status("Running", waiting="ImagePullBackOff", where="init_container_statuses")), True),
        ("with an ephemeral container that ended, which count", {"states": ["Error"], "includingEphemeralContainers": True}, pod("p", "a", status=status(ended=("Error", 1), where="ephemeral_container_statuses")), True),
        ("with an ephemeral container that ended, which do not count", {"states": ["Error"]}, pod("p", "a", status=status(ended=("Error", 1), where="ephemeral_container_statuses")), False),
        ("with an exit code", {"exitCodes": [3]}, pod("p", "a", status=status(ended=("Error", 3))), True),
        ("with another exit code", {"exitCodes": [3]}, pod("p", "a", status=status(ended=("Error", 4))), False),
        ("with a condition for long enough", {"conditions": [{"reason": "PodCompleted", "minTimeSinceLastTransitionSeconds": 60}]}, pod("p", "a", status=status("Succeeded", conditions=(done(60),))), True),
        ("with a condition for too short", {"conditions": [{"reason": "PodCompleted", "minTimeSinceLastTransitionSeconds": 60}]}, pod("p", "a", status=status("Succeeded", conditions=(done(59),))), False),
        ("with a condition of another status", {"conditions": [{"reason": "PodCompleted", "status": "True"}]}, pod("p", "a", status=status(conditions=(done(60, value="False"),))), False),
        ("with one of several conditions", {"conditions": [{"reason": "X"}, {"type": "Ready"}]}, pod("p", "a", status=status(conditions=(done(60),))), True),
        ("of an included kind of owner", {"states": ["Running"], "ownerKinds": {"include": ["ReplicaSet"]}}, pod("p", "a"), True),
        ("of no included kind of owner", {"states": ["Running"], "ownerKinds": {"include": ["Job"]}}, pod("p", "a"), False),
        ("of an excluded kind of owner", {"states": ["Running"], "ownerKinds": {"exclude": ["ReplicaSet"]}}, pod("p", "a"), False),
        ("of a namespace that is included", {"states": ["Running"], "namespaces": {"include": ["default"]}}, pod("p", "a"), True),
        ("of a namespace that is not included", {"states": ["Running"], "namespaces": {"include": ["x"]}}, pod("p", "a"), False),
        ("of a namespace that is excluded", {"states": ["Running"], "namespaces": {"exclude": ["default"]}}, pod("p", "a"), False),
        ("with labels that are selected", {"states": ["Running"], "labelSelector": {"matchLabels": {"a": "b"}}}, pod("p", "a", meta={"labels": {"a": "b"}}), True),
        ("with labels that are not selected", {"states": ["Running"], "labelSelector": {"matchLabels": {"a": "b"}}}, pod("p", "a"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_pod_life_time(case: str, arguments: dict[str, Any], one: core_v1.Pod, goes: bool) -> None:
    assert evicted(policy("PodLifeTime", arguments), PAIR, [one]) == (["p"] if goes else []), case


def test_the_oldest_pods_go_first_on_all_nodes() -> None:
    pods = [pod("young", "a", age=100), pod("old", "b", age=300), pod("middle", "a", age=200)]
    wanted = policy("PodLifeTime", {"maxPodLifeTimeSeconds": 1}, maxNoOfPodsToEvictTotal=2)
    assert evicted(wanted, PAIR, pods) == ["old", "middle"]


def test_pods_of_nodes_that_are_not_looked_at_stay() -> None:
    pods = [pod("p", "a"), pod("q", "gone"), pod("r", "down"), pod("s", "b")]
    cluster = [*nodes("a", "b"), node("down", conditions={"Ready": "False"}), node("new")]
    assert evicted(policy("PodLifeTime", {"states": ["Running"]}), cluster, pods) == ["p", "s"]
    by_label = policy("PodLifeTime", {"states": ["Running"]}, nodeSelector="kubernetes.io/hostname in (a, new)")
    assert evicted(by_label, cluster, pods) == ["p"]


@pytest.mark.parametrize(
    ("case", "arguments", "one", "goes"),
    [
        ("failed", {}, pod("p", "a", status=status("Failed")), True),
        ("running", {}, pod("p", "a"), False),
        ("failed with a reason", {"reasons": ["NodeAffinity"]}, pod("p", "a", status=status("Failed", reason="NodeAffinity")), True),
        ("failed with another reason", {"reasons": ["NodeAffinity"]}, pod("p", "a", status=status("Failed", reason="Evicted")), False),
        ("failed with a container's reason", {"reasons": ["Error"]}, pod("p", "a", status=status("Failed", ended=("Error", 1))), True),
        ("failed with an init container's reason, which do not count", {"reasons": ["Error"]}, pod("p", "a", status=status("Failed", ended=("Error", 1), where="init_container_statuses")), False),
        ("failed with an init container's reason, which count", {"reasons": ["Error"], "includingInitContainers": True}, pod("p", "a", status=status("Failed", ended=("Error", 1), where="init_container_statuses")), True),
        ("failed with an exit code", {"exitCodes": [1]}, pod("p", "a", status=status("Failed", ended=("Error", 1))), True),
        ("failed with another exit code", {"exitCodes": [1]}, pod("p", "a", status=status("Failed", ended=("Error", 2))), False),
        ("failed with an excluded owner", {"excludeOwnerKinds": ["Job"]}, pod("p", "a", kind="Job", status=status("Failed")), False),
        ("failed at the least age", {"minPodLifetimeSeconds": 60}, pod("p", "a", age=60, status=status("Failed")), True),
        ("failed too young", {"minPodLifetimeSeconds": 61}, pod("p", "a", age=60, status=status("Failed")), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_failed_pods(case: str, arguments: dict[str, Any], one: core_v1.Pod, goes: bool) -> None:
    assert evicted(policy("RemoveFailedPods", arguments), PAIR, [one]) == (["p"] if goes else []), case


@pytest.mark.parametrize(
    ("case", "arguments", "expected"),
    [
        ("from the threshold on, most restarts first", {"podRestartThreshold": 10}, ["b25", "a10"]),
        ("init containers count if that is said", {"podRestartThreshold": 10, "includingInitContainers": True}, ["init30", "b25", "a10"]),
        ("only those that crash", {"podRestartThreshold": 1, "states": ["CrashLoopBackOff"]}, ["b25"]),
        ("only those that run", {"podRestartThreshold": 10, "states": ["Running"]}, ["b25", "a10"]),
        ("nobody above a high threshold", {"podRestartThreshold": 26}, []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_restarts(case: str, arguments: dict[str, Any], expected: list[str]) -> None:
    pods = [
        pod("a10", "a", status=status(restarts=10)),
        pod("a9", "a", status=status("Pending", restarts=9)),
        pod("b25", "a", status=status(restarts=25, waiting="CrashLoopBackOff")),
        pod("init30", "a", status=status(restarts=30, where="init_container_statuses")),
    ]
    assert evicted(policy("RemovePodsHavingTooManyRestarts", arguments), PAIR, pods) == expected, case


@pytest.mark.parametrize(
    ("case", "arguments", "taints", "expected"),
    [
        ("a taint that nobody tolerates", {}, [taint("x", "NoSchedule", "1")], ["bare", "other"]),
        ("NoExecute is the taint manager's", {}, [taint("x", "NoExecute", "1")], []),
        ("a preference does not count", {}, [taint("x", "PreferNoSchedule", "1")], []),
        ("a preference counts if that is said", {"includePreferNoSchedule": True}, [taint("x", "PreferNoSchedule", "1")], ["bare", "other"]),
        ("an excluded key", {"excludedTaints": ["x"]}, [taint("x", "NoSchedule", "1")], []),
        ("an excluded key and value", {"excludedTaints": ["x=1"]}, [taint("x", "NoSchedule", "1")], []),
        ("an excluded key with another value", {"excludedTaints": ["x=2"]}, [taint("x", "NoSchedule", "1")], ["bare", "other"]),
        ("an included key", {"includedTaints": ["x"]}, [taint("x", "NoSchedule", "1")], ["bare", "other"]),
        ("an included key with another value", {"includedTaints": ["x=2"]}, [taint("x", "NoSchedule", "1")], []),
        ("a key that is not included", {"includedTaints": ["y"]}, [taint("x", "NoSchedule", "1")], []),
        ("one taint is tolerated, the other not", {}, [taint("x", "NoSchedule", "1"), taint("y", "NoSchedule")], ["bare", "other", "tolerant"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_node_taints(case: str, arguments: dict[str, Any], taints: list[core_v1.Taint], expected: list[str]) -> None:
    pods = [
        pod("bare", "a"),
        pod("other", "a", tolerations=(toleration("x", value="2"),)),
        pod("tolerant", "a", tolerations=(toleration("x", value="1"),)),
        pod("elsewhere", "b"),
    ]
    cluster = [node("a", taints=taints), node("b")]
    assert evicted(policy("RemovePodsViolatingNodeTaints", arguments), cluster, pods) == expected, case


def wants(value: str, *, weight: int = 0) -> core_v1.Affinity:
    """An affinity to zones, required or with a weight."""
    requirement = core_v1.NodeSelectorRequirement(key="zone", operator="In", values=(value,))
    term = core_v1.NodeSelectorTerm(match_expressions=(requirement,))
    if weight:
        preferred = (core_v1.PreferredSchedulingTerm(weight=weight, preference=term),)
        affinity = core_v1.NodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
    else:
        required = core_v1.NodeSelector(node_selector_terms=(term,))
        affinity = core_v1.NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    return core_v1.Affinity(node_affinity=affinity)


@pytest.mark.parametrize(
    ("case", "kind", "affinity", "other", "goes"),
    [
        ("the node satisfies what is required", REQUIRED, wants("one"), zone("b", "two"), False),
        ("another node satisfies what is required", REQUIRED, wants("two"), zone("b", "two"), True),
        ("no node satisfies what is required", REQUIRED, wants("three"), zone("b", "two"), False),
        ("the other node is full", REQUIRED, wants("two"), zone("b", "two", pods="0"), False),
        ("another node is preferred", PREFERRED, wants("two", weight=5), zone("b", "two"), True),
        ("this node is preferred", PREFERRED, wants("one", weight=5), zone("b", "two"), False),
        ("the preferred node and all others are cordoned", PREFERRED, wants("two", weight=5), zone("b", "two", unschedulable=True), True),
        ("a preference is not looked at", REQUIRED, wants("two", weight=5), zone("b", "two"), False),
        ("a requirement is not looked at", PREFERRED, wants("two"), zone("b", "two"), False),
        ("nothing is said", REQUIRED, None, zone("b", "two"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_node_affinity(
    case: str, kind: str, affinity: core_v1.Affinity | None, other: core_v1.Node, goes: bool
) -> None:
    """As upstream's, a preferred node need not be the one that fits: the pod's own does, so use nodeFit besides."""
    wanted = policy("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": [kind]})
    cluster = [zone("a", "one"), other]
    assert evicted(wanted, cluster, [pod("p", "a", affinity=affinity)]) == (["p"] if goes else []), case


def apart(value: str, key: str = "kubernetes.io/hostname", **more: Any) -> core_v1.Affinity:
    """An anti-affinity to pods labelled `app`."""
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": value}), topology_key=key, **more)
    return core_v1.Affinity(
        pod_anti_affinity=core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )


def labelled(name: str, where: str, app: str, **more: Any) -> core_v1.Pod:
    return pod(name, where, meta={"labels": {"app": app}}, **more)


ANTI = policy("RemovePodsViolatingInterPodAntiAffinity")


def test_pods_that_forbid_each_other_lose_all_but_one() -> None:
    pods = [labelled(name, "a", "x", affinity=apart("x")) for name in ("p", "q", "r")]
    assert len(evicted(ANTI, PAIR, pods)) == 2


def test_the_pod_with_the_anti_affinity_goes_and_others_stay() -> None:
    pods = [labelled("p", "a", "x"), labelled("q", "a", "y", affinity=apart("x"))]
    assert evicted(ANTI, PAIR, pods) == ["q"]


def test_low_priority_goes_first_then_best_effort_then_the_newest() -> None:
    pods = [
        labelled("high", "a", "x", affinity=apart("x"), priority=10),
        labelled("burstable", "a", "x", affinity=apart("x"), priority=1, cpu="1"),
        labelled("old", "a", "x", affinity=apart("x"), priority=1, age=100),
        labelled("new", "a", "x", affinity=apart("x"), priority=1, age=50),
        labelled("none", "a", "x", affinity=apart("x")),
    ]
    assert evicted(ANTI, PAIR, pods) == ["none", "new", "old", "burstable"]


@pytest.mark.parametrize(
    ("case", "term", "other", "goes"),
    [
        ("another node of the zone", {"key": "zone"}, labelled("q", "b", "x"), True),
        ("another zone", {"key": "zone"}, labelled("q", "c", "x"), False),
        ("another node, for the host name", {}, labelled("q", "b", "x"), False),
        ("another namespace", {}, labelled("q", "a", "x", namespace="n"), False),
        ("another namespace that is named", {"namespaces": ("n",)}, labelled("q", "a", "x", namespace="n"), True),
        ("other labels", {}, labelled("q", "a", "y"), False),
        ("a pod that has ended", {}, labelled("q", "a", "x", status=status("Succeeded")), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whom_an_anti_affinity_means(case: str, term: dict[str, Any], other: core_v1.Pod, goes: bool) -> None:
    cluster = [zone("a", "one"), zone("b", "one"), zone("c", "two")]
    one = labelled("p", "a", "z", affinity=apart("x", **term))
    assert evicted(ANTI, cluster, [one, other]) == (["p"] if goes else []), case


def test_a_pod_that_is_not_evicted_goes_on_to_disturb_others() -> None:
    pods = [
        labelled("daemon", "a", "x", kind="DaemonSet", affinity=apart("x")),
        labelled("p", "a", "x", affinity=apart("x"), priority=5),
    ]
    assert evicted(ANTI, PAIR, pods) == ["p"]
