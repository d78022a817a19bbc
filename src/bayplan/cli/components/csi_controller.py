"""`bayplan csi-controller`: the controllers of a storage driver, with the flags of its sidecars."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.clusters.stopping import stop_event
from bayplan.cli.connect import connect
from bayplan.cli.flags.controller_flags import DURATION
from bayplan.cli.flags.election import election_times
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop

if TYPE_CHECKING:
    from bayplan.cluster.standalone import Election
    from bayplan.csi_controller.settings import CsiControllerSettings

F = TypeVar("F", bound=Callable[..., Any])

_TIMES = {
    "timeout": ("15s", "How long a call of the driver may take."),
    "retry-interval-start": ("1s", "Before the second try of something that failed; it doubles each time."),
    "retry-interval-max": ("5m", "The longest such time."),
    "node-deployment-base-delay": (
        "20s",
        "Up to how long an instance on a node waits before it takes a claim that is bound at once.",
    ),
    "capacity-poll-interval": ("1m", "Between two looks at the room."),
}
_BOOLEANS = {
    "extra-create-metadata": (False, "Tell the driver the names of claim, volume and snapshot."),
    "strict-topology": (False, "Tell the driver of the selected node's topology only."),
    "immediate-topology": (True, "Tell the driver of all topologies for claims that are bound at once."),
    "node-deployment": (False, "Run one instance on each node ($NODE_NAME), for the volumes of that node."),
    "node-deployment-immediate-binding": (True, "Let these also take claims that are bound at once."),
    "enable-capacity": (False, "Tell the cluster how much room there is (CSIStorageCapacity)."),
    "capacity-for-immediate-binding": (False, "Also for classes that bind at once."),
    "handle-volume-inuse-error": (
        True,
        "Wait with an expansion until nobody uses the volume, once the driver has refused it for that.",
    ),
}
_TEXTS = {
    "volume-name-prefix": ("pvc", "Beginning of the names of volumes."),
    "snapshot-name-prefix": ("snapshot", "Beginning of the names of snapshots."),
    "default-fstype": ("", "File system of volumes whose class names none."),
}
_RENAMED = {"node_deployment_immediate_binding": "immediate_binding"}
_GATES = {"VolumeAttributesClass": "volume_attributes_class", "VolumeSnapshots": "snapshots"}


def _settings_flags(function: F) -> F:
    for name, (text, meaning) in reversed(_TIMES.items()):
        function = click.option(f"--{name}", type=DURATION, default=text, show_default=True, help=meaning)(function)
    for name, (value, meaning) in reversed(_BOOLEANS.items()):
        function = click.option(
            f"--{name}", type=bool, is_flag=False, flag_value=True, default=value, show_default=True, help=meaning
        )(function)
    for name, (text, meaning) in reversed(_TEXTS.items()):
        function = click.option(f"--{name}", default=text, show_default=bool(text), help=meaning)(function)
    return function


@click.group(invoke_without_command=True)
@click.option(
    "--csi-address",
    default="/run/csi/socket",
    show_default=True,
    help="Socket of the driver; unix:// before it may be left out.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig of the cluster.  [default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod]",
)
@click.option(
    "--worker-threads",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Objects of a kind that are worked on at once.",
)
@_settings_flags
@click.option(
    "--capacity-ownerref-level",
    type=click.IntRange(-1, 3),
    default=1,
    show_default=True,
    help="Who owns CSIStorageCapacity objects: 0 the pod of this process ($POD_NAME, $NAMESPACE), 1 its owner, ..., -1 nobody.",
)
@click.option(
    "--feature-gates", default="", help=f"NAME=true|false, with commas between: {', '.join(_GATES)}; both are on."
)
@click.option(
    "--leader-election",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=False,
    show_default=True,
    help="Of several instances for a driver let one at a time work.",
)
@click.option(
    "--leader-election-namespace", default="", help="Where the lease is.  [default: $NAMESPACE, then default]"
)
@click.option(
    "--leader-election-lease-duration",
    type=DURATION,
    default="15s",
    show_default=True,
    help="After which others take a lease that is not renewed.",
)
@click.option(
    "--leader-election-renew-deadline",
    type=DURATION,
    default="10s",
    show_default=True,
    help="After which a leader that cannot renew gives up.",
)
@click.option(
    "--leader-election-retry-period", type=DURATION, default="5s", show_default=True, help="Between two tries."
)
@click.option(
    "--http-endpoint", default="", metavar="ADDRESS:PORT", help="Address for health and metrics.  [default: none]"
)
@click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes.")
@click.pass_context
def command(
    context: click.Context, /, csi_address: str, kubeconfig: Path | None, http_endpoint: str, v: int, **options: Any
) -> None:
    """Do what a cluster asks of a storage driver: make, delete, attach, expand, modify and snapshot volumes.

    It stands for external-provisioner, external-attacher, external-resizer and external-snapshotter with its
    snapshot-controller, as far as the driver offers what they need.
    """
    if context.invoked_subcommand is not None:
        return
    from bayplan.support.logging import set_up_logging

    set_up_logging(verbosity=v)
    settings = settings_of(options)
    if settings.node_deployment and options["leader_election"]:
        raise click.UsageError(
            "--node-deployment and --leader-election exclude each other: every node has its instance"
        )
    host, port = _endpoint(http_endpoint)
    socket = Path(csi_address.removeprefix("unix://"))
    run_controllers(socket, kubeconfig, settings, options, host, port)


@command.command("manifests")
def manifests() -> None:
    """Print the definitions of snapshots: VolumeSnapshot, VolumeSnapshotContent and VolumeSnapshotClass."""
    import yaml

    from bayplan.csi_controller.snapshot_kinds import definitions

    class Plain(yaml.SafeDumper):
        """Writes what occurs twice twice."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    click.echo(yaml.dump_all(definitions(), Dumper=Plain, sort_keys=False), nl=False)


def settings_of(options: dict[str, Any]) -> CsiControllerSettings:
    """What flags and environment say. Raises UsageError."""
    from bayplan.csi_controller.settings import CsiControllerSettings

    names = [name.replace("-", "_") for name in (*_TIMES, *_BOOLEANS, *_TEXTS)]
    given = {_RENAMED.get(name, name): options[name] for name in (*names, "worker_threads", "capacity_ownerref_level")}
    for gate in filter(None, options["feature_gates"].split(",")):
        name, _, value = gate.partition("=")
        if name not in _GATES or value not in ("true", "false"):
            raise click.UsageError(f"--feature-gates: {gate!r}: say NAME=true|false; known: {', '.join(_GATES)}")
        given[_GATES[name]] = value == "true"
    environment = os.environ
    return CsiControllerSettings(
        **given,
        node_name=environment.get("NODE_NAME", ""),
        namespace=environment.get("NAMESPACE", "default"),
        pod_name=environment.get("POD_NAME", ""),
    )


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if text and not port.isdigit():
        raise click.UsageError(f"--http-endpoint: {text!r} is not ADDRESS:PORT, such as :8080")
    return host or "0.0.0.0", int(port or 0)


def _election(options: dict[str, Any], driver: str, namespace: str) -> Election | None:
    """The lease for a driver; None without an election. Raises Failure."""
    if not options["leader_election"]:
        return None
    from bayplan.cluster.standalone import Election

    times = election_times(
        options["leader_election_lease_duration"],
        options["leader_election_renew_deadline"],
        options["leader_election_retry_period"],
    )
    return Election(
        name=f"csi-controller-{driver.replace('/', '-')}",
        namespace=options["leader_election_namespace"] or namespace,
        times=times,
    )


def run_controllers(
    socket: Path,
    kubeconfig: Path | None,
    settings: CsiControllerSettings,
    options: dict[str, Any],
    host: str,
    port: int,
) -> None:
    """Run until SIGINT or SIGTERM. Raises Failure."""
    try:
        from bayplan.support.grpc.calls import Connection
    except ImportError as error:
        raise Failure(str(error)) from error
    from bayplan.client.leader_election import LeadershipLost
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.standalone import HealthServer, run_component
    from bayplan.csi.client import CsiClient
    from bayplan.csi.errors import CsiError
    from bayplan.csi_controller.errors import CsiControllerError
    from bayplan.csi_controller.metrics import call_observer
    from bayplan.csi_controller.service import CsiControllers, discover
    from bayplan.support.clock import SystemClock
    from bayplan.support.metrics.instruments import Registry
    from bayplan.support.randomness import SystemRandomness
    from bayplan.support.running import wait_for_stop

    async def main() -> None:
        stop, clock, randomness, metrics = stop_event(), SystemClock(), SystemRandomness(), Registry()
        client = connect(kubeconfig, "", user_agent="bayplan-csi-controller", metrics=metrics)
        health = HealthServer(metrics)
        await health.start(host, port)
        connection = Connection(socket)
        probe = CsiClient(connection, seconds=settings.timeout, clock=clock)
        try:
            waits = f"waiting: no driver answers at {socket} yet (--csi-address)"
            driver = await wait_for_stop(stop, discover(probe, lambda: click.echo(waits)))
            if driver is None:
                return
            click.echo(f"started: csi-controller for {driver.name}")
            observed = CsiClient(
                connection, seconds=settings.timeout, clock=clock, observe=call_observer(metrics, driver.name)
            )
            controllers = CsiControllers(
                client, observed, driver, settings, clock=clock, randomness=randomness, metrics=metrics
            )
            await run_component(
                client,
                "csi-controller",
                controllers.run,
                stop,
                clock=clock,
                randomness=randomness,
                election=_election(options, driver.name, settings.namespace),
                waits=lambda leader: click.echo(f"waiting: {leader} holds the lease"),
                health=health,
            )
        finally:
            await connection.close()
            await health.stop()
            await client.close()

    try:
        run_loop(main())
    except (ClusterError, CsiControllerError, CsiError, LeadershipLost) as error:
        raise Failure(str(error)) from error
