"""What a machine has for clusters."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.cli.main import main
from bayplan.cluster import machine_checks
from bayplan.cluster.machine_checks import Finding, Verdict, check_machine


def found(directory: Path) -> dict[str, Finding]:
    return {each.subject: each for each in check_machine(directory)}


def test_all_is_told_for_people_and_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    text = CliRunner().invoke(main, ["doctor"])
    assert text.exit_code == 0
    assert "ok       Python 3." in text.output
    data = json.loads(CliRunner().invoke(main, ["doctor", "-o", "json"]).output)["findings"]
    assert len(data) == len(text.output.splitlines())
    assert {each["verdict"] for each in data} <= {"ok", "limited"}
    assert list(tmp_path.iterdir()) == [], "nothing is changed"


def test_an_old_sqlite_keeps_clusters_from_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 0))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "no cluster can run on this machine" in result.output
    assert "missing  SQLite" in result.output


def test_a_directory_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    finding = found(tmp_path / "deep" / "er")["data"]
    assert finding.verdict is Verdict.MISSING
    assert f"{tmp_path} cannot be written to" in finding.text


@pytest.fixture
def taken() -> Iterator[None]:
    """The usual port is taken, by us unless by somebody else."""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", 6443))
            other.listen()
        except OSError:
            pass  # as wanted
        yield


@pytest.mark.usefixtures("taken")
def test_a_taken_port_is_told(tmp_path: Path) -> None:
    finding = found(tmp_path)["port"]
    assert finding.verdict is Verdict.LIMITED
    assert "taken; use --port" in finding.text


@pytest.mark.parametrize(
    ("subject", "change", "said"),
    [
        ("kubectl", (shutil, "which", lambda _: None), "not installed"),
        ("kubectl", (shutil, "which", lambda _: "/nonexistent/kubectl"), "does not work"),
        ("open files", (resource, "getrlimit", lambda _: (256, 256)), "ulimit -n"),
        ("extra dns", (machine_checks, "_is_there", lambda _: False), "pip install 'bayplan[dns]'"),
        ("real nodes", (machine_checks, "missing", lambda *_, **__: ["real nodes need runc"]), "need runc"),
    ],
)
def test_what_is_lacking_comes_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subject: str, change: tuple[Any, str, Any], said: str
) -> None:
    monkeypatch.setattr(*change)
    finding = found(tmp_path)[subject]
    assert finding.verdict is Verdict.LIMITED
    assert said in finding.text
