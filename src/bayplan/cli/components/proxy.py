"""`bayplan proxy`: the service proxy of a node of any cluster, with kube-proxy's flags and configuration file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from bayplan.cli.flags.configuration_flags import field_options, given_fields, put_field
from bayplan.cli.flags.feature_gates import gates_of
from bayplan.cli.flags.kube_command import KubeCommand
from bayplan.cli.flags.kube_flag_tables import PROXY
from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.client import Client
    from bayplan.proxy.configuration import KubeProxyConfiguration
    from bayplan.proxy.service import ProxyServer
    from bayplan.support.metrics.instruments import Registry

F = TypeVar("F", bound=Callable[..., Any])

_CONFIGURED: Final = {
    "--bind-address": (
        "bindAddress",
        str,
        "Address of the node, instead of that of its Node object; nothing listens there.",
    ),
    "--healthz-bind-address": (
        "healthzBindAddress",
        str,
        "Address and port for health checks; empty: none.  [default: 0.0.0.0:10256]",
    ),
    "--metrics-bind-address": (
        "metricsBindAddress",
        str,
        "Address and port for metrics; empty: none.  [default: 127.0.0.1:10249]",
    ),
    "--proxy-mode": ("mode", str, "nftables, or empty for that."),
    "--cluster-cidr": ("clusterCIDR", str, "Range of pods (CIDR), or one of each family with a comma between."),
    "--detect-local-mode": (
        "detectLocalMode",
        str,
        "How packets of pods are told from others: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
    ),
    "--pod-bridge-interface": ("detectLocal.bridgeInterface", str, "Bridge of pods, for BridgeInterface."),
    "--pod-interface-name-prefix": (
        "detectLocal.interfaceNamePrefix",
        str,
        "What names of pods' interfaces begin with, for InterfaceNamePrefix.",
    ),
    "--nftables-masquerade-bit": ("nftables.masqueradeBit", int, "Bit of packet marks for masquerading, 0 to 31."),
    "--nftables-min-sync-period": (
        "nftables.minSyncPeriod",
        str,
        "Least time between two changes of rules, such as 1s.",
    ),
    "--nftables-sync-period": (
        "nftables.syncPeriod",
        str,
        "How often changes by others are looked for, and longest time before another attempt, such as 30s.",
    ),
    "--conntrack-max-per-core": (
        "conntrack.maxPerCore",
        int,
        "Connections to track for each CPU; 0 leaves the limit as it is.",
    ),
    "--conntrack-min": ("conntrack.min", int, "Connections to track at least."),
    "--conntrack-tcp-timeout-established": (
        "conntrack.tcpEstablishedTimeout",
        str,
        "How long idle TCP connections are tracked, such as 24h; 0 leaves it as it is.",
    ),
    "--conntrack-tcp-timeout-close-wait": (
        "conntrack.tcpCloseWaitTimeout",
        str,
        "Likewise of those that one side has closed.",
    ),
    "--conntrack-udp-timeout": ("conntrack.udpTimeout", str, "Likewise of UDP without an answer."),
    "--conntrack-udp-timeout-stream": ("conntrack.udpStreamTimeout", str, "Likewise of UDP with answers."),
    "--config-sync-period": ("configSyncPeriod", str, "Has no effect: what changes is sent at once."),
    "--oom-score-adj": ("oomScoreAdj", int, "When the kernel kills this process for memory, -1000 to 1000."),
    "--show-hidden-metrics-for-version": ("showHiddenMetricsForVersion", str, "Has no effect: no metrics are hidden."),
}
"""Flags that stand for a field of the configuration: name -> (field, type, help)."""
_SWITCHES: Final = {
    "--masquerade-all": ("nftables.masqueradeAll", "Hide the sources of all packets to cluster IPs."),
    "--conntrack-tcp-be-liberal": ("conntrack.tcpBeLiberal", "Take TCP packets out of the window as valid."),
    "--bind-address-hard-fail": ("bindAddressHardFail", "End if an address cannot be listened on."),
    "--profiling": ("enableProfiling", "Has no effect."),
}


def _with_flags(function: F) -> F:
    gates = {"--feature-gates": ("featureGates", "Features A=true,B=false; none has an effect.")}
    function = field_options(values=_CONFIGURED, switches=_SWITCHES, texts=gates)(function)
    return click.option(
        "--nodeport-addresses",
        default=None,
        help="Ranges (CIDR) of addresses at which node ports are open, with commas, or primary.  [default: primary]",
    )(function)


@click.command(cls=KubeCommand, table=PROXY)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="KubeProxyConfiguration. With it only --master, --hostname-override and --v of the other flags count.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="How to reach the API server.  [default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod]",
)
@click.option("--master", default="", metavar="URL", help="URL of the API server, instead of the kubeconfig's.")
@click.option("--hostname-override", default="", help="Name of the node.  [default: the machine's]")
@_with_flags
@click.option("--cleanup", is_flag=True, help="Remove all rules, and end.")
@click.option("--init-only", is_flag=True, help="Set what needs root, and end; CAP_NET_ADMIN is enough afterwards.")
@click.option("--v", "v", type=int, default=None, help="Log verbosity, as in Kubernetes.")
def command(config: Path | None, kubeconfig: Path | None, master: str, **options: Any) -> None:
    """Bring traffic to the services of any cluster, Bayplan's or a real one, to their endpoints: kube-proxy's nftables mode.

    Rules stay when it ends, so that services go on working; --cleanup removes them.
    """
    from bayplan.proxy.errors import ConfigurationError, ProxyError
    from bayplan.support.logging import set_up_logging
    from bayplan.support.loop import run_loop

    try:
        configuration = _configuration(config, options)
    except ConfigurationError as error:
        raise Failure(str(error)) if config is not None else click.UsageError(str(error)) from error
    verbosity = options["v"] if options["v"] is not None else configuration.logging.get("verbosity", 0)
    set_up_logging(verbosity=int(verbosity))
    path = kubeconfig
    if path is None and configuration.client_connection.kubeconfig:
        path = Path(configuration.client_connection.kubeconfig)
    try:
        if options["cleanup"]:
            run_loop(_clean_up())
        else:
            run_loop(_run(configuration, path, master, options))
    except ProxyError as error:
        raise Failure(str(error)) from error


async def _run(
    configuration: KubeProxyConfiguration, kubeconfig: Path | None, master: str, options: dict[str, Any]
) -> None:
    from bayplan.cli.clusters.stopping import stop_event
    from bayplan.proxy.system.machine import prepare_machine
    from bayplan.proxy.system.requirements import check_requirements
    from bayplan.support.clock import SystemClock
    from bayplan.support.metrics.instruments import Registry
    from bayplan.support.randomness import SystemRandomness
    from bayplan.support.running import wait_for_stop

    await check_requirements()
    prepare_machine(configuration)
    if options["init_only"]:
        return
    from bayplan.proxy.families import IPV4, IPV6
    from bayplan.proxy.service import ProxyServer
    from bayplan.proxy.system.kernel import NetlinkKernel
    from bayplan.proxy.system.nft import Nft
    from bayplan.support.system.machine import has_ipv6

    stop, registry = stop_event(), Registry()
    name = _node_name(options["hostname_override"] or configuration.hostname_override)
    client = _client(kubeconfig, master, registry)
    writer, kernel = Nft(), NetlinkKernel()
    try:
        server = ProxyServer(
            client,
            configuration,
            name,
            families=(IPV4, IPV6) if has_ipv6() else (IPV4,),
            writer=writer,
            kernel=kernel,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            registry=registry,
        )
        async with server:
            click.echo(f"started: proxy of node {name}")
            await wait_for_stop(stop, _serve(server))
    finally:
        writer.close()
        kernel.close()
        await client.close()


async def _serve(server: ProxyServer) -> None:
    """Say when all rules are in the kernel. Raises what ends a part of the proxy."""
    await server.wait_for_rules()
    click.echo("ready")
    await server.wait()


async def _clean_up() -> None:
    from bayplan.proxy.families import FAMILIES
    from bayplan.proxy.rules.transactions import removal
    from bayplan.proxy.system.nft import NftProgram
    from bayplan.proxy.system.requirements import check_requirements

    await check_requirements()
    for family in FAMILIES:
        await NftProgram().apply(removal(family).text)
    click.echo("removed: tables kube-proxy of ip and ip6")


def _client(kubeconfig: Path | None, master: str, registry: Registry) -> Client:
    """A client for the kubeconfig's cluster, or for that at `master` with its credentials, or without any. Raises KubeconfigError."""
    from dataclasses import replace

    from bayplan.cli.connect import connect
    from bayplan.client import Client
    from bayplan.client.credentials import Credentials
    from bayplan.client.http import HttpTransport
    from bayplan.client.kubeconfig import load

    if not master:
        return connect(kubeconfig, "", user_agent="kube-proxy", metrics=registry)
    found = load(kubeconfig) if kubeconfig is not None else Credentials(master)
    return Client(HttpTransport(replace(found, server=master), user_agent="kube-proxy"))


def _node_name(override: str) -> str:
    from bayplan.support.system.machine import hostname

    name = override.strip().lower() or hostname()
    if not name:
        raise click.UsageError("--hostname-override: the machine has no name; give the node's")
    return name


def _configuration(config: Path | None, options: dict[str, Any]) -> KubeProxyConfiguration:
    """The file's configuration, or that of the flags. Raises ConfigurationError, UsageError."""
    from bayplan.proxy.configuration import from_tree, read_tree

    tree = read_tree(config)
    if config is not None:
        return from_tree(tree, str(config))
    for _, field, value in given_fields(options, _CONFIGURED, _SWITCHES):
        put_field(tree, field, value)
    if options["nodeport_addresses"]:
        tree["nodePortAddresses"] = options["nodeport_addresses"].split(",")
    if options["feature_gates"]:
        tree["featureGates"] = gates_of(options["feature_gates"])
    found = from_tree(tree, "flags")
    for flag, attribute in (("healthz_bind_address", "healthz_bind_address"), ("metrics_bind_address",) * 2):
        if options[flag] == "":
            setattr(found, attribute, "")
    return found
