"""`bayplan csi-local`: a storage driver for the disk of this node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop

if TYPE_CHECKING:
    from bayplan.csi_local.settings import LocalDriverSettings

_PATH = click.Path(path_type=Path)
_NAME = "local.csi.bayplan.dev"
_PLUGINS = "/var/lib/kubelet/plugins"


@click.group(invoke_without_command=True)
@click.option(
    "--endpoint",
    default=f"{_PLUGINS}/{_NAME}/csi.sock",
    show_default=True,
    help="Socket of the driver; unix:// before it may be left out.",
)
@click.option(
    "--node-id", default="", envvar="NODE_NAME", help="Name of the node.  [default: $NODE_NAME, then the host name]"
)
@click.option("--driver-name", default=_NAME, show_default=True, help="Name of the driver.")
@click.option(
    "--data-dir",
    type=_PATH,
    default=Path("/var/lib/bayplan/csi-local"),
    show_default=True,
    help="Where volumes and snapshots are kept.",
)
@click.option(
    "--plugin-registry",
    default="/var/lib/kubelet/plugins_registry",
    show_default=True,
    metavar="DIRECTORY|none",
    help="Where the kubelet looks for plugins; none: a node-driver-registrar beside the driver registers it.",
)
@click.option(
    "--kubelet-registration-path", type=_PATH, help="The socket as the kubelet sees it.  [default: --endpoint]"
)
@click.option(
    "--max-volumes-per-node",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="How many volumes the scheduler may bring to the node; 0: as many as it likes.",
)
@click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes.")
@click.pass_context
def command(
    context: click.Context,
    endpoint: str,
    node_id: str,
    driver_name: str,
    data_dir: Path,
    plugin_registry: str,
    kubelet_registration_path: Path | None,
    max_volumes_per_node: int,
    v: int,
) -> None:
    """Offer the disk of this node as volumes, over CSI: directories, and images with a size limit."""
    if context.invoked_subcommand is not None:
        return
    from bayplan.csi_local.settings import LocalDriverSettings
    from bayplan.support.logging import set_up_logging
    from bayplan.support.system.machine import hostname

    set_up_logging(verbosity=v)
    run_driver(
        LocalDriverSettings(
            node_name=node_id or hostname(),
            data_dir=data_dir.absolute(),
            endpoint=Path(endpoint.removeprefix("unix://")).absolute(),
            registry=None if plugin_registry == "none" else Path(plugin_registry),
            endpoint_seen_by_kubelet=kubelet_registration_path,
            name=driver_name,
            max_volumes_per_node=max_volumes_per_node,
        )
    )


@command.command("manifests")
@click.option("--driver-name", default=_NAME, show_default=True, help="Name of the driver.")
@click.option(
    "--default-class/--no-default-class",
    default=True,
    show_default=True,
    help="Whether claims that name no class get a directory of this driver.",
)
@click.option(
    "--snapshots/--no-snapshots",
    default=True,
    show_default=True,
    help="Whether to print the VolumeSnapshotClass, which needs the definitions of `bayplan csi-controller manifests`.",
)
def manifests(driver_name: str, default_class: bool, snapshots: bool) -> None:
    """Print the objects by which a cluster knows the driver: CSIDriver, storage classes, snapshot class."""
    from bayplan.csi_local.manifests import as_yaml, objects, snapshot_class

    found = objects(driver_name, default=default_class)
    click.echo(as_yaml([*found, snapshot_class(driver_name)] if snapshots else found), nl=False)


def run_driver(settings: LocalDriverSettings) -> None:
    """Serve until SIGINT or SIGTERM. Raises Failure."""
    try:
        from bayplan.csi_local.service import LocalDriverService
    except ImportError as error:
        raise Failure(str(error)) from error
    from bayplan.csi_local.errors import LocalDriverError
    from bayplan.support.blocking import in_thread
    from bayplan.support.clock import SystemClock
    from bayplan.support.randomness import SystemRandomness

    async def main() -> None:
        stop = stop_event()
        randomness = SystemRandomness()
        async with LocalDriverService(settings, clock=SystemClock(), randomness=randomness, blocking=in_thread):
            click.echo(f"ready: {settings.name} on node {settings.node_name}, socket {settings.endpoint}")
            await stop.wait()

    try:
        run_loop(main())
    except LocalDriverError as error:
        raise Failure(str(error)) from error
