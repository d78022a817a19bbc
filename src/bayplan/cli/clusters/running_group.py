"""A group of API server processes, from its start until it is told to stop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.clusters.kubeconfig_file import write_kubeconfig
from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop
from bayplan.support.running import wait_for_stop

if TYPE_CHECKING:
    from bayplan.cluster.processes.server_group import ServerGroup
    from bayplan.cluster.settings import ClusterSettings

_NODE_SECONDS: Final = 30.0
"""How long nodes may take to be Ready until it is said that they are not."""


def run_group_until_stopped(
    settings: ClusterSettings,
    processes: int,
    kubeconfig: Path,
    what: str,
    *,
    components: Sequence[str] = (),
    are_separate: bool = False,
    manifests: Any = (),
    follows_links: bool = True,
) -> None:
    """Run API servers in so many processes until SIGINT or SIGTERM. Raises Failure.

    components, are_separate: see `server_group`.
    """
    if sys.platform != "linux":
        raise Failure("several API server processes need Linux")
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.processes.server_group import server_group
    from bayplan.store.errors import StoreError
    from bayplan.support.clock import SystemClock

    try:
        with server_group(
            settings, processes, SystemClock(), components=components, are_separate=are_separate
        ) as group:
            run_loop(_serve(group, settings, kubeconfig.absolute(), what, manifests, follows_links))
    except (ClusterError, StoreError, ValueError) as error:
        raise Failure(str(error)) from error


async def _serve(
    group: ServerGroup, settings: ClusterSettings, kubeconfig: Path, what: str, manifests: Any, follows_links: bool
) -> None:
    stop = stop_event()
    await group.start()
    try:
        write_kubeconfig(kubeconfig, group.kubeconfig(), settings.directory, follows_links=follows_links)
        await wait_for_stop(stop, _filled(group, settings, manifests))
        if stop.is_set():
            return
        click.echo(
            f"ready: {group.server_url} ({what})\n\n  export KUBECONFIG={kubeconfig}\n  kubectl get nodes\n",
        )
        await wait_for_stop(stop, group.wait())
    finally:
        await group.stop()


async def _filled(group: ServerGroup, settings: ClusterSettings, manifests: Any) -> None:
    """Apply manifests, and wait for nodes if there are to be any. Raises ManifestError, ApiError, TransportError."""
    from bayplan.cluster.manifests.apply import apply_manifests
    from bayplan.cluster.node_readiness import NodeReadiness, wait_for_nodes

    nodes = settings.nodes.nodes
    if not manifests and not nodes:
        return
    client = group.client()
    try:
        if manifests:
            count = await apply_manifests(client, manifests)
            click.echo(f"applied {count} object{'s' * (count != 1)}")
        await wait_for_nodes(client, NodeReadiness(nodes, (), 0), _NODE_SECONDS)
    finally:
        await client.close()
