"""What a resize, a write of status and other changes of pods may do, and what they warn of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api import codec
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.core.pods import STRATEGY
from bayplan.api.types import core_v1
from tests.api.validation.pods import pod, told

replace = msgspec.structs.replace


def resized(old: core_v1.Pod, containers: list[dict[str, Any]]) -> list[str]:
    """What a resize to these containers is told."""
    new = clone(old)
    wanted = codec.from_tree(core_v1.PodSpec, {"containers": containers})
    new.spec = replace(new.spec, containers=wanted.containers)
    STRATEGY.prepare_subresource_update("resize", new, old)
    return told(STRATEGY.validate_subresource_update("resize", new, old))


@pytest.mark.parametrize(("given", "shown"), [("", '""'), ("X", '"X"')])
def test_a_resize_that_adds_or_removes_containers_is_refused_as_it_was_sent(given: str, shown: str) -> None:
    old = pod(resources={"requests": {"cpu": "1"}})
    new = clone(old)
    new.spec = replace(new.spec, containers=())
    new.status = core_v1.PodStatus(qos_class=given)
    STRATEGY.prepare_subresource_update("resize", new, old)
    errors = [str(one) for one in STRATEGY.validate_subresource_update("resize", new, old)]
    assert f"spec: Invalid value: {shown}: Pod QOS Class may not change as a result of resizing" in errors


def test_a_resize_neither_moves_nor_adds_containers() -> None:
    two = [{"name": "a", "image": "x", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"} for _ in "12"]
    two[1]["name"] = "b"
    old = pod({"containers": two})
    assert resized(old, two) == []
    assert resized(old, two[::-1]) == ["spec.containers[0].name FORBIDDEN", "spec.containers[1].name FORBIDDEN"]
    assert resized(old, two[:1]) == ["spec.containers FORBIDDEN"]


def status_problems(status: dict[str, Any], before: dict[str, Any], spec: dict[str, Any] | None = None) -> list[str]:
    old = pod(spec)
    old.status = codec.from_tree(core_v1.PodStatus, {"qosClass": "BestEffort", **before})
    new = clone(old)
    new.status = codec.from_tree(core_v1.PodStatus, {"qosClass": "BestEffort", **status})
    STRATEGY.prepare_status_update(new, old)
    return told(STRATEGY.validate_status_update(new, old))


ENDED: dict[str, Any] = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
RUNS: dict[str, Any] = {"name": "c", "state": {"running": {}}}


@pytest.mark.parametrize(
    ("field", "policy", "expected"),
    [
        ("containerStatuses", "Always", []),
        ("containerStatuses", "OnFailure", []),
        ("containerStatuses", "Never", ["status.containerStatuses[0].state FORBIDDEN"]),
        ("ephemeralContainerStatuses", "Always", ["status.ephemeralContainerStatuses[0].state FORBIDDEN"]),
    ],
)
def test_what_ended_starts_again_only_where_it_may(field: str, policy: str, expected: list[str]) -> None:
    assert status_problems({field: [RUNS]}, {field: [ENDED]}, {"restartPolicy": policy}) == expected


def test_what_ended_starts_again_where_a_rule_restarts_all_containers() -> None:
    exits = {"operator": "In", "values": [42]}
    rule = {"action": "RestartAllContainers", "exitCodes": exits}
    containers = [{"name": "c", "image": "x"}, {"name": "w", "image": "x", "restartPolicyRules": [rule]}]
    spec = {"restartPolicy": "Never", "containers": containers, "initContainers": [{"name": "i", "image": "x"}]}
    started, ended = {**RUNS, "name": "i"}, {**ENDED, "name": "i"}
    for field, now, then in (("containerStatuses", RUNS, ENDED), ("initContainerStatuses", started, ended)):
        assert status_problems({field: [now]}, {field: [then]}, spec) == []
    rule["action"] = "Restart"
    assert status_problems({"containerStatuses": [RUNS]}, {"containerStatuses": [ENDED]}, spec) != []


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"user": {"linux": {"uid": 1, "gid": -1}}}, ["status.containerStatuses[0].linux.gid INVALID"]),
        (
            {"allocatedResourcesStatus": [{"name": "example.com/gpu", "resources": []}]},
            ["status.containerStatuses[0].allocatedResourcesStatus[0].name INVALID"],
        ),
        (
            {
                "allocatedResourcesStatus": [
                    {
                        "name": "claim:x",
                        "resources": [{"resourceID": "a", "health": "Healthy"}, {"resourceID": "a", "health": "Ill"}],
                    }
                ]
            },
            [
                "status.containerStatuses[0].allocatedResourcesStatus[0].name INVALID",
                "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].health NOT_SUPPORTED",
                "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID DUPLICATE",
            ],
        ),
    ],
)
def test_users_and_health_of_containers(container: dict[str, Any], expected: list[str]) -> None:
    assert status_problems({"containerStatuses": [{"name": "c", **container}]}, {}) == expected


@pytest.mark.parametrize(
    ("status", "spec", "expected"),
    [
        (
            {"observedGeneration": 0, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 0}]},
            {},
            [],
        ),
        ({"observedGeneration": -1}, {}, ["observedGeneration INVALID"]),
        (
            {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": -1}]},
            {},
            ["conditions[0].observedGeneration INVALID"],
        ),
        ({"conditions": [{"type": "a b", "status": "True"}]}, {}, ["conditions[0].Type INVALID"]),
        ({"nominatedNodeName": "n"}, {}, []),
        ({"nominatedNodeName": "N"}, {}, ["nominatedNodeName INVALID"]),
        ({"nominatedNodeName": "n"}, {"nodeName": "m"}, ["nominatedNodeName FORBIDDEN"]),
        ({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}, {}, []),
        ({"hostIP": "10.0.0.2", "hostIPs": [{"ip": "10.0.0.1"}]}, {}, ["hostIPs[0].ip INVALID"]),
        ({"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "x"}]}, {}, []),
        ({"resourceClaimStatuses": [{"name": "a"}]}, {}, []),
        ({"resourceClaimStatuses": [{"name": "b"}]}, {}, ["resourceClaimStatuses[0].name INVALID"]),
        (
            {"resourceClaimStatuses": [{"name": "a"}, {"name": "a"}]},
            {},
            ["resourceClaimStatuses[1].name DUPLICATE"],
        ),
        (
            {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "X"}]},
            {},
            ["resourceClaimStatuses[0].name INVALID"],
        ),
    ],
)
def test_status_of_a_pod(status: dict[str, Any], spec: dict[str, Any], expected: list[str]) -> None:
    claims = {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}
    assert status_problems(status, {}, {**claims, **spec}) == [f"status.{one}" for one in expected]


def test_a_node_that_was_nominated_stays_so_once_the_pod_is_bound() -> None:
    nominated = {"nominatedNodeName": "n"}
    assert status_problems(nominated, nominated, {"nodeName": "m"}) == []


@pytest.mark.parametrize(
    ("now", "then", "policies", "is_allowed"),
    [
        (RUNS, ENDED, {}, False),
        (ENDED, ENDED, {}, True),
        (RUNS, RUNS, {}, True),
        (RUNS, {**ENDED, "name": "other"}, {}, True),
        (RUNS, ENDED, {"restartPolicy": "OnFailure"}, True),
        (RUNS, {"name": "c", "state": {"terminated": {"exitCode": 0}}}, {"restartPolicy": "OnFailure"}, False),
    ],
)
def test_what_ended_stays_so(
    now: dict[str, Any], then: dict[str, Any], policies: dict[str, str], is_allowed: bool
) -> None:
    found = status_problems(
        {"containerStatuses": [now]}, {"containerStatuses": [then]}, {"restartPolicy": "Never", **policies}
    )
    assert found == ([] if is_allowed else ["status.containerStatuses[0].state FORBIDDEN"])


@pytest.mark.parametrize(
    ("kind", "restarts", "is_allowed"),
    [("initContainers", None, False), ("initContainers", "Always", True), ("containers", None, False), ("containers", "OnFailure", True)],
)  # fmt: skip
def test_containers_with_a_policy_of_their_own_start_again(kind: str, restarts: str | None, is_allowed: bool) -> None:
    one = {"name": "one", "image": "x", **({"restartPolicy": restarts} if restarts else {})}
    plain = {"name": "c", "image": "x"}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [plain], "initContainers": []}
    spec[kind] = [*spec[kind], one]
    field = "containerStatuses" if kind == "containers" else "initContainerStatuses"
    started, ended = {**RUNS, "name": "one"}, {**ENDED, "name": "one"}
    expected = [] if is_allowed else [f"status.{field}[0].state FORBIDDEN"]
    assert status_problems({field: [started]}, {field: [ended]}, spec) == expected


def test_conditions_keep_the_generation_they_were_observed_at() -> None:
    old = pod()
    old.status = codec.from_tree(
        core_v1.PodStatus,
        {"observedGeneration": 3, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]},
    )
    new = clone(old)
    new.status = codec.from_tree(core_v1.PodStatus, {"conditions": [{"type": "Ready", "status": "False"}]})
    STRATEGY.prepare_status_update(new, old)
    assert new.status.observed_generation == 3
    assert [condition.observed_generation for condition in new.status.conditions] == [2]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([{"containerPort": 80}, {"containerPort": 80}], ["duplicate"]),
        ([{"containerPort": 80, "hostPort": 8080}, {"containerPort": 80}], ["overlapping"]),
        (
            [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}, {"containerPort": 80, "hostPort": 8080}],
            ["dangerously ambiguous"],
        ),
        ([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}], []),
    ],
)
def test_ports_that_meet_are_warned_of(ports: list[dict[str, Any]], expected: list[str]) -> None:
    first, second = "spec.containers[0].ports[0]", "spec.containers[0].ports[1]"
    assert STRATEGY.warnings(pod(ports=ports), None) == [
        f"{second}: {word} port definition with {first}" for word in expected
    ]


def test_a_host_address_needs_a_host_port() -> None:
    found = STRATEGY.warnings(pod(ports=[{"containerPort": 80, "hostIP": "10.0.0.1"}]), None)
    shown = "{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}"
    assert found == [f"spec.containers[0].ports[0]: hostIP set without hostPort: {shown}"]


def test_updates_of_pods_do_not_warn() -> None:
    old = pod(ports=[{"containerPort": 80}, {"containerPort": 80}])
    new = clone(old)
    new.spec.containers[0].image = "y"
    new.status = old.status
    assert STRATEGY.warnings(new, old) == []
