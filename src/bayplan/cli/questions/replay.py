"""`bayplan replay`: a workload over time, placed by the scheduler."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli.output import give, html_option, output_option, scheduler_config_option
from bayplan.cli.questions.workload_input import read_workload, workload_options


@click.command()
@workload_options
@click.option("--seed", type=int, help="Choose among equally good nodes by this seed; else the first by name.")
@scheduler_config_option("to place by")
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
    scheduler_config: Path | None,
    html: Path | None,
    output: str,
) -> None:
    """Place a workload over time and say how long pods waited, how full the nodes were, and how much of what was free could be used.

    TRACE is a table of pods (CSV, see docs/virtual-time.md) or a recording (bayplan record). Exit code 0 if every pod was placed,
    1 if not.
    """
    from bayplan.cluster.unserved import UnservedKinds
    from bayplan.simulation.replay.report import replay_page
    from bayplan.simulation.replay.run import replay
    from bayplan.simulation.replay.tables import print_replay
    from bayplan.support.progress import Progress

    unserved = UnservedKinds()
    workload = read_workload(trace, nodes, cluster, (kubeconfig, context), stretch, unserved)
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
