"""`bayplan csi-controller` and `bayplan csi-local`: help, flags, and what is said of wrong input."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan.cli.components import csi_controller
from bayplan.cli.components.csi_controller import command, settings_of
from bayplan.cli.main import main
from bayplan.csi_controller.settings import CsiControllerSettings
from bayplan.csi_controller.snapshot_kinds import definitions


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timeout", "soon"), "'soon' is no duration"),
        (("--worker-threads", "0"), "--worker-threads"),
        (("--feature-gates", "Topology=true"), "--feature-gates: 'Topology=true'"),
        (("--feature-gates", "VolumeSnapshots=maybe"), "--feature-gates: 'VolumeSnapshots=maybe'"),
        (("--http-endpoint", "here"), "--http-endpoint: 'here' is not ADDRESS:PORT"),
        (("--node-deployment", "--leader-election"), "exclude each other"),
        (("--leader-elektion",), "--leader-election"),
    ],
)
def test_wrong_options_are_named(arguments: tuple[str, ...], message: str) -> None:
    result = run("csi-controller", *arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def settings(*arguments: str) -> CsiControllerSettings:
    context = command.make_context("csi-controller", list(arguments))
    options: dict[str, Any] = {
        key: value for key, value in context.params.items() if key not in ("csi_address", "kubeconfig", "v")
    }
    return settings_of(options)


def test_flags_become_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODE_NAME", "NAMESPACE", "POD_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert settings() == CsiControllerSettings()
    monkeypatch.setenv("NODE_NAME", "n1")
    found = settings(
        "--node-deployment",
        "--node-deployment-immediate-binding=false",
        "--timeout=1m30s",
        "--retry-interval-max=10s",
        "--feature-gates=VolumeAttributesClass=false",
        "--strict-topology=true",
    )
    assert found == CsiControllerSettings(
        node_deployment=True,
        immediate_binding=False,
        timeout=90.0,
        retry_interval_max=10.0,
        volume_attributes_class=False,
        strict_topology=True,
        node_name="n1",
    )


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    result = run("csi-controller", "--kubeconfig", str(tmp_path / "missing"))
    assert result.exit_code == 2
    assert "missing: No such file or directory; name a kubeconfig with --kubeconfig" in result.output


def test_it_can_be_stopped_while_no_driver_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_soon() -> asyncio.Event:
        stop, loop, task = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.call_later(0.1, stop.set)
        loop.call_later(20.0, task.cancel)  # fails the test
        return stop

    monkeypatch.setattr(csi_controller, "stop_event", stopped_soon)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    result = run("csi-controller", "--csi-address", str(tmp_path / "none.sock"), "--kubeconfig", str(kubeconfig))
    assert result.exit_code == 0, result.output


def test_the_definitions_of_snapshots_are_printed_without_anchors() -> None:
    result = run("csi-controller", "manifests")
    assert result.exit_code == 0
    assert list(yaml.safe_load_all(result.output)) == definitions()
    assert "&id" not in result.output
    assert [one["metadata"]["name"] for one in definitions()] == [
        "volumesnapshotclasses.snapshot.storage.k8s.io",
        "volumesnapshotcontents.snapshot.storage.k8s.io",
        "volumesnapshots.snapshot.storage.k8s.io",
    ]


def test_a_socket_that_is_too_long_is_named(tmp_path: Path) -> None:
    endpoint = tmp_path / ("x" * 110)
    result = run("csi-local", f"--endpoint={endpoint}", f"--data-dir={tmp_path}", "--plugin-registry=none")
    assert result.exit_code == 1
    assert "longer than 107 bytes" in result.output
