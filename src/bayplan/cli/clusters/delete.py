"""`bayplan delete`: clusters in the background go, with all that they have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.named_clusters import carried_out, clusters_or_all, existing_clusters

if TYPE_CHECKING:
    from bayplan.cluster.named.records import NamedCluster


@click.command()
@clusters_or_all
def command(names: tuple[str, ...], all_of_them: bool) -> None:
    """Stop clusters in the background and delete them, with their data and their context in your kubeconfig.

    CLUSTER is `local` if none is named.
    """
    for cluster in existing_clusters(names, all_of_them=all_of_them):
        carried_out(_delete(cluster))
        click.echo(f"{cluster.name}: deleted")


async def _delete(cluster: NamedCluster) -> None:
    from bayplan.client.user_kubeconfig import remove_context
    from bayplan.cluster.named.running import delete
    from bayplan.support.clock import SystemClock

    record = cluster.read()
    await delete(cluster, SystemClock())
    remove_context(Path(record.user_kubeconfig), cluster.context, cluster.directory)
