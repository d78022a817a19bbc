"""Mounts and devices of containers. Expected values are those of `ValidateVolumeMounts` and `ValidateVolumeDevices`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.validation.pods import pod, problems

PATH = "spec.containers[0]."
VOLUMES = {
    "volumes": [
        {"name": "files", "emptyDir": {}},
        {"name": "block", "persistentVolumeClaim": {"claimName": "b"}},
        {"name": "other", "persistentVolumeClaim": {"claimName": "o"}},
        {
            "name": "made",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
                }
            },
        },
    ]
}


def device(name: str = "block", path: str = "/dev/b") -> dict[str, str]:
    return {"name": name, "devicePath": path}


def mount(name: str = "files", path: str = "/m", **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


def found(mounts: list[dict[str, Any]], devices: list[dict[str, str]], **container: Any) -> list[str]:
    one = pod(VOLUMES, volumeMounts=mounts, volumeDevices=devices, **container)
    return [text.removeprefix(PATH) for text in problems(one)]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([device()], []),
        ([device("made")], []),
        ([device(), device("other", "/dev/o")], []),
        ([device("files")], ["volumeDevices[0].name INVALID"]),
        ([device("absent")], ["volumeDevices[0].name NOT_FOUND"]),
        ([device(), device("block", "/dev/o")], ["volumeDevices[1].name INVALID"]),
        ([device(), device("other")], ["volumeDevices[1].devicePath INVALID"]),
        ([device(path="/dev/../b")], ["volumeDevices[0].devicePath INVALID"]),
        ([device(path="/dev/..b")], []),
        ([device(path="")], ["volumeDevices[0].devicePath REQUIRED"]),
    ],
)
def test_devices(devices: list[dict[str, str]], expected: list[str]) -> None:
    assert found([], devices) == expected


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ([mount()], []),
        ([mount("block")], ["volumeMounts[0].name INVALID", "volumeDevices[0].name INVALID"]),
        ([mount("files", "/dev/b")], ["volumeMounts[0].mountPath INVALID", "volumeDevices[0].devicePath INVALID"]),
    ],
)
def test_a_volume_is_a_file_system_or_a_device(mounts: list[dict[str, Any]], expected: list[str]) -> None:
    assert found(mounts, [device()]) == expected


@pytest.mark.parametrize(
    ("mode", "more", "expected"),
    [
        ("Disabled", {}, []),
        ("Disabled", {"readOnly": True, "mountPropagation": "HostToContainer"}, []),
        ("Enabled", {"readOnly": True}, []),
        ("IfPossible", {"readOnly": True, "mountPropagation": "None"}, []),
        ("Enabled", {}, ["FORBIDDEN"]),
        ("IfPossible", {"readOnly": True, "mountPropagation": "HostToContainer"}, ["FORBIDDEN"]),
        ("Enabled", {"mountPropagation": "HostToContainer"}, ["FORBIDDEN", "FORBIDDEN"]),
        ("Else", {"readOnly": True}, ["NOT_SUPPORTED"]),
        ("", {"readOnly": True}, ["NOT_SUPPORTED"]),
    ],
)
def test_mounts_that_are_only_read_all_the_way_down(mode: str, more: dict[str, Any], expected: list[str]) -> None:
    assert found([mount(recursiveReadOnly=mode, **more)], []) == [
        f"volumeMounts.recursiveReadOnly {kind}" for kind in expected
    ]


@pytest.mark.parametrize(
    ("mode", "context", "expected"),
    [
        ("None", {}, []),
        ("HostToContainer", {}, []),
        ("HostToContainer", {"privileged": True}, []),
        ("Bidirectional", {"privileged": True}, []),
        ("Bidirectional", {"privileged": False}, ["FORBIDDEN"]),
        ("Bidirectional", {}, ["FORBIDDEN"]),
        ("Bidirectional", None, ["FORBIDDEN"]),
        ("Else", {}, ["NOT_SUPPORTED"]),
    ],
)
def test_mounts_go_back_to_the_host_from_privileged_containers(
    mode: str, context: dict[str, Any] | None, expected: list[str]
) -> None:
    more = {} if context is None else {"securityContext": context}
    assert found([mount(mountPropagation=mode)], [], **more) == [
        f"volumeMounts.mountPropagation {kind}" for kind in expected
    ]
