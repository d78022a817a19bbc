"""What the verbs of single components share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bayplan.cli.connect import connect
from bayplan.cli.output import Failure
from bayplan.cli.up import run_loop, stop_event

F = TypeVar("F", bound=Callable[..., Any])


def component_options(port: int) -> Callable[[F], F]:
    """The options that all components take: kubeconfig, leader election, address for health and metrics."""

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
            click.option(
                "--leader-elect",
                type=bool,
                default=True,
                show_default=True,
                is_flag=False,
                flag_value=True,
                help="Work only while holding the lease.",
            ),
            click.option(
                "--kubeconfig",
                type=click.Path(path_type=Path),
                help="Kubeconfig of the cluster.  [default: $KUBECONFIG, then ~/.kube/config]",
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
    leader_elect: bool,
    secure_port: int,
    bind_address: str,
    v: int,
) -> None:
    """Run a component until SIGINT or SIGTERM. `make` gets client, clock, randomness and metrics and returns something with `run()`. Raises Failure."""
    from bayplan.client.leader_election import LeadershipLost
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.standalone import HealthServer, run_component
    from bayplan.support.clock import SystemClock
    from bayplan.support.logging import set_up_logging
    from bayplan.support.metrics import Registry
    from bayplan.support.randomness import SystemRandomness

    set_up_logging(verbosity=v)

    async def main() -> None:
        stop = stop_event()
        clock, randomness, metrics = SystemClock(), SystemRandomness(), Registry()
        client = connect(kubeconfig, "", user_agent=name, metrics=metrics)
        health = HealthServer(metrics)
        await health.start(bind_address, secure_port)
        component = make(client, clock, randomness, metrics)
        click.echo(f"started: {name}")
        await run_component(
            client, name, component.run, stop, clock=clock, randomness=randomness, elect=leader_elect, health=health
        )

    try:
        run_loop(main())
    except (ClusterError, LeadershipLost, ValueError) as error:
        raise Failure(str(error)) from error
