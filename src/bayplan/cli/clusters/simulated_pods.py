"""What commands with simulated nodes can be told about their pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bayplan.kubelet.simulator.stages.kwok_files import KwokObjects

pod_events_option = click.option(
    "--pod-events",
    type=click.Choice(("none", "warnings", "all")),
    default="warnings",
    show_default=True,
    help="What simulated nodes tell about their pods as events.",
)
missing_config_option = click.option(
    "--missing-config",
    type=click.Choice(("wait", "ignore")),
    default="wait",
    show_default=True,
    help="What becomes of pods on simulated nodes whose ConfigMaps or Secrets do not exist: they wait, as on a kubelet, or start nevertheless, "
    "since no program runs that would make them.",
)


def kwok_objects(paths: tuple[Path, ...]) -> KwokObjects:
    """What `--stages` says. Raises UsageError."""
    from bayplan.kubelet.simulator.errors import KwokFileError
    from bayplan.kubelet.simulator.stages.kwok_files import read_files

    try:
        found = read_files(paths)
    except KwokFileError as error:
        raise click.UsageError(f"--stages: {error}") from error
    if found.left_out:
        click.echo(f"left out, for simulated pods have no use for it: {', '.join(found.left_out)}", err=True)
    return found
