"""Old `Policy` files, and the older names of predicates and priorities."""

from __future__ import annotations

import json
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


def test_a_ratio_without_a_shape_prefers_nodes_with_much_left() -> None:
    priorities = [{"name": "RequestedToCapacityRatioPriority", "weight": 1}]
    nodes = [node("a", cpu="4", memory="8Gi"), node("b", cpu="2", memory="4Gi")]
    planner = Planner({"nodes": nodes}, policy(predicates=[], priorities=priorities))
    # A quarter of cpu and of memory would be used of a, half of b.
    assert scored(planner, pod("p", cpu="1", memory="2Gi"), "LeastRequestedPriority") == {"a": 75, "b": 50}


def limited(*limits: Tree, init: Tree | None = None) -> Tree:
    tree = pod("p")
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"limits": one}} for number, one in enumerate(limits)
    ]
    tree["spec"]["containers"] = containers
    if init is not None:
        tree["spec"]["initContainers"] = [{"name": "init", "image": "i", "resources": {"limits": init}}]
    return tree


@pytest.mark.parametrize(
    ("asked", "best"),
    [
        (limited({"cpu": "4"}), ["a"]),
        (limited({"cpu": "2"}), ["a", "b"]),
        (limited({"cpu": "2"}, {"cpu": "2001m"}), []),
        (limited({"cpu": "2"}, {"cpu": "1"}), ["a"]),
        (limited({"cpu": "9", "memory": "4Gi"}), ["b"]),
        (limited({"memory": "4Gi"}, init={"memory": "5Gi"}), []),
        (limited({"cpu": "1"}, init={"cpu": "3"}), ["a"]),
        (limited({"cpu": "5"}), []),
        (limited({}), []),
    ],
)
def test_nodes_that_have_what_the_limits_say_get_a_point(asked: Tree, best: list[str]) -> None:
    priorities = [{"name": "ResourceLimitsPriority", "weight": 1}]
    nodes = [node("a", cpu="4", memory="1Gi"), node("b", cpu="2", memory="4Gi")]
    planner = Planner({"nodes": nodes}, policy(predicates=[], priorities=priorities))
    assert scored(planner, asked, "ResourceLimitsPriority") == {name: int(name in best) for name in "ab"}


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
            {"predicates": [{"name": "Mine", "argument": {"serviceAffinity": {}, "labelsPresence": {}}}]},
            "Exactly 1 predicate argument is required, numArgs: 2, Predicate: Mine",
        ),
        ({"predicates": [{"name": "Mine", "argument": {"other": {}}}]}, "numArgs: 1, Predicate: Mine"),
        (
            {
                "priorities": [
                    {"name": "A", "weight": 1, "argument": {"labelPreference": {"label": "a"}}},
                    {"name": "B", "weight": 2, "argument": {"labelPreference": {"label": "b"}}},
                ]
            },
            r'priorities\[1\].weight: .*LabelPreference priority "B" has a different weight with "A"',
        ),
        ({"priorities": [{"name": "A", "weight": 1, "argument": {"other": {}}}]}, r"priorities\[0\].argument"),
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


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("predicates", "GeneralPredicate", "GeneralPredicates"),
        ("priorities", "RequestToCapacityRatioPriority", "RequestedToCapacityRatioPriority"),
    ],
)
def test_names_that_only_policies_have_are_meant_too(kind: str, name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"type not found for {name}; did you mean {meant}\\?"):
        made(**{kind: [{"name": name, "weight": 1}]})
    weight = {"weight": 1} if kind == "priorities" else {}
    assert made(**{kind: [{"name": meant, **weight}]})


def labelled(name: str, **labels: str) -> Tree:
    tree = node(name)
    tree["metadata"]["labels"] = labels
    return tree


def scored(planner: Planner, asked: Tree, plugin: str) -> dict[str, int]:
    decision = planner.decide(asked, explain=True)
    weighted = decision.scores[plugin]
    return {name: int(weighted[row]) // decision.weights[plugin] for row, name in enumerate(decision.names)}


@pytest.mark.parametrize(("presence", "fits"), [(True, ["both"]), (False, ["none"])])
def test_labels_that_nodes_have_or_lack(presence: bool, fits: list[str]) -> None:
    nodes = [labelled("both", region="r", zone="z"), labelled("one", region="r"), labelled("none")]
    argument = {"labelsPresence": {"labels": ["region", "zone"], "presence": presence}}
    planner = Planner({"nodes": nodes}, policy(predicates=[{"name": "Mine", "argument": argument}]))
    decision = planner.decide(pod("p"), explain=True)
    refused = [one for one in ("both", "one", "none") if decision.verdict(one) is not None]
    assert [one for one in ("both", "one", "none") if one not in refused] == fits
    verdict = decision.verdict("one")
    assert verdict is not None
    assert verdict.reasons == ("node(s) didn't have the requested labels",)


def test_labels_that_nodes_had_better_have_or_lack() -> None:
    nodes = [labelled("a", ssd="x"), labelled("b", ssd="x", old="x"), labelled("c", old="x"), labelled("d")]
    wishes = [("ssd", True), ("old", False), ("gpu", True)]
    priorities = [
        {"name": f"p{label}", "weight": 2, "argument": {"labelPreference": {"label": label, "presence": presence}}}
        for label, presence in wishes
    ]
    planner = Planner({"nodes": nodes}, policy(predicates=[], priorities=priorities))
    assert scored(planner, pod("p"), "NodeLabel") == {"a": 66, "b": 33, "c": 0, "d": 33}
    assert made(priorities=priorities).weights["NodeLabel"] == 6


def served(name: str, place: str = "", **labels: str) -> Tree:
    tree = pod(name)
    tree["metadata"] |= {"labels": labels, "namespace": "default"}
    if place:
        tree["spec"]["nodeName"] = place
    return tree


SERVICE = {"kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}


def test_pods_of_a_service_are_spread_over_the_values_of_a_label() -> None:
    nodes = [labelled("a1", rack="a"), labelled("a2", rack="a"), labelled("b1", rack="b"), labelled("none")]
    priorities = [{"name": "Spread", "weight": 3, "argument": {"serviceAntiAffinity": {"label": "rack"}}}]
    there = [served(f"w{index}", place, app="web") for index, place in enumerate(("a1", "a1", "a2", "b1"))]
    planner = Planner([*nodes, *there, SERVICE], policy(predicates=[], priorities=priorities))
    assert scored(planner, served("p", app="web"), "ServiceAffinity") == {"a1": 25, "a2": 25, "b1": 75, "none": 0}
    assert scored(planner, served("q", app="other"), "ServiceAffinity") == {"a1": 100, "a2": 100, "b1": 100, "none": 0}


def test_pods_of_a_service_share_the_values_of_a_label() -> None:
    nodes = [labelled("a1", rack="a", zone="z"), labelled("a2", rack="a", zone="y"), labelled("b1", rack="b", zone="z")]
    argument = {"serviceAffinity": {"labels": ["rack"]}}
    objects = [*nodes, served("first", "b1", app="web"), SERVICE]
    planner = Planner(objects, policy(predicates=[{"name": "Together", "argument": argument}]))

    def places(asked: Tree) -> list[str]:
        decision = planner.decide(asked, explain=True)
        return [name for name in ("a1", "a2", "b1") if decision.verdict(name) is None]

    assert places(served("p", app="web")) == ["b1"]
    assert places(served("other", app="other")) == ["a1", "a2", "b1"]
    chosen = served("chosen", app="web")
    chosen["spec"]["nodeSelector"] = {"rack": "a"}
    assert places(chosen) == ["a1", "a2"], "the pod itself says where"
    verdict = planner.decide(served("p", app="web"), explain=True).verdict("a1")
    assert verdict is not None
    assert verdict.reasons == ("node(s) didn't match service affinity",)


def test_labels_that_the_pod_does_not_name_are_those_of_the_others_as_far_as_these_have_them() -> None:
    nodes = [labelled("here", rack="a", zone="z"), labelled("there", rack="b", zone="z"), labelled("far", rack="b")]
    argument = {"serviceAffinity": {"labels": ["rack", "zone", "row"]}}
    predicates = [{"name": "Together", "argument": argument}]
    planner = Planner([*nodes, served("first", "here", app="web"), SERVICE], policy(predicates=predicates))
    asked = served("p", app="web")
    asked["spec"]["nodeSelector"] = {"rack": "b"}
    decision = planner.decide(asked, explain=True)
    assert [name for name in ("here", "there", "far") if decision.verdict(name) is None] == ["there"]


@pytest.mark.parametrize(
    ("place", "serves", "selector", "fits"),
    [
        ("default", True, {}, ["a1", "a2"]),  # where the others are
        ("other", True, {}, ["a1", "a2", "b1"]),  # pods of another namespace are none of its like
        ("default", False, {}, ["a1", "a2", "b1"]),  # pods without a service go where they want
        ("default", True, {"rack": "b"}, ["b1"]),  # what it says itself comes first
    ],
)
def test_only_pods_of_a_service_follow_those_of_their_own_namespace(
    place: str, serves: bool, selector: dict[str, str], fits: list[str]
) -> None:
    nodes = [labelled("a1", rack="a"), labelled("a2", rack="a"), labelled("b1", rack="b")]
    there = served("w", "a1", app="web")
    there["metadata"]["namespace"] = place
    predicates = [{"name": "Together", "argument": {"serviceAffinity": {"labels": ["rack"]}}}]
    planner = Planner([*nodes, there, *([SERVICE] if serves else [])], policy(predicates=predicates, priorities=[]))
    asked = served("p", app="web")
    asked["spec"]["nodeSelector"] = selector
    decision = planner.decide(asked, explain=True)
    assert [name for name in ("a1", "a2", "b1") if decision.verdict(name) is None] == fits


def owned(name: str, kind: str, uid: str) -> Tree:
    tree = pod(name)
    tree["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": "rs", "uid": uid, "controller": True}
    ]
    return tree


@pytest.mark.parametrize(
    ("asked", "score"),
    [
        (owned("p", "ReplicaSet", "u1"), 0),
        (owned("p", "ReplicaSet", "u2"), 100),
        (owned("p", "StatefulSet", "u1"), 100),
        (pod("p"), 100),
    ],
)
def test_nodes_that_would_rather_not_have_a_controllers_pods(asked: Tree, score: int) -> None:
    signature = {"podController": {"kind": "ReplicaSet", "uid": "u1"}}
    avoids = json.dumps({"preferAvoidPods": [{"podSignature": signature, "reason": "some"}]})
    nodes = [node("a"), node("b"), node("c")]
    for one, text in zip(nodes, (avoids, "{", ""), strict=True):
        one["metadata"]["annotations"] = {"scheduler.alpha.kubernetes.io/preferAvoidPods": text}
    planner = Planner({"nodes": nodes}, policy(predicates=[], priorities=None))
    planner.decide(owned("before", "ReplicaSet", "u2"))
    assert scored(planner, asked, "NodePreferAvoidPodsPriority") == {"a": score, "b": 100, "c": 100}
    assert made().weights["NodePreferAvoidPodsPriority"] == 10_000


def with_images(name: str, **images: int) -> Tree:
    """A node that has images of so many MiB."""
    tree = node(name, cpu="4", memory="8Gi")
    tree["status"]["images"] = [{"names": [f"{image}:1"], "sizeBytes": size << 20} for image, size in images.items()]
    return tree


def using(*images: str, init: tuple[str, ...] = ()) -> Tree:
    tree = pod("p")
    tree["spec"]["containers"] = [{"name": f"c{at}", "image": f"{one}:1"} for at, one in enumerate(images)]
    tree["spec"]["initContainers"] = [{"name": f"i{at}", "image": f"{one}:1"} for at, one in enumerate(init)]
    return tree


LABELLED = [labelled("a", l0=""), labelled("b", l1=""), labelled("c", l0="", l1="")]
SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 10}, {"utilization": 100, "score": 4}]
RATIO = {"argument": {"requestedToCapacityRatioArguments": {"shape": SHAPE}}}
UNEVEN = [
    node("a", cpu="3", memory="7Gi"),
    node("b", cpu="8", memory="4Gi"),
    pod("there", on="b", cpu="2", memory="1Gi"),
]
IMAGES = [with_images("a", app=511, base=300), with_images("b", other=900)]
TAINTED = [
    node("a", taints=(taint("x", "PreferNoSchedule"), taint("y", "PreferNoSchedule"))),
    node("b", taints=(taint("x", "PreferNoSchedule"),)),
]


def preferring(*weights: int) -> Tree:
    """Prefers nodes by the labels l0, l1, ..., with weights."""
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": f"l{at}", "operator": "Exists"}]}}
        for at, weight in enumerate(weights)
    ]
    rules = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return pod("p", affinity={"nodeAffinity": rules})


def beside(weight: int, kind: str = "podAffinity") -> Tree:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    rules = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}
    return pod("p", affinity={kind: rules})


ZONES = [
    *(labelled(name, zone=name) for name in "abc"),
    *(pod(f"a{at}", on="a", labels={"app": "web"}) for at in range(3)),
    pod("b0", on="b", labels={"app": "web"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("priority", "cluster", "asked", "expected"),
    [
        # a: 1000 of 3000 millicores and 1 of 7 GiB would be used, b: 3000 of 8000 and 2 of 4.
        # 66 and 85 are free of a, 62 and 50 of b; the mean is rounded down.
        ({"name": "LeastRequestedPriority"}, UNEVEN, pod("p", cpu="1", memory="1Gi"), {"a": 75, "b": 56}),
        # 33 and 14 are used of a, 37 and 50 of b.
        ({"name": "MostRequestedPriority"}, UNEVEN, pod("p", cpu="1", memory="1Gi"), {"a": 23, "b": 43}),
        # The shape gives 66 and 28 for a, 74 and 100 for b.
        ({"name": "Own", **RATIO}, UNEVEN, pod("p", cpu="1", memory="1Gi"), {"a": 47, "b": 87}),
        # |1/3 - 1/7| and |3/8 - 1/2|.
        ({"name": "BalancedResourceAllocation"}, UNEVEN, pod("p", cpu="1", memory="1Gi"), {"a": 80, "b": 87}),
        # Of 511 MiB that one of two nodes has 255.5 count, less 23, of 1000 less 23.
        ({"name": "ImageLocalityPriority"}, IMAGES, using("app"), {"a": 23, "b": 0}),
        # 405.5 and 450 MiB, less 23, of 3000 less 23 for three containers.
        ({"name": "ImageLocalityPriority"}, IMAGES, using("app", "base", "other"), {"a": 12, "b": 14}),
        # Init containers do not count.
        ({"name": "ImageLocalityPriority"}, IMAGES, using("app", init=("other",)), {"a": 23, "b": 0}),
        # One taint of at most two.
        ({"name": "TaintTolerationPriority"}, TAINTED, pod("p"), {"a": 0, "b": 50}),
        # 3 and 7 of at most 10.
        ({"name": "NodeAffinityPriority"}, LABELLED, preferring(3, 7), {"a": 30, "b": 70, "c": 100}),
        # 15, 5 and 0; with the other sign 0, 10 and 15 above the least.
        ({"name": "InterPodAffinityPriority"}, ZONES, beside(5), {"a": 100, "b": 33, "c": 0}),
        ({"name": "InterPodAffinityPriority"}, ZONES, beside(5, "podAntiAffinity"), {"a": 0, "b": 66, "c": 100}),
        ({"name": "EqualPriority"}, UNEVEN, pod("p"), {"a": 1, "b": 1}),
    ],
)  # fmt: skip
def test_priorities_score_by_the_formulas_of_their_time(
    priority: Tree, cluster: list[Tree], asked: Tree, expected: dict[str, int]
) -> None:
    """Figures by hand."""
    planner = Planner(cluster, policy(predicates=[], priorities=[{**priority, "weight": 2}]))
    plugin = "LeastRequestedPriority" if "argument" in priority else priority["name"]
    assert scored(planner, asked, plugin) == expected


@pytest.mark.parametrize(
    ("fields", "wrong", "meant"),
    [
        ({"prioritys": []}, "prioritys", "priorities"),
        ({"predicates": [{"name": "HostName", "arguments": {}}]}, "predicates[0].arguments", "argument"),
        ({"priorities": [{"name": "EqualPriority", "weight": 1, "wieght": 2}]}, "priorities[0].wieght", "weight"),
        ({"extenders": [{"urlPrefix": "http://x", "httpTimeot": 1}]}, "extenders[0].httpTimeot", "httpTimeout"),
    ],
)
def test_fields_that_a_policy_does_not_have_are_named(fields: Tree, wrong: str, meant: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(policy(**fields))
    assert wrong in str(caught.value)
    assert f"no such field; did you mean {meant}?" in str(caught.value)
    assert load(policy(alwaysCheckAllPredicates=True)).profiles
