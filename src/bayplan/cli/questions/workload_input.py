"""The workload over time that `replay` and `compare` play: a trace, a recording, or the pods of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.questions.cluster_input import cluster_asked, cluster_options

if TYPE_CHECKING:
    from bayplan.cli.questions.sweep_options import Sweep
    from bayplan.cluster.manifests.unserved import UnservedKinds
    from bayplan.simulation.replay.result import Replay
    from bayplan.simulation.replay.run import Workload

F = TypeVar("F", bound=Callable[..., Any])


def workload_options(function: F) -> F:
    """The argument TRACE and the options that go with it."""
    for decorate in (
        click.option(
            "--stretch", type=float, default=1.0, show_default=True, help="Let pods last so many times longer."
        ),
        cluster_options,
        click.option("--nodes", metavar="FILE", help="Table of nodes (CSV)."),
        click.argument("trace", required=False, default=None),
    ):
        function = decorate(function)
    return function


def read_workload(
    trace: str | None,
    nodes: str | None,
    cluster: str | None,
    live: tuple[Path | None, str],
    stretch: float,
    unserved: UnservedKinds,
) -> Workload:
    """What is meant. live: kubeconfig and context of the cluster that is asked where no file shows one. unserved: counts what the
    cluster has of custom kinds. Raises UsageError, TraceError, SnapshotError, KubeconfigError, TransportError."""
    from bayplan.simulation.replay.compare import workload_of_copy
    from bayplan.simulation.replay.run import stretched
    from bayplan.simulation.replay.traces import read_nodes, read_pods, workload_on
    from bayplan.simulation.snapshots.recording import is_recording, read_recording

    kubeconfig, context = live
    if nodes is not None and cluster is not None:
        raise click.UsageError("take nodes from --nodes or from --cluster, not from both")
    if stretch <= 0:
        raise click.UsageError("--stretch has to be more than 0")
    if trace is None:
        if nodes is not None:
            raise click.UsageError("a table of nodes needs a table of pods: name a TRACE")
        copy = cluster_asked(cluster, kubeconfig, context)
        unserved.add_all(copy.unserved)
        return workload_of_copy(copy)
    path = Path(trace)
    if is_recording(path):
        workload = read_recording(path)
        if nodes is not None:
            workload = workload_on(read_nodes(Path(nodes)), workload.arrivals)
    elif nodes is not None:
        workload = workload_on(read_nodes(Path(nodes)), read_pods(path))
    elif cluster is not None or kubeconfig is not None or context:
        copy = cluster_asked(cluster, kubeconfig, context)
        unserved.add_all(copy.unserved)
        workload = workload_on(copy.of("Node"), read_pods(path))
    else:
        raise click.UsageError(
            "a table of pods needs nodes: --nodes FILE, --cluster FILE, or a live cluster by --kubeconfig"
        )
    return stretched(workload, stretch)


def replays(sweep: Sweep, workload: Workload, configs: Sequence[Path | None], seeds: Iterable[int]) -> list[Replay]:
    """The workload played for each seed under each configuration, in this order; of a shard, the runs that are in it.

    Raises what `Sweep.run` and `replay` raise.
    """
    from bayplan.simulation.replay import workload_file
    from bayplan.simulation.replay.units import replay_of, run_unit, units_of

    with sweep.directory() as directory:
        units = units_of(workload_file.save(workload, directory), configs, seeds)
        return [replay_of(one) for one in sweep.run(run_unit, units, "runs")]
