"""VerticalPodAutoscaler objects: what they ask for, and the status that they get."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import meta_v1
from bayplan.controllers.autoscaling.vpa_objects import AutoscalerError, autoscaler_of, status_of, target_of
from bayplan.controllers.autoscaling.vpa_rules import Policy, Recommendation, may_evict

KINDS = ("Deployment", "StatefulSet", "DaemonSet")
METADATA = meta_v1.ObjectMeta(name="v", namespace="shop")
NOW, BEFORE = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
FOUND = Recommendation("main", {"cpu": 300}, {"cpu": 200}, {"cpu": 300}, {"cpu": 400})


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, **fields}}


def test_the_target_is_a_workload_of_the_same_namespace() -> None:
    assert target_of(METADATA, spec(), KINDS) == "Deployment/shop/web"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "spec: must be an object"),
        ({"spec": {}}, "spec.targetRef: must be an object"),
        (spec(targetRef={"apiVersion": "apps/v1", "kind": "Job", "name": "web"}), "'Job' of 'apps/v1' is not one of"),
        (spec(targetRef={"apiVersion": "x/v1", "kind": "Deployment", "name": "web"}), "'Deployment' of 'x/v1' is not"),
        (spec(targetRef={"apiVersion": "apps/v1", "kind": "Deployment"}), "spec.targetRef.name: must name"),
    ],
)
def test_targets_that_are_refused(content: dict[str, Any], told: str) -> None:
    with pytest.raises(AutoscalerError) as refused:
        target_of(METADATA, content, KINDS)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [(None, "Recreate"), ("Auto", "Recreate"), ("Off", "Off"), ("InPlaceOrRecreate", "InPlaceOrRecreate")],
)
def test_modes(written: str | None, meant: str) -> None:
    update = {} if written is None else {"updatePolicy": {"updateMode": written}}
    assert autoscaler_of(spec(**update)).mode == meant


def test_policies_are_for_one_container_or_for_all_others() -> None:
    policies = [
        {
            "containerName": "*",
            "minAllowed": {"cpu": "100m", "example.com/gpu": "1"},
            "controlledValues": "RequestsOnly",
        },
        {"containerName": "side", "mode": "Off", "controlledResources": ["memory"], "maxAllowed": {"memory": "1Ki"}},
    ]
    found = autoscaler_of(spec(resourcePolicy={"containerPolicies": policies}, updatePolicy={"minReplicas": 1}))
    assert found.least_replicas == 1
    assert found.of(["main", "side"]) == {
        "main": Policy({"cpu": 100}, {}, requests_only=True),
        "side": Policy({}, {"memory": 1024}, ("memory",), off=True),
    }
    assert autoscaler_of(spec()).of(["main"]) == {"main": Policy()}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"updatePolicy": {"updateMode": "Maybe"}}, "spec.updatePolicy.updateMode: 'Maybe' is not one of"),
        ({"updatePolicy": {"minReplicas": 0}}, "spec.updatePolicy.minReplicas: 0 must be"),
        ({"updatePolicy": []}, None),
        ({"resourcePolicy": {"containerPolicies": ["x"]}}, "containerPolicies[0]: must be an object"),
        ({"resourcePolicy": {"containerPolicies": [{"mode": "On"}]}}, "[0].mode: 'On' is neither Auto nor Off"),
        (
            {"resourcePolicy": {"containerPolicies": [{"controlledValues": "X"}]}},
            "[0].controlledValues: 'X' is neither",
        ),
        (
            {"resourcePolicy": {"containerPolicies": [{"controlledResources": ["gpu"]}]}},
            "'gpu' is not one of cpu, memory",
        ),
        ({"resourcePolicy": {"containerPolicies": [{"maxAllowed": {"cpu": "lots"}}]}}, "[0].maxAllowed.cpu: "),
    ],
)
def test_what_is_refused(fields: dict[str, Any], told: str | None) -> None:
    if told is None:
        assert autoscaler_of(spec(**fields)).mode == "Recreate"
        return
    with pytest.raises(AutoscalerError) as refused:
        autoscaler_of(spec(**fields))
    assert told in str(refused.value)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["lastTransitionTime"]) for one in status["conditions"]}


def test_a_status_keeps_when_its_conditions_changed() -> None:
    first = status_of({}, [], problem="", has_pods=True, now=BEFORE)
    assert conditions(first) == {"RecommendationProvided": ("False", BEFORE)}
    assert status_of(first, [], problem="", has_pods=True, now=NOW) == first
    second = status_of(first, [FOUND], problem="", has_pods=True, now=NOW)
    assert conditions(second) == {"RecommendationProvided": ("True", NOW)}
    assert second["recommendation"]["containerRecommendations"][0]["target"] == {"cpu": "300m"}
    third = status_of(second, [], problem="", has_pods=False, now=NOW)
    assert conditions(third) == {"RecommendationProvided": ("True", NOW), "NoPodsMatched": ("True", NOW)}
    fourth = status_of(third, [], problem="so it is", has_pods=False, now=NOW)
    assert set(conditions(fourth)) == {"RecommendationProvided", "ConfigUnsupported"}
    assert fourth["conditions"][1]["message"] == "so it is"


@pytest.mark.parametrize(
    ("configured", "running", "evicted", "least", "may"),
    [
        (1, 1, 0, 2, False),
        (1, 1, 0, 1, True),
        (1, 1, 1, 1, False),
        (2, 2, 0, 2, True),
        (2, 2, 1, 2, False),
        (3, 3, 0, 4, False),
    ],
)
def test_how_many_pods_must_be_there(configured: int, running: int, evicted: int, least: int, may: bool) -> None:
    assert may_evict(configured, running, evicted, least) is may
