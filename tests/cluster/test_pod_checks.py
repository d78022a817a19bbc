"""What a kubelet asks of a pod besides resources."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.api.declared_features import HOST_NETWORK_USERS, RESTART_ALL
from bayplan.api.types import core_v1
from bayplan.cluster.kubelet_node.pod_checks import PodChecks, has_apparmor
from bayplan.testing.builders import pod

SYSCTL = core_v1.PodSecurityContext(sysctls=(core_v1.Sysctl(name="kernel.msgmax", value="1"),))
PROFILE = core_v1.PodSecurityContext(app_armor_profile=core_v1.AppArmorProfile(type="RuntimeDefault"))


@pytest.mark.parametrize(
    ("asked", "reason", "text"),
    [
        (pod("p", security_context=SYSCTL), "SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
        (
            pod("p", security_context=PROFILE),
            "AppArmor",
            "Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
        (
            pod("p", host_network=True, host_users=False),
            "PodFeatureUnsupported",
            f"Pod requires node features that are not available: {HOST_NETWORK_USERS}",
        ),
    ],
)
def test_a_pod_that_the_node_cannot_run_as_asked_is_rejected(asked: core_v1.Pod, reason: str, text: str) -> None:
    found = PodChecks((), apparmor=False, features=(RESTART_ALL,))(asked, [])
    assert found is not None
    assert (found.reason, found.message) == (reason, text)
    able = PodChecks(("kernel.msg*",), apparmor=True, features=(HOST_NETWORK_USERS,))
    assert able(asked, []) is None


@pytest.mark.parametrize(("enabled", "expected"), [("Y\n", True), ("N\n", False), (None, False)])
def test_apparmor_is_there_if_the_kernel_says_so(tmp_path: Path, enabled: str | None, expected: bool) -> None:
    (tmp_path / "sys/kernel/security/apparmor").mkdir(parents=True)
    if enabled is not None:
        parameters = tmp_path / "sys/module/apparmor/parameters"
        parameters.mkdir(parents=True)
        (parameters / "enabled").write_text(enabled)
    assert has_apparmor(tmp_path) is expected
