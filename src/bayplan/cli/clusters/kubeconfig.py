"""`bayplan kubeconfig`: the kubeconfig of a cluster in the background."""

from __future__ import annotations

import click

from bayplan.cli.clusters.named_clusters import cluster_argument, existing_clusters
from bayplan.cli.output import Failure


@click.command()
@cluster_argument
def command(name: str) -> None:
    """Print the kubeconfig of a cluster in the background.

    CLUSTER is `local` if none is named.
    """
    (cluster,) = existing_clusters((name,))
    try:
        click.echo(cluster.kubeconfig.read_text(), nl=False)
    except OSError as error:
        raise Failure(f"{cluster.kubeconfig}: {error.strerror or error}") from error
