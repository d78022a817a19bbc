"""`bayplan start`: clusters that were stopped run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.named_clusters import (
    add_context,
    carried_out,
    clusters_argument,
    existing_clusters,
    wait_option,
)

if TYPE_CHECKING:
    from bayplan.cluster.named.records import NamedCluster


@click.command()
@clusters_argument
@wait_option
def command(names: tuple[str, ...], wait: float) -> None:
    """Start clusters in the background that were stopped, as they were created.

    CLUSTER is `local` if none is named.
    """
    for cluster in existing_clusters(names):
        if cluster.process is not None:
            click.echo(f"{cluster.name}: runs already")
            continue
        click.echo(f"{cluster.name}: ready: {carried_out(_start(cluster, wait))}")


async def _start(cluster: NamedCluster, wait: float) -> str:
    from bayplan.cluster.named.running import start
    from bayplan.support.clock import SystemClock

    said = await start(cluster, SystemClock(), wait)
    add_context(cluster, Path(cluster.read().user_kubeconfig), switch=False)
    return said
