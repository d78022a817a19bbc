"""Defaults of pods."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.defaults.images import pull_policy
from bayplan.api.defaults.pods import qos_class
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.core.pods import STRATEGY
from bayplan.api.types import core_v1


def pod(spec: dict[str, Any] | None = None, **container: Any) -> core_v1.Pod:
    """A defaulted pod of one container."""
    tree = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "x", **container}], **(spec or {})},
    }
    found: core_v1.Pod = codec.from_tree(core_v1.Pod, tree)
    STRATEGY.default(found)
    return found


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("x:1", "IfNotPresent"),
        ("registry.example.com:5000/a/b", "Always"),
        ("registry.example.com:5000/a/b:v1", "IfNotPresent"),
        ("x@sha256:" + "0" * 64, "IfNotPresent"),
        ("Not An Image", "IfNotPresent"),
    ],
)
def test_images_are_pulled_always_when_they_may_change(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_quantities_are_spelled_canonically_and_limits_become_requests() -> None:
    resources = (
        pod(resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}})
        .spec.containers[0]
        .resources
    )
    assert resources.limits == {"cpu": "1", "memory": "1Gi"}
    assert resources.requests == {"cpu": "500m", "memory": "1Gi"}


def test_malformed_quantities_are_told_as_decoding_does() -> None:
    with pytest.raises(codec.DecodeError, match="quantities must match"):
        pod(resources={"limits": {"cpu": "lots"}})


def test_defaulting_twice_changes_nothing() -> None:
    once = pod(
        {"hostNetwork": True, "volumes": [{"name": "v"}]},
        ports=[{"containerPort": 80}],
        livenessProbe={"tcpSocket": {"port": 1}},
    )
    twice = clone(once)
    STRATEGY.default(twice)
    assert twice == once
    assert once.spec.containers[0].ports[0].host_port == 80
    assert once.spec.volumes[0].empty_dir is not None


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service_follows_from_cpu_and_memory(resources: dict[str, Any], expected: str) -> None:
    assert qos_class(pod(resources=resources).spec) == expected


def test_pod_resources_default_to_what_the_containers_need_at_most() -> None:
    spec = {
        "resources": {"limits": {"cpu": "4", "memory": "4Gi"}},
        "initContainers": [
            {"name": "s", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
            {"name": "i", "image": "x", "resources": {"requests": {"cpu": "2"}}},
        ],
    }
    found = pod(spec, resources={"requests": {"cpu": "1"}}).spec.resources
    assert found is not None
    assert found.requests == {"cpu": "2100m", "memory": "4Gi"}


def test_gated_pods_say_that_they_wait() -> None:
    found = pod({"schedulingGates": [{"name": "example.com/a"}]})
    found.metadata.creation_timestamp = "2030-01-01T00:00:00Z"
    STRATEGY.prepare_create(found)
    (condition,) = found.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "SchedulingGated")
    assert condition.last_transition_time == "2030-01-01T00:00:00Z"


def test_match_label_keys_become_part_of_the_selector() -> None:
    found = pod(
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {},
                    "matchLabelKeys": ["rev", "absent"],
                }
            ]
        }
    )
    found.metadata.labels = {"rev": "3"}
    STRATEGY.prepare_create(found)
    selector = found.spec.topology_spread_constraints[0].label_selector
    assert selector is not None
    assert [(one.key, one.operator, one.values) for one in selector.match_expressions] == [("rev", "In", ("3",))]
