"""`bayplan network`: the pod network of this machine's node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop
from bayplan.support.running import wait_for_stop

if TYPE_CHECKING:
    from bayplan.network.settings import NetworkSettings

_PORT = click.IntRange(0, 65535)


@click.command()
@connection_options
@click.option("--hostname-override", default="", help="Name of the node.  [default: the machine's]")
@click.option(
    "--data-plane",
    type=click.Choice(("overlay", "routed")),
    default="overlay",
    show_default=True,
    help="How packets reach the pods of other nodes: in VXLAN packets, or by plain routes between nodes that share a subnet.",
)
@click.option(
    "--pod-interface",
    type=click.Choice(("ptp", "bridge", "ipvlan")),
    default="ptp",
    show_default=True,
    help="How pods are attached to the node: each by a link of its own, at a bridge, or to the node's interface.",
)
@click.option(
    "--masquerade",
    type=click.Choice(("external", "non-pods", "off")),
    default="external",
    show_default=True,
    help="What pods send under the node's address: all but what goes to pods and nodes, all but what goes to pods, or nothing.",
)
@click.option(
    "--cluster-cidr",
    default="",
    help="Networks of all pods, with commas. What goes to pods of no node is refused at once then, and does not leave the node.",
)
@click.option(
    "--mtu", type=int, default=0, help="Largest packet of pods.  [default: as the interface and the tunnel allow]"
)
@click.option("--vxlan-device", default="bayplan-vxlan", show_default=True, help="Name of the tunnel's device.")
@click.option(
    "--vxlan-id", type=int, default=1, show_default=True, help="VXLAN network identifier, the same on all nodes."
)
@click.option(
    "--vxlan-port",
    type=click.IntRange(1, 65535),
    default=8472,
    show_default=True,
    help="UDP port of the tunnel, the same on all nodes.",
)
@click.option(
    "--cni-conf-dir",
    type=click.Path(path_type=Path),
    default=Path("/etc/cni/net.d"),
    show_default=True,
    help="Directory in which the container runtime looks for networks.",
)
@click.option(
    "--cni-bin-dir",
    type=click.Path(path_type=Path),
    help="Directory of the network plugins.  [default: where distributions put them]",
)
@click.option(
    "--cni-chain",
    default="portmap,bandwidth",
    show_default=True,
    help="Plugins that follow, with commas: portmap (host ports), bandwidth, firewall (accepts pods' packets where FORWARD drops).",
)
@click.option(
    "--address-dir",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/cni/networks"),
    show_default=True,
    help="Where the plugin host-local notes which addresses are taken.",
)
@click.option("--bridge", default="cni0", show_default=True, help="Name of the bridge, for --pod-interface=bridge.")
@click.option("--policies/--no-policies", default=True, show_default=True, help="Whether NetworkPolicies are enforced.")
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Address for health and metrics.")
@click.option(
    "--metrics-port",
    type=_PORT,
    default=9101,
    show_default=True,
    help="Port of /healthz, /readyz and /metrics (HTTP); 0: none.",
)
@click.option("--cleanup", is_flag=True, help="Remove all that this command has made on the machine, and end.")
@click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes.")
def command(
    kubeconfig: Path | None,
    context: str,
    hostname_override: str,
    cni_chain: str,
    cluster_cidr: str,
    cleanup: bool,
    v: int,
    **options: Any,
) -> None:
    """Connect the pods of this machine's node with those of all other nodes.

    It writes the network configuration for the container runtime once the node has a podCIDR, and
    keeps routes (or a VXLAN tunnel) to the pods of every other node. It needs root. What it has set
    up stays when it ends, so that pods keep their network; --cleanup removes it.
    """
    from bayplan.network.errors import NetworkError, SettingsError
    from bayplan.support.logging import set_up_logging

    set_up_logging(verbosity=v)
    try:
        settings = _settings(hostname_override, _parts(cni_chain), _parts(cluster_cidr), options)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    try:
        run_loop(_clean_up(settings) if cleanup else _run(settings, kubeconfig, context))
    except NetworkError as error:
        raise Failure(str(error)) from error


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part for each in text.split(",") if (part := each.strip()))


def _settings(name: str, chain: tuple[str, ...], networks: tuple[str, ...], options: dict[str, Any]) -> NetworkSettings:
    """Settings from options. Raises SettingsError."""
    from bayplan.network.settings import DataPlane, Masquerade, NetworkSettings, PodInterface
    from bayplan.support.system.machine import hostname

    return NetworkSettings(
        node_name=name or hostname(),
        data_plane=DataPlane(options["data_plane"]),
        pod_interface=PodInterface(options["pod_interface"]),
        masquerade=Masquerade(options["masquerade"]),
        mtu=options["mtu"],
        vxlan_device=options["vxlan_device"],
        vxlan_id=options["vxlan_id"],
        vxlan_port=options["vxlan_port"],
        cni_config=options["cni_conf_dir"],
        cni_plugins=options["cni_bin_dir"],
        cni_chain=chain,
        cluster_networks=networks,
        address_directory=options["address_dir"].absolute(),
        bridge=options["bridge"],
        policies=options["policies"],
        bind_address=options["bind_address"],
        metrics_port=options["metrics_port"] or None,
    )


async def _run(settings: NetworkSettings, kubeconfig: Path | None, context: str) -> None:
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.standalone import HealthServer
    from bayplan.network.service import NetworkAgent, check_rights
    from bayplan.support.clock import SystemClock
    from bayplan.support.metrics.instruments import Registry
    from bayplan.support.randomness import SystemRandomness

    stop, registry = stop_event(), Registry()
    check_rights()
    client = connect(kubeconfig, context, user_agent="bayplan-network", metrics=registry)
    agent = NetworkAgent(client, settings, clock=SystemClock(), randomness=SystemRandomness(), registry=registry)
    health = HealthServer(registry, lambda: agent.not_ready, option="--metrics-port")
    try:
        await health.start(settings.bind_address, settings.metrics_port or 0)
        click.echo(f"started: node {settings.node_name}, {settings.data_plane}")
        await wait_for_stop(stop, agent.run())
    except ClusterError as error:
        raise Failure(str(error)) from error
    finally:
        await health.stop()
        await client.close()


async def _clean_up(settings: NetworkSettings) -> None:
    from bayplan.network.policy.errors import PolicyError
    from bayplan.network.service import check_rights, clean_up
    from bayplan.support.system.programs import ProgramError

    try:
        check_rights()
        await clean_up(settings)
    except (ProgramError, PolicyError, OSError) as error:
        raise Failure(str(error)) from error
    click.echo("removed")
