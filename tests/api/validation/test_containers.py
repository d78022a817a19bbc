"""Containers at the bounds of their rules, which are those of `validateContainers` (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.validation.pods import pod, problems

PATH = "spec.containers[0]."


def found(spec: dict[str, Any] | None = None, **container: Any) -> list[str]:
    return [text.removeprefix(PATH) for text in problems(pod(spec, **container))]


def rule(action: str = "Restart", operator: str = "In", codes: int = 1) -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": [*range(1, codes + 1)]}}


WHERE = "restartPolicyRules[0]"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule()], []),
        ([rule("RestartAllContainers", "NotIn")], []),
        ([rule("Else")], [f"{WHERE}.action NOT_SUPPORTED"]),
        ([rule(operator="Else")], [f"{WHERE}.exitCodes.operator NOT_SUPPORTED"]),
        ([{"action": "Restart"}], [f"{WHERE}.exitCodes REQUIRED"]),
        ([rule(codes=255)], []),
        ([rule(codes=256)], [f"{WHERE}.exitCodes.values TOO_MANY"]),
        ([rule()] * 20, []),
        ([rule()] * 21, ["restartPolicyRules TOO_MANY"]),
    ],
)
def test_rules_for_restarts(rules: list[dict[str, Any]], expected: list[str]) -> None:
    assert found(restartPolicy="Never", restartPolicyRules=rules) == expected


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ({"containerPort": 1}, []),
        ({"containerPort": 65535}, []),
        ({"containerPort": 65536}, ["ports[0].containerPort INVALID"]),
        ({"containerPort": -1}, ["ports[0].containerPort INVALID"]),
        ({"containerPort": 0}, ["ports[0].containerPort REQUIRED"]),
        ({"containerPort": 1, "hostPort": 1}, []),
        ({"containerPort": 1, "hostPort": 65535}, []),
        ({"containerPort": 1, "hostPort": 65536}, ["ports[0].hostPort INVALID"]),
        ({"containerPort": 1, "hostPort": -1}, ["ports[0].hostPort INVALID"]),
    ],
)
def test_ports(port: dict[str, Any], expected: list[str]) -> None:
    assert found(ports=[port]) == expected


@pytest.mark.parametrize("image", [" x", "x ", " x "])
def test_images_are_not_padded(image: str) -> None:
    assert found(image=image) == ["image INVALID"]


@pytest.mark.parametrize(
    ("restarts", "policy", "expected"),
    [
        ("Always", "RestartContainer", []),
        ("Always", "NotRequired", []),
        ("Never", "NotRequired", []),
        ("Never", "RestartContainer", ["resizePolicy INVALID"]),
        ("OnFailure", "RestartContainer", []),
    ],
)
def test_resizes_of_pods_that_never_restart(restarts: str, policy: str, expected: list[str]) -> None:
    policies = [{"resourceName": "cpu", "restartPolicy": policy}]
    assert found({"restartPolicy": restarts}, resizePolicy=policies) == expected


MOST = 2**31 - 1


@pytest.mark.parametrize("name", ["runAsUser", "runAsGroup"])
@pytest.mark.parametrize(("number", "is_allowed"), [(0, True), (MOST, True), (-1, False), (MOST + 1, False)])
def test_users_and_groups(name: str, number: int, is_allowed: bool) -> None:
    assert found(securityContext={name: number}) == ([] if is_allowed else [f"securityContext.{name} INVALID"])
    in_pod = problems(pod({"securityContext": {name: number}}))
    assert in_pod == ([] if is_allowed else [f"spec.securityContext.{name} INVALID"])


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"allowPrivilegeEscalation": False}, []),
        ({"allowPrivilegeEscalation": False, "capabilities": {"add": ["NET_ADMIN"]}}, []),
        ({"allowPrivilegeEscalation": True, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}, []),
        (
            {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}},
            ["securityContext INVALID"],
        ),
        ({"allowPrivilegeEscalation": False, "privileged": True}, ["securityContext INVALID"]),
    ],
)
def test_no_more_privileges_and_more_of_them(context: dict[str, Any], expected: list[str]) -> None:
    assert found(securityContext=context) == expected


@pytest.mark.parametrize(
    ("shares", "host", "expected"),
    [
        (True, False, []),
        (False, True, []),
        (False, False, []),
        (True, True, ["spec.securityContext.shareProcessNamespace INVALID"]),
    ],
)
def test_processes_are_shared_within_the_pod_or_with_the_host(shares: bool, host: bool, expected: list[str]) -> None:
    spec = {"shareProcessNamespace": shares, "hostPID": host, "securityContext": {}}
    assert problems(pod(spec)) == expected


@pytest.mark.parametrize(
    ("name", "namespaces", "is_allowed"),
    [
        ("net.core.somaxconn", {}, True),
        ("net.core.somaxconn", {"hostNetwork": True}, False),
        ("net/core/somaxconn", {"hostNetwork": True}, False),
        ("kernel.sem", {"hostNetwork": True}, True),
        ("net.core.somaxconn", {"hostIPC": True}, True),
        ("kernel.sem", {"hostIPC": True}, False),
        ("kernel.semaphore", {"hostIPC": True}, True),
        ("kernel.sem", {}, True),
        ("kernel.shmmax", {"hostIPC": True}, False),
        ("kernel.msgmax", {"hostIPC": True}, False),
        ("fs.mqueue.msg_max", {"hostIPC": True}, False),
        ("kernel.shmmax", {}, True),
    ],
)
def test_sysctls_of_what_the_host_shares(name: str, namespaces: dict[str, bool], is_allowed: bool) -> None:
    spec = {"securityContext": {"sysctls": [{"name": name, "value": "1"}]}, **namespaces}
    assert problems(pod(spec)) == ([] if is_allowed else ["spec.securityContext.sysctls[0].name INVALID"])


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"type": "Localhost", "localhostProfile": "a"}, []),
        ({"type": "Localhost", "localhostProfile": "a" * 4095}, []),
        ({"type": "Localhost", "localhostProfile": "a" * 4096}, ["localhostProfile TOO_LONG"]),
        ({"type": "Localhost"}, ["localhostProfile REQUIRED"]),
        ({"type": "Localhost", "localhostProfile": ""}, ["localhostProfile REQUIRED"]),
        ({"type": "Localhost", "localhostProfile": " "}, ["localhostProfile INVALID"]),
        ({"type": "Localhost", "localhostProfile": "a "}, ["localhostProfile INVALID"]),
        ({"type": "RuntimeDefault"}, []),
        ({"type": "RuntimeDefault", "localhostProfile": "a"}, ["localhostProfile INVALID"]),
        ({"type": ""}, ["type REQUIRED"]),
        ({"type": "Else"}, ["type NOT_SUPPORTED"]),
    ],
)
def test_apparmor_profiles(profile: dict[str, str], expected: list[str]) -> None:
    assert found(securityContext={"appArmorProfile": profile}) == [
        f"securityContext.appArmorProfile.{one}" for one in expected
    ]


@pytest.mark.parametrize(("length", "is_allowed"), [(1, True), (64 * 1024, True), (64 * 1024 + 1, False), (0, False)])
def test_credential_specs_of_windows(length: int, is_allowed: bool) -> None:
    options = {"gmsaCredentialSpec": "x" * length}
    expected = [] if is_allowed else ["securityContext.windowsOptions.gmsaCredentialSpec INVALID"]
    assert found(securityContext={"windowsOptions": options}) == expected
