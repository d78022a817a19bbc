"""`bayplan replay`: a workload over time, placed by the scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.output import give, html_option, output_option, print_data, scheduler_config_option
from bayplan.cli.questions.sweep_options import Sweep, sweep_options
from bayplan.cli.questions.workload_input import read_workload, replays, workload_options

if TYPE_CHECKING:
    from bayplan.simulation.replay.run import Workload


@click.command()
@workload_options
@click.option("--seed", type=int, help="Choose among equally good nodes by this seed; else the first by name.")
@click.option("--seeds", type=click.IntRange(1), help="Place it so many times, by the seeds from 0 on, and tell means.")
@scheduler_config_option("to place by")
@sweep_options("runs")
@html_option()
@output_option
def command(
    trace: str,
    nodes: str | None,
    cluster: str | None,
    kubeconfig: Path | None,
    context: str,
    stretch: float,
    seed: int | None,
    seeds: int | None,
    scheduler_config: Path | None,
    html: Path | None,
    output: str,
    **options: Any,
) -> None:
    """Place a workload over time and say how long pods waited, how full the nodes were, and how much of what was free could be used.

    TRACE is a table of pods (CSV, see docs/virtual-time.md) or a recording (bayplan record). Exit code 0 if every pod was placed,
    1 if not.
    """
    sweep = Sweep(**options)
    sweep.check_shard()
    if seeds is None and not sweep.is_plain:
        raise click.UsageError("--jobs, --on, --shard and --results are for --seeds")
    if seeds is not None and (seed is not None or html is not None):
        raise click.UsageError("--seed and --html are for one run, not for --seeds")
    from bayplan.cluster.manifests.unserved import UnservedKinds
    from bayplan.simulation.replay.report import replay_page
    from bayplan.simulation.replay.run import replay
    from bayplan.simulation.replay.tables import print_replay
    from bayplan.support.progress import Progress

    unserved = UnservedKinds()
    workload = read_workload(trace, nodes, cluster, (kubeconfig, context), stretch, unserved)
    if seeds is not None:
        _tell_seeds(sweep, workload, scheduler_config, seeds, output)
        return
    with Progress("pods placed", len(workload.arrivals)) as progress:
        result = replay(
            workload, str(scheduler_config) if scheduler_config is not None else None, seed=seed, told=progress.tell
        )
    give(
        result.to_dict,
        lambda: replay_page(trace, result),
        lambda: print_replay(result),
        output=output,
        html=html,
        unserved=unserved,
    )
    if result.never:
        raise SystemExit(1)


def _tell_seeds(sweep: Sweep, workload: Workload, config: Path | None, seeds: int, output: str) -> None:
    """The means over several runs."""
    from bayplan.simulation.replay.compare import summary_of
    from bayplan.simulation.replay.tables import print_summary

    runs = replays(sweep, workload, (config,), range(seeds))
    if sweep.shard is not None:
        click.echo(f"{len(runs)} of {seeds} runs are of this part; without --shard, {sweep.results} is reported")
        return
    if output:
        measures = [
            {"name": one.name, "unit": one.unit, "mean": one.figure.mean, "margin": one.figure.margin}
            for one in summary_of(workload, runs)
        ]
        print_data({"seeds": seeds, "measures": measures}, output)
    else:
        print_summary(workload, runs)
    if any(run.never for run in runs):
        raise SystemExit(1)
