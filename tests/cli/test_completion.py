"""Completion, in shells and in kubectl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli import plugin
from bayplan.cli.main import VERBS, main

PROGRAMS = Path(sys.executable).parent


def completed(words: str, home: Path) -> list[str]:
    """What bash is told for the last of some words."""
    count = len(words.split(" ")) - 1
    environment = {
        **os.environ,
        "_BAYPLAN_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(count),
        "XDG_DATA_HOME": str(home),
    }
    done = subprocess.run([PROGRAMS / "bayplan"], capture_output=True, text=True, check=True, env=environment)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_BAYPLAN_COMPLETE={shell}_complete" in result.output


def test_a_shell_that_is_not_known_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_takes_the_script() -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_verbs_options_and_clusters_are_completed(tmp_path: Path) -> None:
    for name in ("one", "other", "two"):
        directory = tmp_path / "bayplan" / "clusters" / name
        directory.mkdir(parents=True)
        (directory / "cluster.json").write_text("{}")
    assert completed("bayplan ", tmp_path) == list(VERBS)
    assert completed("bayplan st", tmp_path) == ["start", "stop", "store"]
    assert "--nodes" in completed("bayplan up --no", tmp_path)
    assert completed("bayplan stop o", tmp_path) == ["one", "other"]


def test_kubectl_gets_proposals_and_a_directive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, proposals, directive in (
        (["sim"], [f"simulate\t{VERBS['simulate']}"], ":4"),
        (["completion", ""], ["bash", "zsh", "fish"], ":4"),
        (["up", "--config", ""], [], ":0"),
    ):
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-bayplan", *words])
        plugin.complete()
        *found, last = capsys.readouterr().out.splitlines()
        assert (found, last) == (proposals, directive)


def test_the_plugin_is_the_same_program_under_another_name() -> None:
    done = subprocess.run([PROGRAMS / "kubectl-bayplan", "up", "--nope"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: kubectl bayplan up")
