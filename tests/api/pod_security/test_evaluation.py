"""The pod security standards, check by check."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.pod_security.evaluation import violations
from bayplan.api.pod_security.policy import BASELINE, RESTRICTED, Policy, policies_of
from bayplan.api.types import core_v1, meta_v1

SAFE = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(spec: dict[str, Any], annotations: dict[str, str] | None = None) -> core_v1.Pod:
    """A pod from JSON names; without containers it has a safe one, named c."""
    spec.setdefault("containers", [{"name": "c", "image": "x", "securityContext": SAFE}])
    found = msgspec.convert(spec, core_v1.PodSpec)
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", annotations=annotations or {}), spec=found)


def told(policy: Policy, subject: core_v1.Pod) -> str:
    return ", ".join(map(str, violations(policy, subject.metadata, subject.spec)))


def one(**context: Any) -> dict[str, Any]:
    """A spec with a container, named c, of this security context."""
    return {"containers": [{"name": "c", "image": "x", "securityContext": context}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hostNetwork": True, "hostIPC": True}, "host namespaces (hostNetwork=true, hostIPC=true)"),
        (one(privileged=True), 'privileged (container "c" must not set securityContext.privileged=true)'),
        (
            one(capabilities={"add": ["SYS_ADMIN", "CHOWN", "BPF"]}),
            'non-default capabilities (container "c" must not include "BPF", "SYS_ADMIN" in '
            "securityContext.capabilities.add)",
        ),
        (
            {"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "hostPath": {"path": "/"}}]},
            'hostPath volumes (volumes "a", "b")',
        ),
        (
            {
                "containers": [
                    {"name": "c", "ports": [{"containerPort": 1, "hostPort": 8}, {"containerPort": 2, "hostPort": 9}]}
                ]
            },
            'hostPorts (container "c" uses hostPorts 8, 9)',
        ),
        (
            {"containers": [{"name": "c", "lifecycle": {"preStop": {"tcpSocket": {"host": "a", "port": 1}}}}]},
            'probe or lifecycle host (container "c" uses probe or lifecycle host "a")',
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
        ),
        (
            {
                "securityContext": {"seLinuxOptions": {"type": "bad_t", "user": "u"}},
                **one(seLinuxOptions={"role": "r"}),
            },
            'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: type "bad_t"; '
            "user may not be set; role may not be set)",
        ),
        (
            one(procMount="Unmasked"),
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            one(seccompProfile={"type": "Unconfined"}),
            'seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            {
                "securityContext": {
                    "sysctls": [{"name": "kernel.sem", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}]
                }
            },
            "forbidden sysctls (kernel.sem)",
        ),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        ({}, ""),
    ],
)
def test_baseline_closes_known_ways_out(spec: dict[str, Any], expected: str) -> None:
    assert told(Policy(BASELINE), pod(spec)) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ""),
        (
            one(**{**SAFE, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}),
            'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
        (one(**{**SAFE, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}), ""),
        (
            {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]},
            'restricted volume types (volume "v" uses restricted volume type "nfs")',
        ),
        (
            one(**{**SAFE, "runAsNonRoot": False}),
            'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        ),
        (one(**{**SAFE, "runAsUser": 0}), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
        (
            {"hostNetwork": True, **one(**{**SAFE, "allowPrivilegeEscalation": True})},
            "host namespaces (hostNetwork=true), allowPrivilegeEscalation != false "
            '(container "c" must set securityContext.allowPrivilegeEscalation=false)',
        ),
        (
            {
                "os": {"name": "windows"},
                "securityContext": {"runAsNonRoot": True},
                "containers": [{"name": "c", "image": "x"}],
            },
            "",
        ),
        (
            {
                "hostUsers": False,
                **one(
                    allowPrivilegeEscalation=False, runAsUser=0, capabilities={"drop": ["ALL"]}, procMount="Unmasked"
                ),
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            },
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        ({"volumes": [{"name": "v", "image": {"reference": "r"}}]}, ""),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "x",
                        "securityContext": SAFE,
                        "livenessProbe": {"httpGet": {"host": "1.2.3.4", "port": 80}},
                        "lifecycle": {"postStart": {"httpGet": {"host": "x", "port": 1}}},
                    }
                ]
            },
            'probe or lifecycle host (container "c" uses probe or lifecycle hosts "1.2.3.4", "x")',
        ),
    ],
)
def test_restricted_asks_for_hardening(spec: dict[str, Any], expected: str) -> None:
    assert told(Policy(RESTRICTED), pod(spec)) == expected


def test_old_versions_know_less() -> None:
    spec = {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}}
    assert told(Policy(BASELINE, 31), pod(spec)) == "forbidden sysctls (net.ipv4.tcp_rmem)"
    assert told(Policy(RESTRICTED, 7), pod(one())) == (
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)'
    )


def test_annotations_count_where_fields_did_not_exist_yet() -> None:
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert told(Policy(BASELINE, 18), pod({}, annotations)).startswith("seccompProfile")
    assert told(Policy(BASELINE), pod({}, annotations)) == ""


def policies(**labels: str) -> tuple[list[str], int]:
    """What labels ask for, and how many are wrong."""
    found, errors = policies_of(
        {f"pod-security.kubernetes.io/{key.replace('_', '-')}": one for key, one in labels.items()}
    )
    return list(map(str, found)), len(errors)


def test_warnings_without_a_level_follow_the_enforced_one() -> None:
    latest, old = "privileged:latest", "restricted:v1.30"
    assert policies(enforce="restricted", enforce_version="v1.30") == ([old, latest, old], 0)
    assert policies(enforce="restricted", warn="baseline") == (["restricted:latest", latest, "baseline:latest"], 0)
    assert policies(enforce="restricted", warn_version="v1.2")[0][2] == "restricted:v1.2"


def test_unknown_levels_are_enforced_as_the_strictest_and_else_ignored() -> None:
    latest = "privileged:latest"
    assert policies(enforce="x") == (["restricted:latest", latest, latest], 1)
    assert policies(audit="x", warn="y", enforce_version="z") == ([latest] * 3, 3)
