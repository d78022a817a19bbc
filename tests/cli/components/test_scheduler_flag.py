"""`up --scheduler-flag`: the scheduler's own flags, as far as it has any inside a whole cluster."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from bayplan.cli.clusters.up import command, merged_options
from bayplan.cli.clusters.up_options import UpOptions
from bayplan.cli.output import Failure

PLUGIN = Path("examples/scheduler/quiet_nodes.py")


def configuration(*arguments: str) -> Path | None:
    with command.make_context("up", ["--store", "memory:", *arguments]) as context:
        return UpOptions(**merged_options(context)).settings().scheduler_config


def test_the_configuration_may_be_named_as_kube_scheduler_names_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("kind: KubeSchedulerConfiguration\n")
    assert configuration(f"--scheduler-flag=--config={file}") == file
    assert configuration("--scheduler-config", str(file)) == file
    assert configuration() is None


def test_plugins_come_from_files(tmp_path: Path) -> None:
    def files(*arguments: str) -> tuple[Path, ...]:
        with command.make_context("up", ["--store", "memory:", *arguments]) as context:
            return UpOptions(**merged_options(context)).settings().scheduler_plugins

    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\ny = 1 / 0\n")
    assert files() == ()
    assert files("--plugin", str(PLUGIN)) == (PLUGIN.absolute(),)
    with pytest.raises(Failure, match=r"broken\.py:2: ZeroDivisionError"):
        files("--plugin", str(PLUGIN), "--plugin", str(broken))


def test_what_cannot_be_meant_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("kind: KubeSchedulerConfiguration\n")
    for flags, message in (
        (("--scheduler-flag=--confg=x",), "did you mean --config"),
        ((f"--scheduler-flag=--config={tmp_path}/none",), "no such file"),
        ((f"--scheduler-flag=--config={file}", "--scheduler-config", str(file)), "give one of them"),
    ):
        with pytest.raises(click.UsageError, match=message):
            configuration(*flags)
