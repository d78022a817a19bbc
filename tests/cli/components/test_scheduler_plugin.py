"""`bayplan scheduler plugin`: a package that works as it is written, and checks of plugins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["scheduler", "plugin", *arguments])


def test_a_new_package_passes_its_own_tests(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    result = run("new", "HTTPAwareNodes", "--directory", str(place))
    assert result.exit_code == 0, result.output
    written = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    assert written == [
        "README.md",
        "http_aware_nodes.py",
        "profile.yaml",
        "pyproject.toml",
        "tests/test_http_aware_nodes.py",
    ]
    assert 'HTTPAwareNodes = "http_aware_nodes:HTTPAwareNodes"' in (place / "pyproject.toml").read_text()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(place), str(place)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=place, env={"PYTHONPATH": str(place)}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    result = run("new", "QuietNodes", "--directory", str(tmp_path))
    assert (result.exit_code, "is not empty" in result.output) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("name", ["quiet", "Quiet-Nodes", "", "NodeResourcesFit", "PodFitsResources"])
def test_names_that_cannot_be_are_refused(name: str, tmp_path: Path) -> None:
    result = run("new", name, "--directory", str(tmp_path / "x"))
    assert result.exit_code == 2
    assert not (tmp_path / "x").exists()


def test_a_plugin_is_checked() -> None:
    result = run("check", "ImageLocality", "--runs", "2")
    assert (result.exit_code, result.output) == (0, "ImageLocality: nothing is wrong on 2 random clusters\n")
    result = run("check", "Absent")
    assert (result.exit_code, "no plugin 'Absent'" in result.output) == (2, True)


def test_a_plugin_of_a_file_is_checked_without_being_installed() -> None:
    path = str(Path(__file__).parents[3] / "examples/scheduler/quiet_nodes.py")
    result = run("check", "QuietNodes", "--plugin", path, "--runs", "1")
    assert (result.exit_code, result.output) == (0, "QuietNodes: nothing is wrong on 1 random clusters\n")
    result = run("check", "Quiet", "--plugin", path)
    assert (result.exit_code, f"{path} has no plugin 'Quiet'; it has QuietNodes" in result.output) == (2, True)


def test_the_scheduler_still_takes_its_own_flags() -> None:
    result = CliRunner().invoke(main, ["scheduler", "--help"])
    assert "bayplan scheduler plugin new" in " ".join(result.output.split())
    assert CliRunner().invoke(main, ["scheduler", "--nonsense"]).exit_code == 2
