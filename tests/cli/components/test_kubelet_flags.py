"""Flags of `bayplan kubelet` stand for fields of its configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.cli.components import kubelet
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.support.configuration import to_tree

GIVEN = {
    "--allowed-unsafe-sysctls=net.core.somaxconn,kernel.msg*": ("allowedUnsafeSysctls", ["net.core.somaxconn", "kernel.msg*"]),
    "--cluster-dns=10.96.0.10": ("clusterDNS", ["10.96.0.10"]),
    "--enforce-node-allocatable=none": ("enforceNodeAllocatable", ["none"]),
    "--cgroups-per-qos=false": ("cgroupsPerQOS", False),
    "--rotate-server-certificates": ("serverTLSBootstrap", True),
    "--cpu-cfs-quota-period=50ms": ("cpuCFSQuotaPeriod", "50ms"),
    "--eviction-pressure-transition-period=1m": ("evictionPressureTransitionPeriod", "1m0s"),
    "--container-log-max-size=1Mi": ("containerLogMaxSize", "1Mi"),
    "--image-gc-high-threshold=90": ("imageGCHighThresholdPercent", 90),
    "--minimum-image-ttl-duration=5m": ("imageMinimumGCAge", "5m0s"),
    "--pod-max-pids=100": ("podPidsLimit", 100),
    "--registry-qps=0": ("registryPullQPS", 0),
    "--feature-gates=CPUManagerPolicyAlphaOptions=true": ("featureGates", {"CPUManagerPolicyAlphaOptions": True}),
}  # fmt: skip


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[KubeletConfiguration]:
    """The configurations with which kubelets would run."""
    found: list[KubeletConfiguration] = []

    async def run(configuration: KubeletConfiguration, kubeconfig: Any, options: Any) -> None:
        found.append(configuration)

    monkeypatch.setattr(kubelet, "_run", run)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return found


def test_flags_stand_for_fields(started: list[KubeletConfiguration]) -> None:
    result = CliRunner().invoke(kubelet.command, list(GIVEN))
    assert result.exit_code == 0, result.output
    tree = to_tree(started[0])
    assert {field: tree[field] for field, _ in GIVEN.values()} == dict(GIVEN.values())


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--network-plugin=cni",
            "--network-plugin is a flag of older versions; today: the runtime's own configuration",
        ),
        ("--manifest-url=http://x", "--manifest-url is not supported: static pods come from --pod-manifest-path"),
        ("--read-only-port=10255", "--read-only-port=10255 is not supported: it can only be '0'"),
        ("--feature-gates=Nosuch=true", "unrecognized feature gate: Nosuch"),
        (
            "--feature-gates=ResourceHealthStatus=false",
            "ResourceHealthStatusMessage is enabled, but depends on features that are disabled: [ResourceHealthStatus]",
        ),
    ],
)
def test_what_is_refused_is_told(started: list[KubeletConfiguration], flag: str, message: str) -> None:
    result = CliRunner().invoke(kubelet.command, [flag])
    assert (result.exit_code, started) == (2, [])
    assert message in result.output


def test_gates_of_the_file_are_checked_and_those_without_effect_are_named(
    started: list[KubeletConfiguration], tmp_path: Path
) -> None:
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: "
    gates = {"EnvFiles": False, "ResourceHealthStatus": False, "ResourceHealthStatusMessage": False}
    known, unknown = tmp_path / "known.yaml", tmp_path / "unknown.yaml"
    known.write_text(head + json.dumps(gates))
    unknown.write_text(head + "{Nosuch: true}")
    result = CliRunner().invoke(kubelet.command, ["--config", str(known)])
    assert (result.exit_code, started[0].feature_gates) == (0, gates)
    assert result.output == "bayplan: note: Bayplan's kubelet behaves as with the default of EnvFiles\n"
    refused = CliRunner().invoke(kubelet.command, ["--config", str(unknown)])
    assert (refused.exit_code, len(started)) == (2, 1)
    assert "unrecognized feature gate: Nosuch" in refused.output
