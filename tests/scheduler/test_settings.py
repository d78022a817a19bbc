"""KubeSchedulerConfiguration: what it means, and what it says when it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.framework.arguments import NodeResourcesFitArgs
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.objects import node, pod


def profile(plugins: dict[str, Any] | None = None, config: list[Any] | None = None) -> Profile:
    settings = load({"profiles": [{"plugins": plugins or {}, "pluginConfig": config or []}]})
    return Profile(settings.profiles[0], Snapshot())


def test_the_default_profile_has_kubernetes_plugins_and_weights() -> None:
    default = profile()
    assert [plugin.name for plugin in default.filter] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ]
    assert default.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_disabling_all_and_enabling_some_leaves_those() -> None:
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality", "weight": 5}]}}
    assert profile(plugins).weights == {"ImageLocality": 5}


def test_a_plugin_disabled_for_all_points_is_gone() -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}
    assert "TaintToleration" not in profile(plugins).plugins


def test_a_plugin_named_at_a_point_comes_first_there() -> None:
    plugins = {"filter": {"enabled": [{"name": "NodeResourcesFit"}]}}
    names = [plugin.name for plugin in profile(plugins).filter]
    assert names[0] == "NodeResourcesFit"
    assert names.count("NodeResourcesFit") == 1


def test_arguments_are_typed() -> None:
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}}
    settings = load({"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]})
    found = settings.profiles[0].arguments["NodeResourcesFit"]
    assert isinstance(found, NodeResourcesFitArgs)
    assert found.strategy == "MostAllocated"
    assert [(item.name, item.weight) for item in found.resources] == [("cpu", 1)]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"apiVersion": "v2"}, "apiVersion: 'v2' is not supported"),
        ({"kind": "Pod"}, "kind: 'Pod' is not KubeSchedulerConfiguration"),
        ({"profiles": {}}, "profiles: must be a list"),
        (
            {"profiles": [{"schedulerName": "x"}, {"schedulerName": "x"}]},
            r'profiles\[1\].schedulerName: Duplicate value: "profiles\[0\].schedulerName"',
        ),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}]},
            r"profiles\[0\].plugins.filter.enabled\[0\].name: no plugin 'Nope'",
        ),
        (
            {"profiles": [{"plugins": {"filtre": {}}}]},
            r'strict decoding error: unknown field "profiles\[0\].plugins.filtre"',
        ),
        (
            {
                "profiles": [
                    {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "X"}}}]}
                ]
            },
            r'profiles\[0\].pluginConfig\[0\].args.scoringStrategy.type: Unsupported value: "X": supported values: "LeastA',
        ),
        (
            {"percentageOfNodesToScore": 101},
            r"percentageOfNodesToScore: Invalid value: 101: not in valid range \[0-100\]",
        ),
        ({"parallelism": "many"}, "parallelism: must be an integer"),
        (
            {"podMaxBackoffSeconds": 0},
            "podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to PodInitialBackoffSeconds",
        ),
    ],
)
def test_an_error_names_the_field(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(tree)


def test_a_yaml_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: packer\npodMaxBackoffSeconds: 3\n"
    )
    settings = load(file)
    assert settings.profiles[0].scheduler_name == "packer"
    assert settings.pod_max_backoff_seconds == 3


def test_what_is_no_yaml_is_refused_with_the_file_name(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("{")
    with pytest.raises(SettingsError, match=r"config.yaml: not YAML"):
        load(str(file))


def configured(name: str, **args: Any) -> dict[str, Any]:
    return {"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"parallelism": 0}, "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: Invalid value: -1: must be non-negative"),
        (
            {"leaderElection": {"leaderElect": True, "resourceLock": "endpoints"}},
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        (
            {"leaderElection": {"leaderElect": True, "leaseDuration": "5s", "renewDeadline": "10s"}},
            'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
        ),
        ({"profiles": [{"schedulerName": "a"}, {}]}, "profiles[1].schedulerName: Required value"),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}]},
            'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version '
            '"kubescheduler.config.k8s.io/v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
        ),
        ({"profilez": []}, 'strict decoding error: unknown field "profilez"'),
        (
            configured("InterPodAffinity", hardPodAffinityWeight=101),
            "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            configured("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
            "[profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the "
            "same time as minCandidateNodesAbsolute, profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: "
            "Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage]",
        ),
        (
            configured("VolumeBinding", bindTimeoutSeconds=-1),
            "profiles[0].pluginConfig[0].args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, "
            "should not be a negative value",
        ),
        (
            configured("PodTopologySpread", defaultConstraints=[{"maxSkew": 1, "topologyKey": "z"}]),
            '[profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints are '
            "not empty, profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Required value: can "
            "not be empty]",
        ),
        (
            configured("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: Required value: must be "
            "specified when type is RequestedToCapacityRatio",
        ),
        (
            configured(
                "NodeResourcesFit",
                scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]},
            ),
            "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight "
            "of cpu not in valid range (0, 100]",
        ),
        (
            configured("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": "cpu"}]),
            'profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: "cpu"',
        ),
    ],
)
def test_what_is_wrong_is_told_in_kubernetes_words(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tree)
    assert str(caught.value) == message


def test_resources_that_extenders_manage_alone_stand_in_for_those_that_the_profile_ignores() -> None:
    managed = {"managedResources": [{"name": "example.com/chip", "ignoredByScheduler": True}]}
    tree = configured("NodeResourcesFit", ignoredResources=["example.com/other"]) | {"extenders": [managed]}
    args = load(tree).profiles[0].arguments["NodeResourcesFit"]
    assert isinstance(args, NodeResourcesFitArgs)
    assert args.ignored_resources == {"example.com/chip"}


BETA = "kubescheduler.config.k8s.io/v1beta3"


def test_v1beta3_knows_what_v1_has_dropped_and_not_what_v1_has_added() -> None:
    limits = {"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}
    settings = load({"apiVersion": BETA, "profiles": [limits]})
    made = Profile(settings.profiles[0], Snapshot())
    assert type(made.plugins["EBSLimits"]).__name__ == "NodeVolumeLimits"
    for tree in (
        {"delayCacheUntilActive": True},
        {"profiles": [{"percentageOfNodesToScore": 5}]},
        configured("InterPodAffinity", ignorePreferredTermsOfExistingPods=True),
    ):
        with pytest.raises(SettingsError, match="strict decoding error: unknown field"):
            load({"apiVersion": BETA} | tree)
        load(tree)


def test_an_older_name_acts_at_all_its_points_and_at_no_others() -> None:
    plugins = {
        "multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]},
        "filter": {"enabled": [{"name": "PodFitsResources"}]},
        "score": {"enabled": [{"name": "LeastRequestedPriority", "weight": 3}, {"name": "MostRequestedPriority"}]},
    }
    made = profile(plugins)
    assert [item.name for item in made.pre_filter] == ["PodFitsResources"]
    assert [item.name for item in made.filter] == ["PodFitsResources"]
    assert [item.name for item in made.pre_score] == ["LeastRequestedPriority", "MostRequestedPriority"]
    assert made.weights == {"LeastRequestedPriority": 3, "MostRequestedPriority": 1}
    strategies = [getattr(item, "args").strategy for item in made.score]  # noqa: B009
    assert strategies == ["LeastAllocated", "MostAllocated"]


def test_a_percentage_of_nodes_is_looked_at_in_turn() -> None:
    nodes = {"nodes": [node(f"n{index:03}") for index in range(400)]}
    planner = Planner(nodes, {"percentageOfNodesToScore": 50})
    seen: set[str] = set()
    for number in range(2):
        decision = planner.decide(planner.pod(pod(f"p{number}", cpu="1")))
        assert int((decision.codes == 0).sum()) == 200
        seen.update(decision.names[row] for row in (decision.codes == 0).nonzero()[0])
    assert len(seen) == 400


def test_a_profile_has_its_own_percentage_or_that_of_all() -> None:
    profiles = [{"schedulerName": "a", "percentageOfNodesToScore": 10}, {"schedulerName": "b"}]
    settings = load({"percentageOfNodesToScore": 30, "profiles": profiles})
    assert [item.percentage_of_nodes_to_score for item in settings.profiles] == [10, 30]
