"""`bayplan ui`: a web page that shows a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure, scheduler_config_option
from bayplan.cli.questions.cluster_input import HELP

if TYPE_CHECKING:
    from bayplan.client import Client
    from bayplan.client.http_streams import HttpStreams
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
    from bayplan.ui.question_routes import SchedulerState
    from bayplan.ui.server import UiServer
    from bayplan.ui.settings import UiSettings


@click.command()
@connection_options
@click.option("--cluster", metavar="FILE|DIR", help=f"Show this instead of a live cluster. {HELP}")
@click.option("--learn", is_flag=True, help="Show scenarios that explain Kubernetes alone; needs no cluster.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on, at 127.0.0.1.  [default: a free one]",
)
@click.option("--allow-changes", is_flag=True, help="Let the page change the cluster: apply fixes that it proposes.")
@scheduler_config_option("by which pods are judged")
def command(
    kubeconfig: Path | None,
    context: str,
    cluster: str | None,
    learn: bool,
    port: int,
    allow_changes: bool,
    scheduler_config: Path | None,
) -> None:
    """Show a cluster on a web page until Ctrl-C: nodes as a map, pods, workloads and events, live.

    The page is served on this machine only, to whoever has the URL that is printed; it loads nothing from elsewhere and changes nothing.
    """
    from bayplan.support.loop import run_loop
    from bayplan.ui.errors import UiError
    from bayplan.ui.settings import UiSettings

    if learn and (cluster is not None or kubeconfig is not None or context or allow_changes):
        raise click.UsageError(
            "--learn shows no cluster; leave out --kubeconfig, --context, --cluster and --allow-changes"
        )
    if cluster is not None and (kubeconfig is not None or context):
        raise click.UsageError("--cluster is shown instead of a live cluster; leave out --kubeconfig and --context")
    if cluster == "-":
        raise click.UsageError("--cluster -: further questions read the copy again, so it must be a file")
    if cluster is not None and allow_changes:
        raise click.UsageError("--cluster shows a copy, in which there is nothing to change")
    copy = None
    if cluster is not None:
        from bayplan.cli.questions.cluster_input import read_cluster

        copy = read_cluster(cluster)
    client = None if learn or copy is not None else connect(kubeconfig, context, user_agent="bayplan-ui")
    settings = UiSettings(
        port=port,
        allow_changes=allow_changes,
        learn=learn,
        title=context or (Path(cluster).name if cluster else ""),
        scheduler_config=scheduler_config,
    )
    try:
        run_loop(_serve(client, copy, settings, _source(kubeconfig, context, cluster)))
    except UiError as error:
        raise Failure(str(error).replace("--ui-port", "--port")) from error


def _source(kubeconfig: Path | None, context: str, cluster: str | None) -> list[str]:
    """The options that say which cluster this is, for further processes."""
    found = [f"--cluster={cluster}"] if cluster is not None else []
    found += [f"--kubeconfig={kubeconfig.absolute()}"] if kubeconfig is not None else []
    return [*found, f"--context={context}"] if context else found


async def _serve(
    client: Client | None, copy: ClusterSnapshot | None, settings: UiSettings, source: Sequence[str]
) -> None:
    from bayplan.cli.clusters.stopping import stop_event

    stop = stop_event()
    server = page_server(client, copy, settings, source)
    try:
        click.echo(f"ready: {await server.start()}")
        await stop.wait()
    finally:
        await server.stop()
        if client is not None:
            await client.close()


def page_server(
    client: Client | None,
    copy: ClusterSnapshot | None,
    settings: UiSettings,
    source: Sequence[str],
    scheduler: SchedulerState | None = None,
    streams: HttpStreams | None = None,
) -> UiServer:
    """The server of a page for a live cluster (a client) or a copy, or neither (`settings.learn`). source: the options that say which one it is.
    scheduler: asks its scheduler, if that can be reached. streams: for terminals and logs that are followed; the client's own if it speaks HTTP."""
    from bayplan.client.http_streams import streams_of
    from bayplan.support.clock import SystemClock
    from bayplan.support.randomness import SystemRandomness
    from bayplan.ui.cluster_source import ClusterSource, CopiedCluster, LiveCluster, NoCluster
    from bayplan.ui.feed import Feed
    from bayplan.ui.server import UiServer

    clock, randomness = SystemClock(), SystemRandomness()
    if streams is None and client is not None:
        streams = streams_of(client.transport)
    feed = Feed(clock, settings.interval)
    cluster: ClusterSource
    if settings.learn:
        cluster = NoCluster(feed, clock)
    elif copy is not None:
        cluster = CopiedCluster(copy, feed, clock)
    else:
        assert client is not None
        cluster = LiveCluster(client, feed, clock=clock, randomness=randomness)
    return UiServer(cluster, feed, settings, source, scheduler, streams, clock=clock, randomness=randomness)
