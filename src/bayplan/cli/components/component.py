"""What the verbs of single components share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.connect import connect
from bayplan.cli.flags.election import election_of, election_options
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop

F = TypeVar("F", bound=Callable[..., Any])


def component_options(port: int, election: Mapping[str, Any] | None = None) -> Callable[[F], F]:
    """The options that all components take: kubeconfig, leader election, address for health and metrics.

    election: defaults of leader election that are not the usual ones, as in `leaderElection` of a configuration.
    """

    def decorate(function: F) -> F:
        for option in (
            click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes."),
            click.option(
                "--bind-address", default="127.0.0.1", show_default=True, help="Address for health and metrics."
            ),
            click.option(
                "--secure-port",
                type=click.IntRange(0, 65535),
                default=port,
                show_default=True,
                help="Port for health and metrics (HTTP); 0: none.",
            ),
            election_options(election or {}),
            click.option(
                "--kubeconfig",
                type=click.Path(path_type=Path),
                help="Kubeconfig of the cluster.  [default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod]",
            ),
        ):
            function = option(function)
        return function

    return decorate


def run(
    name: str,
    make: Callable[[Any, Any, Any, Any], Any],
    *,
    kubeconfig: Path | None,
    secure_port: int,
    bind_address: str,
    v: int,
    configured: Mapping[str, Any] | None = None,
    serves_metrics: bool = True,
    pages: Callable[[Any, Any, Any], Mapping[str, Any]] | None = None,
    **election_flags: Any,
) -> None:
    """Run a component until SIGINT or SIGTERM. `make` gets client, clock, randomness and metrics and returns something with `run()`.

    configured: `leaderElection` of the component's configuration; flags go before it. pages: gets component, client and clock, and returns what answers requests
    beside health and metrics, by path. Raises Failure.
    """
    from bayplan.client.leader_election import LeadershipLost
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.standalone import HealthServer, run_component
    from bayplan.support.clock import SystemClock
    from bayplan.support.logging import set_up_logging
    from bayplan.support.metrics.instruments import Registry
    from bayplan.support.randomness import SystemRandomness

    set_up_logging(verbosity=v)
    election = election_of(name, election_flags, configured or {})

    def waits(leader: str) -> None:
        assert election is not None
        click.echo(
            f"waiting: {leader} holds the lock {election.namespace}/{election.name} "
            "(another lock: --leader-elect-resource-name, none: --leader-elect=false)"
        )

    async def main() -> None:
        stop = stop_event()
        clock, randomness, metrics = SystemClock(), SystemRandomness(), Registry()
        client = connect(kubeconfig, "", user_agent=name, metrics=metrics)
        health = HealthServer(metrics, serves_metrics=serves_metrics)
        await health.start(bind_address, secure_port)
        component = make(client, clock, randomness, metrics)
        for path, handler in (pages(component, client, clock) if pages is not None else {}).items():
            health.handle(path, handler)
        click.echo(f"started: {name}")
        await run_component(
            client,
            name,
            component.run,
            stop,
            clock=clock,
            randomness=randomness,
            election=election,
            waits=waits,
            health=health,
        )

    try:
        run_loop(main())
    except (ClusterError, LeadershipLost, ValueError) as error:
        raise Failure(str(error)) from error
