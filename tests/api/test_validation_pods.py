"""Rules for pods beyond the recorded cases."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.core.pods import STRATEGY
from bayplan.api.types import core_v1
from bayplan.api.validation.resources import check_requirements


def pod(spec: dict[str, Any] | None = None, **container: Any) -> core_v1.Pod:
    """A pod of one container as the server would keep it."""
    tree = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "containers": [{"name": "c", "image": "x", **container}],
            "serviceAccountName": "default",
            **(spec or {}),
        },
    }
    found: core_v1.Pod = codec.from_tree(core_v1.Pod, tree)
    STRATEGY.default(found)
    STRATEGY.prepare_create(found)
    return found


def problems(one: core_v1.Pod) -> list[str]:
    """What is wrong with a new pod."""
    return [f"{error.field} {error.type.name}" for error in (*STRATEGY.validate(one), *STRATEGY.validate_create(one))]


@pytest.mark.parametrize(
    ("spec", "container", "expected"),
    [
        ({}, {}, []),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            [],
        ),
        (
            {},
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            ["spec.containers[0].volumeMounts[0].name NOT_FOUND"],
        ),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, {}, ["spec.volumes[1].name DUPLICATE"]),
        ({"hostname": "a.b"}, {}, ["spec.hostname INVALID"]),
        ({"hostnameOverride": "a" * 62 + ".b"}, {}, []),
        ({"hostnameOverride": "a" * 63 + ".b"}, {}, ["spec.hostnameOverride TOO_LONG"]),
        ({"activeDeadlineSeconds": 0}, {}, ["spec.activeDeadlineSeconds INVALID"]),
        (
            {"hostNetwork": True},
            {"ports": [{"containerPort": 80, "hostPort": 81}]},
            ["spec.containers[0].ports[0].hostPort INVALID"],
        ),
        (
            {},
            {"resources": {"limits": {"hugepages-2Mi": "3Mi"}}},
            [
                "spec.containers[0].resources.limits[hugepages-2Mi] INVALID",
                "spec.containers[0].resources.requests[hugepages-2Mi] INVALID",
                "spec.containers[0].resources FORBIDDEN",
            ],
        ),
        ({}, {"resources": {"requests": {"example.com/gpu": "1"}}}, ["spec.containers[0].resources.limits REQUIRED"]),
        ({}, {"resources": {"claims": [{"name": "a"}]}}, ["spec.containers[0].resources.claims[0] NOT_FOUND"]),
        ({"os": {"name": "windows"}, "hostPID": True}, {}, ["spec.hostPID FORBIDDEN"]),
        ({"os": {"name": "plan9"}}, {}, ["spec.os NOT_SUPPORTED"]),
        ({"overhead": {"cpu": "-1"}}, {}, ["spec.overhead.limits[cpu] INVALID"]),
        ({}, {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]}, []),
        ({}, {"lifecycle": {"preStop": {"exec": {}}}}, ["spec.containers[0].lifecycle.preStop.exec.command REQUIRED"]),
        (
            {"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"tcpSocket": {"port": 1}}}]},
            {},
            ["spec.initContainers[0].livenessProbe FORBIDDEN"],
        ),
        ({"ephemeralContainers": [{"name": "e", "image": "x"}]}, {}, ["spec.ephemeralContainers FORBIDDEN"]),
        (
            {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}, "hostNetwork": True},
            {},
            ["spec.securityContext.sysctls[0].name INVALID"],
        ),
    ],
)
def test_new_pods(spec: dict[str, Any], container: dict[str, Any], expected: list[str]) -> None:
    assert problems(pod(spec, **container)) == expected


@pytest.mark.parametrize(
    ("limits", "requests", "is_refused"),
    [
        ({"hugepages-2Mi": "4Mi"}, {}, True),
        ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}, True),
        ({"hugepages-2Mi": "4Mi", "cpu": "1"}, {}, False),
        ({"hugepages-2Mi": "4Mi", "memory": "1Gi"}, {}, False),
        ({"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}, {}, True),
        ({"hugepages-2Mi": "4Mi"}, {"cpu": "1"}, False),
        ({"ephemeral-storage": "1Gi"}, {}, False),
    ],
)
def test_huge_pages_come_with_cpu_or_memory_as_a_limit_or_a_request(
    limits: dict[str, str], requests: dict[str, str], is_refused: bool
) -> None:
    errors: list[FieldError] = []
    check_requirements(errors, "resources", limits, requests, lambda errors, path, name: None)
    assert [error.detail for error in errors] == ["HugePages require cpu or memory"] * is_refused


def update_problems(old: core_v1.Pod, new: core_v1.Pod) -> list[str]:
    """What is wrong with a change."""
    return [error.field for error in STRATEGY.validate_update(new, old)]


def test_images_may_change_and_the_old_pod_stays_as_it_is() -> None:
    old, new = pod(), pod(image="y")
    before = clone(old)
    assert not update_problems(old, new)
    assert old == before


def test_other_fields_may_not_change() -> None:
    assert update_problems(pod(), pod(command=["x"])) == ["spec"]


def test_tolerations_are_only_added() -> None:
    one, two = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}
    assert not update_problems(pod({"tolerations": [one]}), pod({"tolerations": [two, one]}))
    assert update_problems(pod({"tolerations": [one]}), pod({"tolerations": [two]})) == ["spec.tolerations"]


def test_resize_changes_cpu_and_memory_alone() -> None:
    old = pod(resources={"requests": {"cpu": "1"}})
    new = pod(resources={"requests": {"cpu": "2"}}, command=["x"])
    STRATEGY.prepare_subresource_update("resize", new, old)
    assert new.spec.containers[0].command == ()
    assert not STRATEGY.validate_subresource_update("resize", new, old)
    gone = pod()
    STRATEGY.prepare_subresource_update("resize", gone, old)
    fields = {error.field for error in STRATEGY.validate_subresource_update("resize", gone, old)}
    assert fields == {"spec", "spec.containers[0].resources.requests"}


def test_ephemeral_containers_are_only_added() -> None:
    old = pod()
    old.spec.ephemeral_containers = (core_v1.EphemeralContainer(name="e", image="x"),)
    STRATEGY.default(old)
    new = clone(old)
    new.spec.ephemeral_containers = ()
    found = STRATEGY.validate_subresource_update("ephemeralcontainers", new, old)
    assert [error.field for error in found] == ["spec.ephemeralContainers"]


def test_terminated_containers_of_pods_that_never_restart_stay_terminated() -> None:
    ended = core_v1.ContainerState(terminated=core_v1.ContainerStateTerminated(exit_code=0))
    old = pod({"restartPolicy": "Never"})
    old.status.container_statuses = (core_v1.ContainerStatus(name="c", state=ended),)
    new = clone(old)
    new.status.container_statuses = (core_v1.ContainerStatus(name="c"),)
    found = STRATEGY.validate_status_update(new, old)
    assert [error.field for error in found] == ["status.containerStatuses[0].state"]


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_ways_in_for_containers_begin_no_deletion(subresource: str) -> None:
    old, new = pod(), pod()
    new.metadata.deletion_timestamp, new.metadata.deletion_grace_period_seconds = "2020-01-01T00:00:00Z", 7
    STRATEGY.prepare_subresource_update(subresource, new, old)
    kept = (new.metadata.deletion_timestamp, new.metadata.deletion_grace_period_seconds)
    assert kept == (old.metadata.deletion_timestamp, old.metadata.deletion_grace_period_seconds)


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (("10.0.0.1", "::1"), []),
        (("old",), []),
        (("10.0.0.1", "10.0.0.1"), ["status.podIPs"]),
        (("10.0.0.1", "x"), ["status.podIPs[1]", "status.podIPs", "status.podIPs"]),
    ],
)
def test_pods_have_one_address_of_each_family(addresses: tuple[str, ...], expected: list[str]) -> None:
    old = pod()
    old.status.pod_ips = (core_v1.PodIP(ip="old"),)
    new = clone(old)
    new.status.pod_ips = tuple(core_v1.PodIP(ip=one) for one in addresses)
    assert [error.field for error in STRATEGY.validate_status_update(new, old)] == expected


def test_claims_for_extended_resources_name_what_containers_request() -> None:
    old = pod(resources={"requests": {"a.b/c": "1"}, "limits": {"a.b/c": "1"}})
    new = clone(old)
    new.status.extended_resource_claim_status = core_v1.PodExtendedResourceClaimStatus()
    path = "status.extendedResourceClaimStatus"
    fields = [error.field for error in STRATEGY.validate_status_update(new, old)]
    assert fields == [f"{path}.requestMappings", f"{path}.resourceClaimName"]
    good = core_v1.ContainerExtendedResourceRequest(
        container_name=old.spec.containers[0].name, resource_name="a.b/c", request_name="r"
    )
    other = core_v1.ContainerExtendedResourceRequest(container_name="nosuch", resource_name="a.b/c", request_name="R")
    claim = core_v1.PodExtendedResourceClaimStatus(request_mappings=(good,), resource_claim_name="claim")
    new.status.extended_resource_claim_status = claim
    assert not STRATEGY.validate_status_update(new, old)
    claim.request_mappings = (good, good, other)
    fields = [error.field.removeprefix(f"{path}.") for error in STRATEGY.validate_status_update(new, old)]
    repeated = [f"requestMappings[1].{name}" for name in ("containerName", "resourceName", "requestName")]
    assert fields == [*repeated, "requestMappings[2].containerName", "requestName"]
