"""`bayplan rehearse`: what an upgrade would change for each pod."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli.output import give, html_option, output_option
from bayplan.cli.questions.workload_input import read_workload, workload_options

_ENTRY = "config=FILE, plugin=FILE (a file of Python with plugins) or kubernetes=1.33|1.34|1.35|1.36"


@click.command()
@workload_options
@click.option("--before", multiple=True, metavar="NAME=VALUE", help=f"What holds now: {_ENTRY}. Repeat it for several.")
@click.option("--after", multiple=True, metavar="NAME=VALUE", help="What is to hold then; as --before.")
@click.option("--seed", type=int, help="Choose among equally good nodes by this seed; else the first by name.")
@click.option(
    "--most", type=click.IntRange(0), default=10, show_default=True, help="Pods named of each kind of change."
)
@html_option()
@output_option
def command(
    trace: str | None,
    nodes: str | None,
    cluster: str | None,
    kubeconfig: Path | None,
    context: str,
    stretch: float,
    before: tuple[str, ...],
    after: tuple[str, ...],
    seed: int | None,
    most: int,
    html: Path | None,
    output: str,
) -> None:
    """Play one workload under two settings (scheduler configuration, plugins, rules of a Kubernetes release) and say which pods land
    elsewhere, wait longer, are preempted or stay pending, and why; and what becomes of utilisation, fragmentation and fairness.

    The workload is a TRACE or recording; without one, the pods of the cluster, placed anew on its empty nodes. What is not named is the
    default of Kubernetes 1.36. Exit code 0 if no further pod stays pending or is preempted, 1 if one is.
    """
    from bayplan.cluster.manifests.unserved import UnservedKinds
    from bayplan.simulation.rehearsal.page import rehearsal_page
    from bayplan.simulation.rehearsal.run import rehearse
    from bayplan.simulation.rehearsal.setting import Setting
    from bayplan.simulation.rehearsal.tables import print_rehearsal
    from bayplan.support.progress import Progress

    first, second = Setting.of(before), Setting.of(after)
    if first == second:
        raise click.UsageError("both sides are the same: say with --before and --after in what they differ")
    unserved = UnservedKinds()
    workload = read_workload(trace, nodes, cluster, (kubeconfig, context), stretch, unserved)
    with Progress("pods placed", 2 * len(workload.arrivals)) as progress:
        result = rehearse(workload, first, second, seed=seed, told=progress.tell)
    give(
        result.to_dict,
        lambda: rehearsal_page(result),
        lambda: print_rehearsal(result, most=most),
        output=output,
        html=html,
        unserved=unserved,
    )
    if not result.good:
        raise SystemExit(1)
