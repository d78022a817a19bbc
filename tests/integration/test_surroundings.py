"""Surroundings that `bayplan` cannot work in: it says what is wrong and what to do, and ends with 1."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import BAYPLAN, start, stop


def refused(*arguments: str, code: int = 1) -> str:
    done = subprocess.run([BAYPLAN, *arguments], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("name", ["taken", "taken/below"])
def test_a_data_directory_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_text("a file")
    message = refused("up", "--data-dir", str(tmp_path / name), "--port", "0")
    assert f"the data directory {tmp_path / name} cannot be used" in message
    assert "--data-dir" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clusters: [", "not valid YAML"),
        ("apiVersion: v1", "no current-context"),
        ("current-context: a\ncontexts: []", "a"),
    ],
)
def test_a_broken_kubeconfig_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    found = refused("explain", "pod", "--kubeconfig", str(file), code=2)
    assert str(file) in found
    assert message in found


def test_a_cluster_that_does_not_run_is_named(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "0")
    assert stop(process)[0] == 0
    found = refused("explain", "pod", "--kubeconfig", str(tmp_path / "kubeconfig"), code=2)
    assert "is the cluster running?" in found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_ends_it_with_zero(tmp_path: Path, number: signal.Signals) -> None:
    process = start("--store", "memory:", "--port", "0", "--nodes", "20", "--kubeconfig", str(tmp_path / "kubeconfig"))
    process.send_signal(number)
    try:
        assert process.wait(2) == 0
    finally:
        stop(process)


def test_a_manifest_that_cannot_be_read_ends_the_start_before_anything_is_made(tmp_path: Path) -> None:
    manifest = tmp_path / "broken.yaml"
    manifest.write_text("kind: Pod\n---\n")
    message = refused("up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--apply", str(manifest))
    assert "broken.yaml: document 1: apiVersion is missing" in message
    assert not (tmp_path / "data").exists()
