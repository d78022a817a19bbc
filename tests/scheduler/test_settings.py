"""KubeSchedulerConfiguration: what it means, and what it says when it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.framework.arguments import NodeResourcesFitArgs
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.settings import load
from bayplan.scheduler.snapshot.snapshot import Snapshot


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
        ({"profiles": [{}, {}]}, r"profiles\[1\].schedulerName: 'default-scheduler' is used by another profile"),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}]},
            r"profiles\[0\].plugins.filter.enabled\[0\].name: no plugin 'Nope'",
        ),
        ({"profiles": [{"plugins": {"filtre": {}}}]}, r"profiles\[0\].plugins.filtre: unknown extension point"),
        (
            {
                "profiles": [
                    {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "X"}}}]}
                ]
            },
            r"profiles\[0\].pluginConfig\[0\].args.scoringStrategy.type: unsupported scoring strategy 'X'",
        ),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: 101 is not in the range 0-100"),
        ({"parallelism": "many"}, "parallelism: must be an integer"),
        ({"podMaxBackoffSeconds": 0}, "podMaxBackoffSeconds: must be greater than 0"),
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
