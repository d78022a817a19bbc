"""Old `Policy` files, and the older names of predicates and priorities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.scheduler import Planner, registry
from bayplan.scheduler.configuration.older_names import OLDER_NAMES
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.objects import Tree, node, pod, taint

PAGE = Path(__file__).parents[2] / "docs" / "scheduler-names.md"


def policy(**fields: Any) -> Tree:
    return {"kind": "Policy", "apiVersion": "v1", **fields}


def made(**fields: Any) -> Profile:
    return Profile(load(policy(**fields)).profiles[0], Snapshot())


def test_a_policy_without_lists_has_the_defaults() -> None:
    profile = made()
    assert [item.name for item in profile.filter if item.name != "DynamicResources"] == [
        "CheckNodeUnschedulable",
        "HostName",
        "PodFitsHostPorts",
        "MatchNodeSelector",
        "PodFitsResources",
        "NoDiskConflict",
        "PodToleratesNodeTaints",
        "MaxCSIVolumeCountPred",
        "CheckVolumeBinding",
        "NoVolumeZoneConflict",
        "EvenPodsSpread",
        "MatchInterPodAffinity",
    ]
    assert profile.weights["LeastRequestedPriority"] == 1
    assert profile.weights["EvenPodsSpreadPriority"] == 2


def test_empty_lists_leave_what_is_mandatory() -> None:
    profile = made(predicates=[], priorities=[])
    names = [item.name for item in profile.filter if item.name != "DynamicResources"]
    assert names == ["CheckNodeUnschedulable", "PodToleratesNodeTaints"]
    assert [item.name for item in profile.score] == ["DynamicResources"]


def test_general_predicates_are_four() -> None:
    profile = made(predicates=[{"name": "GeneralPredicates"}])
    names = {item.name for item in profile.filter}
    assert names >= {"HostName", "PodFitsHostPorts", "MatchNodeSelector", "PodFitsResources"}
    assert "MatchInterPodAffinity" not in names


def test_pods_are_placed_by_a_policy() -> None:
    planner = Planner(
        {"nodes": [node("a", cpu="4"), node("b", cpu="4", taints=(taint("x"),)), node("c", cpu="1")]},
        policy(
            predicates=[{"name": "PodFitsResources"}, {"name": "PodFitsHostPorts"}],
            priorities=[{"name": "MostRequestedPriority", "weight": 2}],
        ),
    )
    decision = planner.decide(pod("p", cpu="2"), explain=True)
    assert decision.node == "a"
    assert decision.unschedulable_plugins == ["PodFitsResources", "PodToleratesNodeTaints"]
    small = planner.decide(pod("q", cpu="500m"), explain=True)
    assert small.node == "c"
    assert small.to_dict()["nodes"]["c"]["scores"]["MostRequestedPriority"] > 0


def test_the_weight_of_hard_affinity_is_passed_on() -> None:
    profile = made(hardPodAffinitySymmetricWeight=7)
    assert getattr(profile.plugins["InterPodAffinityPriority"], "args").hard_pod_affinity_weight == 7  # noqa: B009


def test_extenders_of_a_policy_are_read() -> None:
    extender = {
        "urlPrefix": "https://x",
        "enableHttps": True,
        "httpTimeout": 2_000_000_000,
        "filterVerb": "f",
        "managedResources": [{"name": "example.com/chip", "ignoredByScheduler": True}],
    }
    settings = load(policy(extenders=[extender]))
    assert (settings.extenders[0].enable_https, settings.extenders[0].timeout_seconds) == (True, 2)
    fit = Profile(settings.profiles[0], Snapshot()).plugins["PodFitsResources"]
    assert getattr(fit, "args").ignored_resources == {"example.com/chip"}  # noqa: B009


def test_a_ratio_of_ones_own() -> None:
    ratio = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    argument = {"requestedToCapacityRatioArguments": ratio}
    profile = made(priorities=[{"name": "Packing", "weight": 5, "argument": argument}])
    assert profile.weights["LeastRequestedPriority"] == 5
    assert getattr(profile.plugins["LeastRequestedPriority"], "args").strategy == "RequestedToCapacityRatio"  # noqa: B009


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"predicates": [{"name": "X"}]}, r'predicates\[0\].name: Invalid value: "X": Predicate type not found for X'),
        (
            {"priorities": [{"name": "EqualPriority"}]},
            r"priorities\[0\].weight: Invalid value: 0: Priority EqualPriority should have a positive weight",
        ),
        ({"priorities": [{"name": "X", "weight": 1}]}, "Priority type not found for X"),
        ({"hardPodAffinitySymmetricWeight": 101}, "not in valid range"),
        (
            {"predicates": [{"name": "Mine", "argument": {"serviceAffinity": {}}}]},
            "custom predicates are not supported",
        ),
        ({"apiVersion": "v2"}, "is not supported for a Policy"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_field(fields: Tree, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(policy(**fields))


@pytest.mark.parametrize("name", sorted(OLDER_NAMES))
def test_every_older_name_has_a_plugin_and_a_row_in_the_documentation(name: str) -> None:
    assert issubclass(registry.plugin_class(name), object)
    assert f"`{name}`" in PAGE.read_text(encoding="utf-8")


def pressed(name: str, condition: str, status: str = "True") -> Tree:
    tree = node(name)
    tree["status"]["conditions"] = [{"type": condition, "status": status}]
    return tree


@pytest.mark.parametrize(
    ("predicate", "condition", "status", "reason"),
    [
        ("CheckNodeMemoryPressure", "MemoryPressure", "True", "node(s) had memory pressure"),
        ("CheckNodeDiskPressure", "DiskPressure", "True", "node(s) had disk pressure"),
        ("CheckNodePIDPressure", "PIDPressure", "True", "node(s) had pid pressure"),
        ("CheckNodeCondition", "Ready", "False", "node(s) were not ready"),
    ],
)
def test_nodes_in_trouble_are_refused(predicate: str, condition: str, status: str, reason: str) -> None:
    planner = Planner({"nodes": [pressed("a", condition, status), node("b")]}, policy(predicates=[{"name": predicate}]))
    decision = planner.decide(pod("p"), explain=True)
    assert decision.node == "b"
    refusal = decision.verdict("a")
    assert refusal is not None
    assert refusal.reasons == (reason,)


def test_memory_pressure_keeps_off_only_pods_that_ask_for_nothing() -> None:
    nodes = {"nodes": [pressed("a", "MemoryPressure")]}
    planner = Planner(nodes, policy(predicates=[{"name": "CheckNodeMemoryPressure"}]))
    assert planner.decide(pod("p", memory="1Gi")).node == "a"
    assert planner.decide(pod("q")).node is None


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("predicates", "PodFitsResource", "PodFitsResources"),
        ("priorities", "SelectSpreadPriority", "SelectorSpreadPriority"),
        ("priorities", "BalanceResourceAllocation", "BalancedResourceAllocation"),
    ],
)
def test_a_near_name_is_corrected(kind: str, name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"type not found for {name}; did you mean {meant}\\?"):
        made(**{kind: [{"name": name, "weight": 1}]})
    point = "filter" if kind == "predicates" else "score"
    profile = {"plugins": {point: {"enabled": [{"name": name}]}}}
    with pytest.raises(SettingsError, match=f"no plugin '{name}'; did you mean {meant}\\?"):
        load(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [profile],
            }
        )
    with pytest.raises(SettingsError) as far:
        made(priorities=[{"name": "Quux", "weight": 1}])
    assert "did you mean" not in str(far.value)
