"""A group of API server processes, from its start until it is told to stop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.kubeconfig_file import write_kubeconfig
from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop
from bayplan.support.running import wait_for_stop

if TYPE_CHECKING:
    from bayplan.cluster.server_group import ServerGroup
    from bayplan.cluster.settings import ClusterSettings


def run_group_until_stopped(settings: ClusterSettings, processes: int, kubeconfig: Path) -> None:
    """Run API servers in so many processes until SIGINT or SIGTERM. Raises Failure."""
    if sys.platform != "linux":
        raise Failure("--processes needs Linux")
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.server_group import server_group
    from bayplan.store.errors import StoreError
    from bayplan.support.clock import SystemClock

    try:
        with server_group(settings, processes, SystemClock()) as group:
            run_loop(_serve(group, settings, processes, kubeconfig.absolute()))
    except (ClusterError, StoreError, ValueError) as error:
        raise Failure(str(error)) from error


async def _serve(group: ServerGroup, settings: ClusterSettings, processes: int, kubeconfig: Path) -> None:
    stop = stop_event()
    await group.start()
    try:
        write_kubeconfig(kubeconfig, group.kubeconfig(), settings.directory, follows_links=True)
        click.echo(
            f"ready: {group.server_url} (API server alone, {processes} processes)\n\n"
            f"  export KUBECONFIG={kubeconfig}\n  kubectl get nodes\n"
        )
        await wait_for_stop(stop, group.wait())
    finally:
        await group.stop()
