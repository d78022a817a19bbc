"""A cluster in this process, from its start until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.clusters.kubeconfig_file import write_kubeconfig
from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.clusters.ui import page_server
from bayplan.cli.connect import credentials_of
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop
from bayplan.support.running import wait_for_stop

if TYPE_CHECKING:
    from bayplan.api.kinds import Kind
    from bayplan.cluster.node_readiness import NodeReadiness
    from bayplan.cluster.processes.worker_process import WorkerProcess
    from bayplan.cluster.real_nodes.settings import RealNodeSettings
    from bayplan.cluster.settings import ClusterSettings
    from bayplan.ui.server import UiServer
    from bayplan.ui.settings import UiSettings

    Contents = Sequence[tuple[Kind, Any]]

_NODE_SECONDS: Final = 30.0
"""How long nodes may take to be Ready until it is said that they are not."""
_MOST_NAMES: Final = 5


def run_until_stopped(
    settings: ClusterSettings,
    kubeconfig: Path,
    manifests: Any,
    what: str,
    contents: Contents = (),
    *,
    elsewhere: str = "--store",
    worker_process: WorkerProcess | None = None,
    follows_links: bool = True,
    real_nodes: RealNodeSettings | None = None,
    page: UiSettings | None = None,
) -> None:
    """Run a cluster, which begins with `contents`, until SIGINT or SIGTERM. `elsewhere`: the options that name another place for
    the store. `worker_process`: the process in which the components run, if that is another one. `follows_links`: whether the
    kubeconfig's path may be a symbolic link. `real_nodes`: those on this machine. `page`: the web page, if it is wanted. Raises Failure."""
    from bayplan.api.errors import ApiError
    from bayplan.cluster.errors import ClusterError
    from bayplan.store.errors import StoreError, StoreLocked
    from bayplan.ui.errors import UiError

    try:
        run_loop(
            _serve(
                settings,
                kubeconfig.absolute(),
                manifests,
                what,
                contents,
                worker_process,
                follows_links,
                real_nodes,
                page,
            )
        )
    except StoreLocked as error:
        raise Failure(f"{error} with {elsewhere}") from error
    except (ApiError, ClusterError, StoreError, UiError, ValueError) as error:
        raise Failure(str(error)) from error


async def _serve(
    settings: ClusterSettings,
    kubeconfig: Path,
    manifests: Any,
    what: str,
    contents: Contents,
    worker_process: WorkerProcess | None,
    follows_links: bool,
    real_nodes: RealNodeSettings | None,
    page: UiSettings | None,
) -> None:
    from bayplan.cluster.cluster import Cluster
    from bayplan.cluster.manifests.apply import apply_manifests
    from bayplan.cluster.node_readiness import NodeReadiness, wait_for_nodes
    from bayplan.support.clock import SystemClock

    stop, started = stop_event(), SystemClock().now()
    nodes = None
    if real_nodes is not None:
        from bayplan.cli.clusters.real_nodes import prepared

        nodes, settings = await prepared(real_nodes, settings)
    try:
        cluster = Cluster(settings, contents=contents, worker_process=worker_process)
        await cluster.start()
    except BaseException:
        if nodes is not None:
            await nodes.stop()
        raise
    pages: UiServer | None = None
    try:
        write_kubeconfig(kubeconfig, cluster.kubeconfig(), settings.directory, follows_links=follows_links)
        if manifests:
            count = await apply_manifests(cluster.client(), manifests)
            click.echo(f"applied {count} object{'s' * (count != 1)}")
        if nodes is not None:
            await nodes.join(cluster)
        fresh = () if real_nodes is None else [place.name for place in real_nodes.nodes()]
        readiness = NodeReadiness(settings.nodes.nodes + len(fresh), fresh, started)
        waits = [cluster.wait] if nodes is None else [cluster.wait, nodes.wait]
        waiting = wait_for_nodes(cluster.client(), readiness, _NODE_SECONDS)
        await wait_for_stop(stop, _first(waiting, *(wait() for wait in waits)))
        if stop.is_set():
            return
        click.echo(
            f"ready: {cluster.server_url} {what}{_waiting(readiness)}\n\n"
            f"  export KUBECONFIG={kubeconfig}\n  kubectl get nodes\n"
        )
        if page is not None:
            from bayplan.client.http import HttpTransport
            from bayplan.client.http_streams import HttpStreams

            streams = HttpStreams(HttpTransport(credentials_of(kubeconfig)))
            source = [f"--kubeconfig={kubeconfig}"]
            pages = page_server(cluster.client(), None, page, source, cluster.scheduler_state, streams)
            click.echo(f"page: {await pages.start()}")
        await wait_for_stop(stop, _first(*(wait() for wait in waits)))
    finally:
        try:
            if pages is not None:
                await pages.stop()
            if nodes is not None:
                await nodes.stop()
        finally:
            await cluster.stop()


def _waiting(readiness: NodeReadiness) -> str:
    """What is said of nodes that are not Ready in time."""
    names = readiness.unready
    if readiness.are_enough() or not names:
        return ""
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return f", {len(names)} of them not Ready: {shown}"


async def _first(*waits: Coroutine[Any, Any, None]) -> None:
    """Return when one of them does; raise what the first one raises."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
