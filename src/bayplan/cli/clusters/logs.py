"""`bayplan logs`: what a cluster in the background says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from bayplan.cli.clusters.named_clusters import carried_out, cluster_argument, existing_clusters
from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.cluster.named.records import NamedCluster

_LOOK_SECONDS: Final = 0.2


@click.command()
@cluster_argument
@click.option("-f", "--follow", is_flag=True, help="Go on as long as the cluster runs.")
@click.option("--tail", type=click.IntRange(0), help="How many of the last lines.  [default: all]")
def command(name: str, follow: bool, tail: int | None) -> None:
    """Print what a cluster in the background has said.

    CLUSTER is `local` if none is named.
    """
    (cluster,) = existing_clusters((name,))
    try:
        with cluster.log.open("rb") as stream:
            lines = stream.readlines()
    except OSError as error:
        raise Failure(f"{cluster.log}: {error.strerror or error}") from error
    for line in lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]:
        click.echo(line, nl=False)
    if follow:
        carried_out(_follow(cluster, sum(map(len, lines))))


async def _follow(cluster: NamedCluster, position: int) -> None:
    from bayplan.support.clock import SystemClock

    clock = SystemClock()
    with cluster.log.open("rb") as stream:
        stream.seek(position)
        while True:
            runs = cluster.process is not None
            click.echo(stream.read(), nl=False)
            if not runs:
                return
            await clock.sleep(_LOOK_SECONDS)
