"""One pass: limits, outcomes, the order of strategies, better nodes."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.descheduler.planner import (
    NAMESPACE_LIMIT,
    NODE_LIMIT,
    TOTAL_LIMIT,
    Eviction,
    Outcome,
    PassSkipped,
    Refusal,
    StrategyEnd,
    StrategyStart,
    decisions,
    run_pass,
)
from bayplan.descheduler.policy import DeschedulerPolicy
from bayplan.descheduler.policy_reader import parse_policy
from bayplan.testing.builders import node, selector, taint
from tests.descheduler.scenario import evicted, nodes, pod, policy, refused, snapshot, zone

TRIO = nodes("a", "b", "c")
EVERYTHING = {"maxPodLifeTimeSeconds": 1}
PODS = [
    pod(f"{where}{number}", where, age=100 - number, namespace=namespace)
    for number, (where, namespace) in enumerate(
        [("a", "n"), ("a", "n"), ("a", "m"), ("b", "n"), ("b", "m"), ("c", "n")]
    )
]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["a0", "a1", "a2", "b3", "b4", "c5"]),
        ({"maxNoOfPodsToEvictTotal": 2}, ["a0", "a1"]),
        ({"maxNoOfPodsToEvictTotal": 0}, []),
        ({"maxNoOfPodsToEvictPerNode": 1}, ["a0", "b3", "c5"]),
        ({"maxNoOfPodsToEvictPerNamespace": 2}, ["a0", "a1", "a2", "b4"]),
        ({"maxNoOfPodsToEvictPerNode": 1, "maxNoOfPodsToEvictPerNamespace": 1}, ["a0", "b4"]),
    ],
)
def test_limits_hold_for_a_policy_that_would_evict_everything(limits: dict[str, Any], expected: list[str]) -> None:
    assert evicted(policy("PodLifeTime", EVERYTHING, **limits), TRIO, PODS) == expected


def test_limits_count_only_evictions_that_succeed() -> None:
    def evict(eviction: Eviction) -> Outcome:
        covered = eviction.pod.metadata.name in ("a0", "a1")
        return Outcome(not covered, "the budget does not allow it" if covered else "")

    wanted = policy("PodLifeTime", EVERYTHING, maxNoOfPodsToEvictTotal=2, maxNoOfPodsToEvictPerNode=1)
    assert evicted(wanted, TRIO, PODS, evict) == ["a2", "b3"]


def limit_refusals(**limits: Any) -> list[tuple[str, str]]:
    made = decisions(policy("PodLifeTime", EVERYTHING, **limits), snapshot(TRIO, PODS))
    return [(one.pod.metadata.name, one.objections[0]) for one in made if isinstance(one, Refusal) and one.by_limit]


def test_what_a_limit_forbids_is_said_once_per_node_and_once_per_pass() -> None:
    assert limit_refusals(maxNoOfPodsToEvictTotal=2) == [("a2", TOTAL_LIMIT)]
    assert limit_refusals(maxNoOfPodsToEvictPerNode=1) == [("a1", NODE_LIMIT), ("b4", NODE_LIMIT)]
    assert limit_refusals(maxNoOfPodsToEvictPerNamespace=2) == [("b3", NAMESPACE_LIMIT), ("c5", NAMESPACE_LIMIT)]


def several(*profiles: tuple[str, list[str], list[str]]) -> DeschedulerPolicy:
    arguments: dict[str, dict[str, Any]] = {
        "PodLifeTime": EVERYTHING,
        "RemoveFailedPods": {},
        "RemoveDuplicates": {},
        "HighNodeUtilization": {"thresholds": {"cpu": 10}},
    }
    return parse_policy(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "profiles": [
                {
                    "name": name,
                    "pluginConfig": [{"name": one, "args": arguments[one]} for one in (*deschedule, *balance)],
                    "plugins": {"deschedule": {"enabled": deschedule}, "balance": {"enabled": balance}},
                }
                for name, deschedule, balance in profiles
            ],
        }
    )


def test_all_profiles_deschedule_before_any_balances() -> None:
    wanted = several(
        ("one", ["RemoveFailedPods"], ["RemoveDuplicates"]), ("two", ["PodLifeTime"], ["HighNodeUtilization"])
    )
    made = decisions(wanted, snapshot(TRIO, []))
    assert [(one.profile, one.strategy) for one in made if isinstance(one, StrategyStart)] == [
        ("one", "RemoveFailedPods"),
        ("two", "PodLifeTime"),
        ("one", "RemoveDuplicates"),
        ("two", "HighNodeUtilization"),
    ]
    assert [one.error for one in made if isinstance(one, StrategyEnd)] == [""] * 4


def test_what_one_strategy_evicts_is_gone_for_the_next() -> None:
    pods = [pod("old", "a", age=100), pod("young", "a", age=0)]
    assert evicted(several(("one", ["PodLifeTime"], ["RemoveDuplicates"])), TRIO, pods) == ["old"]
    assert evicted(several(("one", [], ["RemoveDuplicates"])), TRIO, pods) == ["young"]


def test_nothing_is_evicted_from_a_cluster_of_one_node() -> None:
    made = decisions(policy("PodLifeTime", EVERYTHING), snapshot(nodes("a"), PODS))
    assert made == [PassSkipped("requires at least 2 ready nodes, found 1")]


def test_an_eviction_without_outcome_is_a_mistake_of_the_caller() -> None:
    running = run_pass(policy("PodLifeTime", EVERYTHING), snapshot(TRIO, PODS))
    with pytest.raises(RuntimeError, match="send an Outcome"):
        list(running)


def test_decisions_say_why() -> None:
    made = decisions(policy("PodLifeTime", EVERYTHING), snapshot(TRIO, PODS[:1]))
    (eviction,) = [one for one in made if isinstance(one, Eviction)]
    assert (eviction.profile, eviction.strategy) == ("test", "PodLifeTime")
    assert eviction.reason == "it is 100 s old, more than 1 s"


# requireBetterNode


def better(strategy: str = "PodLifeTime", arguments: dict[str, Any] | None = None) -> DeschedulerPolicy:
    return policy(strategy, EVERYTHING if arguments is None else arguments, {"requireBetterNode": True})


NOWHERE = ("no other node fits the pod that is not worse than its own",)


@pytest.mark.parametrize(
    ("case", "other", "spec", "beside", "goes"),
    [
        ("an equal node that is empty is not worse", node("b"), {"cpu": "1"}, "0", True),
        ("a node that would be fuller is worse", node("b"), {"cpu": "1"}, "2", False),
        ("a node that would be as full is not worse", node("b"), {"cpu": "1"}, "1", True),
        ("a smaller node that would be fuller is worse", node("b", cpu="1500m"), {"cpu": "1"}, "0", False),
        ("a node that would rather not is worse", node("b", taints=[taint("x", "PreferNoSchedule")]), {}, "0", False),
        ("a node that does not fit is none", node("b", unschedulable=True), {}, "0", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_pod_goes_only_if_another_node_is_not_worse(
    case: str, other: core_v1.Node, spec: dict[str, Any], beside: str, goes: bool
) -> None:
    """The pod's node is half full: one cpu beside the pod's own."""
    pods = [pod("p", "a", **spec), pod("q", "a", age=0, cpu="1"), pod("r", "b", age=0, cpu=beside)]
    cluster = [node("a"), other, node("d", unschedulable=True)]
    assert evicted(better(), cluster, pods) == (["p"] if goes else []), case
    assert refused(better(), cluster, pods) == ({} if goes else {"p": NOWHERE})


def test_pods_without_requests_go_where_no_more_pods_are() -> None:
    pods = [pod(f"p{number}", "a", age=100 - number) for number in range(3)]
    assert evicted(better(), nodes("a", "b"), pods) == ["p0", "p1"]


def test_any_node_that_fits_is_better_than_one_that_does_not_take_the_pod_any_more() -> None:
    cluster = [node("a", taints=[taint("x", "NoSchedule")]), node("b")]
    pods = [pod("p", "a", cpu="1"), pod("q", "b", cpu="2")]
    assert evicted(better("RemovePodsViolatingNodeTaints", {}), cluster, pods) == ["p"]


def test_room_is_promised_once() -> None:
    pods = [pod(f"p{number}", "a", cpu="1", age=100 - number) for number in range(4)]
    assert evicted(better(), nodes("a", "b"), pods) == ["p0", "p1"]


def test_strategies_that_pack_do_not_mind_fuller_nodes() -> None:
    pods = [pod("p", "a", cpu="200m"), *(pod(f"q{number}", "b", cpu="500m") for number in range(4))]
    wanted = better("HighNodeUtilization", {"thresholds": {"cpu": 10}})
    assert evicted(wanted, nodes("a", "b"), pods) == ["p"]
    assert evicted(better(), nodes("a", "b"), pods) == ["q0", "q1"]


def preferred(where: str) -> core_v1.Affinity:
    requirement = core_v1.NodeSelectorRequirement(key="zone", operator="In", values=(where,))
    term = core_v1.NodeSelectorTerm(match_expressions=(requirement,))
    one = core_v1.PreferredSchedulingTerm(weight=1, preference=term)
    return core_v1.Affinity(
        node_affinity=core_v1.NodeAffinity(preferred_during_scheduling_ignored_during_execution=(one,))
    )


@pytest.mark.parametrize(("where", "goes"), [("one", False), ("two", True)])
def test_a_node_that_the_pod_prefers_less_is_worse(where: str, goes: bool) -> None:
    cluster = [zone("a", "one"), zone("b", "two")]
    assert evicted(better(), cluster, [pod("p", "a", affinity=preferred(where))]) == (["p"] if goes else [])


def test_topology_spread_and_affinity_between_pods_must_hold_on_the_better_node() -> None:
    def near(app: str) -> core_v1.Affinity:
        term = core_v1.PodAffinityTerm(label_selector=selector({"app": app}), topology_key="zone")
        return core_v1.Affinity(
            pod_affinity=core_v1.PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
        )

    cluster = [zone("a", "one"), zone("b", "two")]
    friend = pod("friend", "a", age=0, meta={"labels": {"app": "friend"}})
    assert evicted(better(), cluster, [pod("p", "a", affinity=near("friend")), friend]) == []
    assert evicted(
        better(), [zone("a", "one"), zone("b", "one")], [pod("p", "a", affinity=near("friend")), friend]
    ) == ["p"]
    constraint = core_v1.TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=selector({"app": "x"})
    )
    labels = {"labels": {"app": "x"}}
    spread = pod("p", "a", meta=labels, topology_spread_constraints=(constraint,))
    assert evicted(better(), cluster, [spread, pod("q", "b", age=0, meta=labels)]) == []
    assert evicted(better(), cluster, [spread]) == ["p"]


def apart(app: str) -> core_v1.Affinity:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": app}), topology_key="zone")
    return core_v1.Affinity(
        pod_anti_affinity=core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )


@pytest.mark.parametrize(
    ("case", "own", "others", "where", "goes"),
    [
        ("its own anti-affinity forbids the zone of the only other node", apart("x"), None, "b", False),
        ("another pod's anti-affinity forbids it", None, apart("p"), "b", False),
        ("nobody forbids it", None, None, "b", True),
        ("what forbids it is in a third zone", apart("x"), apart("p"), "c", True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_anti_affinity_counts_in_whole_domains_for_better_nodes(
    case: str, own: core_v1.Affinity | None, others: core_v1.Affinity | None, where: str, goes: bool
) -> None:
    """Node b2 takes pods; the other pod is in its zone or in another one."""
    cluster = [zone("a", "a"), zone("b1", "b", unschedulable=True), zone("b2", "b"), zone("c", "c", unschedulable=True)]
    one = pod("p", "a", meta={"labels": {"app": "p"}}, affinity=own)
    other = pod("x", {"b": "b1", "c": "c"}[where], age=0, meta={"labels": {"app": "x"}}, affinity=others)
    assert evicted(better(), cluster, [one, other]) == (["p"] if goes else []), case


def test_a_successor_that_is_expected_somewhere_keeps_others_away() -> None:
    cluster = [zone("a", "a"), zone("b", "b"), zone("c", "c", unschedulable=True)]
    pods = [
        pod(name, "a", age=age, meta={"labels": {"app": "p"}}, affinity=apart("p"))
        for name, age in (("first", 100.0), ("second", 90.0))
    ]
    assert evicted(better(), cluster, pods) == ["first"]


def test_a_first_pod_of_its_kind_may_go_though_nobody_is_there_for_its_affinity() -> None:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": "x"}), topology_key="zone")
    near = core_v1.Affinity(
        pod_affinity=core_v1.PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )
    cluster = [zone("a", "a"), zone("b", "b")]
    for app, goes in (("x", True), ("y", False)):
        one = pod("p", "a", meta={"labels": {"app": app}}, affinity=near)
        assert evicted(better(), cluster, [one]) == (["p"] if goes else [])


def test_nodes_without_the_label_of_a_term_are_in_no_domain() -> None:
    cluster = [node("a"), node("b")]
    one = pod("p", "a", meta={"labels": {"app": "p"}})
    other = pod("x", "b", age=0, meta={"labels": {"app": "x"}}, affinity=apart("p"))
    beside = pod("q", "a", age=0)
    assert evicted(better(), cluster, [one, beside, other]) == ["p"]
