"""Files for those who work with the project: they can be read, and what they say to type is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from bayplan.cli.main import main

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "deploy" / "ci-action" / "action.yml"
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
FILES = [*TEMPLATES, ACTION, ROOT / "docs" / "ci.md"]


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", [one for one in TEMPLATES if one.name != "config.yml"], ids=lambda one: one.name)
def test_templates_of_issues_are_forms(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    fields = [one for one in form["body"] if one["type"] != "markdown"]
    assert all(one["attributes"]["label"] for one in fields)
    assert len({one["id"] for one in fields}) == len(fields)


@pytest.mark.parametrize("path", FILES, ids=lambda one: one.name)
def test_commands_that_are_named_exist(path: Path) -> None:
    context = click.Context(main)
    for match in re.finditer(r"(?:`|^|bin/|run: )bayplan\"? ([a-z-]+)([^`\n]*)", path.read_text(), re.MULTILINE):
        command = main.get_command(context, match[1])
        assert command is not None, match[0]
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", match[2])) <= known, match[0]


def test_hooks_call_what_the_environment_has() -> None:
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    check = (ROOT / "Makefile").read_text()
    for hook in hooks:
        program, *arguments = hook["entry"].removeprefix(".venv/bin/").split()
        words = arguments[1] if program == "python" else program
        assert words in check, f"{hook['id']} is not part of make check"
        assert (Path(sys.executable).parent / program).exists()


def test_the_action_starts_a_cluster(tmp_path: Path) -> None:
    """Its second step, with a runner's variables. The first one installs the package, which `make package` tries."""
    step = read(ACTION)["runs"]["steps"][1]
    programs = tmp_path / "bayplan" / "bin"
    programs.mkdir(parents=True)
    (programs / "bayplan").symlink_to(Path(sys.executable).parent / "bayplan")
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ENV": str(tmp_path / "env"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "CLUSTER": "ci",
        "OPTIONS": "--nodes 2",
    }
    bayplan = str(programs / "bayplan")
    try:
        subprocess.run(["bash", "-ec", step["run"]], env=environment, check=True, timeout=60)
        listed = subprocess.run([bayplan, "list"], env=environment, check=True, capture_output=True, text=True)
        assert re.search(r"^ci .*", listed.stdout, re.MULTILINE)
    finally:
        subprocess.run([bayplan, "delete", "ci"], env=environment, check=False, timeout=60)
    assert (tmp_path / "env").read_text() == f"KUBECONFIG={tmp_path}/bayplan-ci.kubeconfig\n"
    assert (tmp_path / "output").read_text() == f"kubeconfig={tmp_path}/bayplan-ci.kubeconfig\n"
