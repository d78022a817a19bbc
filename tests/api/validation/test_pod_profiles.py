"""Annotations of pods that have a meaning, profiles given twice, and options for Windows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.strategies.base import clone
from bayplan.api.strategies.core.pods import STRATEGY
from tests.api.validation.pods import pod, problems, told

SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/c"
MIRROR = "kubernetes.io/config.mirror"


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        ({SECCOMP: "runtime/default"}, {}, []),
        ({SECCOMP: "own"}, {}, [f"metadata.annotations.{SECCOMP} INVALID"]),
        ({MIRROR: "x"}, {}, [f"metadata.annotations[{MIRROR}] INVALID"]),
        ({f"{APPARMOR}x": "unconfined"}, {}, [f"metadata.annotations[{APPARMOR}x] INVALID"]),
        (
            {SECCOMP: "unconfined"},
            {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
            ["spec.securityContext.seccompProfile.type FORBIDDEN"],
        ),
        (
            {SECCOMP: "localhost/a"},
            {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "b"}}},
            ["spec.securityContext.seccompProfile.localhostProfile FORBIDDEN"],
        ),
        (
            {"scheduler.alpha.kubernetes.io/tolerations": '[{"operator": "Other", "key": "a"}]'},
            {},
            ["metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator NOT_SUPPORTED"],
        ),
    ],
)
def test_annotations_and_fields(annotations: dict[str, str], spec: dict[str, Any], expected: list[str]) -> None:
    assert problems(pod(spec, annotations)) == expected


def test_an_apparmor_annotation_becomes_the_field_and_is_warned_of() -> None:
    made = pod({}, {APPARMOR: "unconfined"})
    context = made.spec.containers[0].security_context
    assert context is not None
    assert context.app_armor_profile is not None
    assert context.app_armor_profile.type == "Unconfined"
    given = pod()
    given.metadata.annotations = {APPARMOR: "unconfined"}
    text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
    assert STRATEGY.early_warnings(given) == [f"metadata.annotations[{APPARMOR}]: {text}"]


def test_a_pod_profile_that_says_the_same_is_enough() -> None:
    made = pod({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, {APPARMOR: "unconfined"})
    assert made.spec.containers[0].security_context is None
    assert STRATEGY.early_warnings(made) == []
    assert STRATEGY.warnings(made, None) == []
    assert problems(made) == []


def test_the_mark_of_a_mirror_pod_and_apparmor_annotations_stay() -> None:
    old = pod({"nodeName": "n"}, {APPARMOR: "unconfined"})
    new = clone(old)
    new.metadata = msgspec.structs.replace(new.metadata, annotations={MIRROR: "x"})
    assert told(STRATEGY.validate_update(new, old)) == [
        f"metadata.annotations[{APPARMOR}] FORBIDDEN",
        f"metadata.annotations[{MIRROR}] FORBIDDEN",
    ]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("user", 0),
        ("DOMAIN\\user", 0),
        ("a.example.com\\user", 0),
        ("", 1),
        ("a\\b\\c", 1),
        ("a\tb", 1),
        ("-bad-.\\user", 0),
        (".bad\\user", 1),
        ("DOMAIN\\", 1),
        ("...", 1),
        ("a*b", 1),
        ("x" * 105, 1),
    ],
)
def test_names_of_windows_users(name: str, count: int) -> None:
    made = pod({"os": {"name": "windows"}, "securityContext": {"windowsOptions": {"runAsUserName": name}}})
    assert problems(made) == ["spec.securityContext.windowsOptions.runAsUserName INVALID"] * count


def test_host_processes_are_all_containers_of_a_pod_on_the_host_network() -> None:
    yes = {"securityContext": {"windowsOptions": {"hostProcess": True}}}
    assert problems(pod({"hostNetwork": True, **yes})) == []
    assert problems(pod(yes)) == ["spec.hostNetwork INVALID"]
    mixed = {"hostNetwork": True, "containers": [{"name": "a", "image": "x", **yes}, {"name": "b", "image": "x"}]}
    assert problems(pod(mixed)) == ["spec INVALID"]
