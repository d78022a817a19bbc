"""`bayplan node-simulator`: simulated nodes in any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli import component

if TYPE_CHECKING:
    from bayplan.kubelet.simulator.kwok_files import KwokObjects


def kwok_objects(paths: tuple[Path, ...]) -> KwokObjects:
    """What `--stages` says. Raises UsageError."""
    from bayplan.kubelet.simulator.errors import KwokFileError
    from bayplan.kubelet.simulator.kwok_files import read_files

    try:
        found = read_files(paths)
    except KwokFileError as error:
        raise click.UsageError(f"--stages: {error}") from error
    if found.left_out:
        click.echo(f"left out, for simulated pods have no use for it: {', '.join(found.left_out)}", err=True)
    return found


@click.command()
@click.option("--nodes", type=click.IntRange(0), default=3, show_default=True, help="Nodes to create and play.")
@click.option(
    "--zones", type=click.IntRange(1, 26), default=3, show_default=True, help="Zones over which they are spread."
)
@click.option("--name-prefix", default="node", show_default=True, help="How their names begin.")
@click.option("--cpu", default="4", show_default=True, help="CPU of each node.")
@click.option("--memory", default="32Gi", show_default=True, help="Memory of each node.")
@click.option("--pods", default="110", show_default=True, help="Pods that each node takes.")
@click.option(
    "--stages",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE|DIR",
    help="Stages (kwok.x-k8s.io/v1alpha1) that say what happens to pods; may be repeated.",
)
@click.option(
    "--pod-events",
    type=click.Choice(("none", "warnings", "all")),
    default="warnings",
    show_default=True,
    help="What is told about pods as events.",
)
@component.component_options(0)
def command(
    nodes: int,
    zones: int,
    name_prefix: str,
    cpu: str,
    memory: str,
    pods: str,
    stages: tuple[Path, ...],
    pod_events: str,
    **options: Any,
) -> None:
    """Play simulated nodes in any cluster, Bayplan's or a real one."""
    read = kwok_objects(stages)
    if read.answers:
        click.echo("all but stages is left out: only bayplan up answers for its pods", err=True)

    def make(client: Any, clock: Any, randomness: Any, metrics: Any) -> Any:
        from bayplan.kubelet.simulator import NodeSimulator, SimulatorSettings

        capacity = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": pods}
        settings = SimulatorSettings(
            nodes=nodes, zones=zones, name_prefix=name_prefix, capacity=capacity, stages=read.stages, events=pod_events
        )
        return NodeSimulator(client, settings, clock=clock, randomness=randomness)

    component.run("node-simulator", make, **options)
