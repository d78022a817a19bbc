"""Profiles that cannot be, in the words of kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.errors import SettingsError

Tree = dict[str, Any]


def enabled(point: str, *names: str, **fields: Any) -> Tree:
    return {"plugins": {point: {"enabled": [{"name": name, **fields} for name in names]}}}


def configured(name: str, **args: Any) -> Tree:
    return {"pluginConfig": [{"name": name, "args": args}]}


def without(point: str) -> Tree:
    return {"plugins": {point: {"disabled": [{"name": "*"}]}}}


CREATING = "creating profile for scheduler name default-scheduler: "
AFFINITY = "profiles[0].pluginConfig[0].args.addedAffinity."


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"schedulerName": ""}, "profiles[0].schedulerName: Required value"),
        (enabled("score", "NodePorts"), CREATING + 'plugin "NodePorts" does not extend ScorePlugin plugin'),
        (enabled("filter", "ImageLocality"), CREATING + 'plugin "ImageLocality" does not extend FilterPlugin plugin'),
        (
            enabled("filter", "NodeName", "NodeName"),
            CREATING + 'plugin "NodeName" already registered as "FilterPlugin"',
        ),
        (
            without("queueSort"),
            CREATING + 'only one queue sort plugin required for profile with scheduler name "default-scheduler", '
            "but got 0",
        ),
        (
            without("bind"),
            CREATING + 'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
        ),
        (
            enabled("score", "ImageLocality", weight=-1),
            CREATING + "score plugins: total score of Score plugins could overflow",
        ),
        (
            enabled("score", "ImageLocality", weight=2**31),
            "profiles[0].plugins.score.enabled[0].weight: must be an integer of 32 bits, not 2147483648",
        ),
        (
            configured("NodeResourcesFit", scoringStrategy={"resources": [{"name": "cpu"}]}),
            'profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "": supported values: '
            '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
        ),
    ],
)
def test_what_is_wrong_with_a_profile_is_told(profile: Tree, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Planner([], {"profiles": [profile]})
    assert str(caught.value) == message


def requiring(**requirement: Any) -> Tree:
    terms = [{"matchExpressions": [{"key": "k", "operator": "Exists"}, {"key": "k", **requirement}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return configured("NodeAffinity", addedAffinity=required)


def preferring(term: Tree) -> Tree:
    preferred = [{"weight": 1, "preference": {}}, {"weight": 1, "preference": term}]
    return configured("NodeAffinity", addedAffinity={"preferredDuringSchedulingIgnoredDuringExecution": preferred})


REQUIRED = f"{AFFINITY}requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1]."
PREFERRED = f"{AFFINITY}preferredDuringSchedulingIgnoredDuringExecution[1].matchFields[0]."


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            requiring(operator="Like", values=["x"]),
            f'{REQUIRED}operator: Unsupported value: "Like": supported values: "In", "NotIn", "Exists", '
            '"DoesNotExist", "Gt", "Lt"',
        ),
        (
            requiring(operator="Gt", values=["x"]),
            f"{REQUIRED}values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            preferring({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}),
            f'{PREFERRED}operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
        ),
        (
            preferring({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}),
            f'{PREFERRED}values: Invalid value: ["a","b"]: must have one element',
        ),
    ],
)
def test_what_is_wrong_with_added_affinity_is_told_by_its_place(profile: Tree, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Planner([], {"profiles": [profile]})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"profiles": [configured("DynamicResources", filterTimeout="-1s")]},
            'profiles[0].pluginConfig[0].args.filterTimeout: Invalid value: "-1s": must be zero or positive',
        ),
        (
            {"profiles": [configured("VolumeBinding", shape=[{"utilization": 5}])]},
            'profiles[0].pluginConfig[0].args.shape: Invalid value: [{"Utilization":5,"Score":0}]: unexpected field '
            "`shape`, remove it or turn on the feature gate StorageCapacityScoring",
        ),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b", **without("queueSort")}]},
            'profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":[{"Name":"*","Weight":0}]}: '
            "must be the same for all profiles",
        ),
        (
            {
                "extenders": [
                    {"bindVerb": "b", "managedResources": [{"name": "a.b/c"}, {"name": "a.b/c"}]},
                    {"bindVerb": "b", "managedResources": [{"name": "x.kubernetes.io/y"}]},
                ]
            },
            '[extenders[0].managedResources[1].name: Invalid value: "a.b/c": duplicate extender managed resource name, '
            'extenders[1].managedResources[0].name: Invalid value: "x.kubernetes.io/y": is an invalid extended resource '
            'name, extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement '
            "bind]",
        ),
    ],
)
def test_what_is_wrong_elsewhere_is_told_in_order(config: Tree, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Planner([], config)
    assert str(caught.value) == message
