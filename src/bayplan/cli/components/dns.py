"""`bayplan dns`: the DNS server of any cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop
from bayplan.support.running import wait_for_stop

if TYPE_CHECKING:
    from bayplan.dns.service import DnsServer
    from bayplan.dns.settings import DnsSettings

_PORT = click.IntRange(0, 65535)


@click.command()
@connection_options
@click.option(
    "--listen",
    multiple=True,
    default=("127.0.0.1",),
    show_default=True,
    metavar="ADDRESS",
    help="Address to answer at, IPv4 or IPv6, 0.0.0.0 and :: for all; may be repeated.",
)
@click.option(
    "--port", type=_PORT, default=53, show_default=True, help="Port for UDP and TCP; 0 picks one that is free."
)
@click.option(
    "--domain",
    default="cluster.local",
    show_default=True,
    help="Domain of the cluster, as the kubelets have it (clusterDomain).",
)
@click.option(
    "--forward",
    multiple=True,
    default=("/etc/resolv.conf",),
    show_default=True,
    metavar="SERVER|FILE|none",
    help="Who is asked about all other names: ADDRESS[:PORT], or a file with nameserver lines; may be repeated. "
    "none: they are refused.",
)
@click.option(
    "--cache-seconds",
    type=click.IntRange(0, 86_400),
    default=30,
    show_default=True,
    help="How long answers of these servers are kept at most; 0: not at all.",
)
@click.option(
    "--ttl",
    type=click.IntRange(0, 3600),
    default=5,
    show_default=True,
    help="Seconds that clients may keep answers about the cluster.",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address for health, readiness and metrics (HTTP).",
)
@click.option("--health-port", type=_PORT, default=8080, show_default=True, help="Port of /health; 0: none.")
@click.option("--ready-port", type=_PORT, default=8181, show_default=True, help="Port of /ready; 0: none.")
@click.option("--metrics-port", type=_PORT, default=9153, show_default=True, help="Port of /metrics; 0: none.")
@click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes.")
def command(
    kubeconfig: Path | None,
    context: str,
    listen: tuple[str, ...],
    port: int,
    domain: str,
    forward: tuple[str, ...],
    cache_seconds: int,
    ttl: int,
    bind_address: str,
    health_port: int,
    ready_port: int,
    metrics_port: int,
    v: int,
) -> None:
    """Answer DNS questions about the services and pods of any cluster, Bayplan's or a real one.

    Names, records and answers are those of the Kubernetes DNS specification 1.1 and of CoreDNS.
    Questions about other names go to the servers that --forward names.
    """
    from bayplan.dns.errors import SettingsError
    from bayplan.dns.settings import DnsSettings, parse_domain, parse_forward, parse_listen
    from bayplan.support.logging import set_up_logging

    try:
        settings = DnsSettings(
            listen=parse_listen(listen),
            port=port,
            domain=parse_domain(domain),
            ttl=ttl,
            forward=parse_forward(forward),
            cache_seconds=cache_seconds,
            bind_address=bind_address,
            health_port=health_port or None,
            ready_port=ready_port or None,
            metrics_port=metrics_port or None,
        )
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    set_up_logging(verbosity=v)
    run_server(settings, kubeconfig, context)


def run_server(settings: DnsSettings, kubeconfig: Path | None, context: str) -> None:
    """Serve until SIGINT or SIGTERM. Raises Failure."""
    try:
        from bayplan.dns.service import DnsServer
    except ImportError as error:
        raise Failure(str(error)) from error
    from bayplan.dns.errors import DnsError
    from bayplan.support.clock import SystemClock
    from bayplan.support.metrics.instruments import Registry
    from bayplan.support.randomness import SystemRandomness

    async def main() -> None:
        stop, registry = stop_event(), Registry()
        client = connect(kubeconfig, context, user_agent="bayplan-dns", metrics=registry)
        clock, randomness = SystemClock(), SystemRandomness()
        try:
            async with DnsServer(client, settings, clock=clock, randomness=randomness, registry=registry) as server:
                click.echo(f"listening: {', '.join(map(str, server.bound))}, domain {settings.domain}")
                await wait_for_stop(stop, _serve(server))
        finally:
            await client.close()

    try:
        run_loop(main())
    except DnsError as error:
        raise Failure(str(error)) from error


async def _serve(server: DnsServer) -> None:
    """Say when the cluster is known, and go on. Raises what ended an informer."""
    await server.wait_for_sync()
    click.echo("ready")
    await asyncio.Event().wait()
