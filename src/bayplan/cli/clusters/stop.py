"""`bayplan stop`: clusters in the background stop, and keep what they have."""

from __future__ import annotations

import click

from bayplan.cli.clusters.named_clusters import carried_out, clusters_or_all, existing_clusters


@click.command()
@clusters_or_all
def command(names: tuple[str, ...], all_of_them: bool) -> None:
    """Stop clusters in the background. Everything is kept, and there again after `bayplan start`.

    CLUSTER is `local` if none is named.
    """
    from bayplan.cluster.named.running import stop
    from bayplan.support.clock import SystemClock

    for cluster in existing_clusters(names, all_of_them=all_of_them):
        stopped = carried_out(stop(cluster, SystemClock()))
        click.echo(f"{cluster.name}: {'stopped' if stopped else 'was stopped'}")
