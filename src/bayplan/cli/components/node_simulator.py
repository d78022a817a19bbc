"""`bayplan node-simulator`: simulated nodes in any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayplan.cli.clusters.simulated_pods import kwok_objects, missing_config_option, pod_events_option
from bayplan.cli.components import component


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
    help="Stages (kwok.x-k8s.io/v1alpha1) that say what happens to pods and nodes; may be repeated.",
)
@pod_events_option
@missing_config_option
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
    missing_config: str,
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
            nodes=nodes,
            zones=zones,
            name_prefix=name_prefix,
            capacity=capacity,
            stages=read.stages,
            events=pod_events,
            missing_config=missing_config,
        )
        return NodeSimulator(client, settings, clock=clock, randomness=randomness)

    component.run("node-simulator", make, **options)
