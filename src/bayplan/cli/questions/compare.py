"""`bayplan compare`: two scheduler configurations on the same workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.output import FILE, Unanswerable, give, html_option, output_option
from bayplan.cli.questions.workload_input import read_workload, workload_options

if TYPE_CHECKING:
    from bayplan.simulation.replay.compare import Prices


@click.command()
@workload_options
@click.option(
    "--scheduler-config",
    "configs",
    type=FILE,
    multiple=True,
    required=True,
    help="KubeSchedulerConfiguration; given twice. Given once it is compared with the defaults.",
)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Runs of each.")
@click.option(
    "--prices",
    "price_file",
    type=FILE,
    help="YAML: label selectors of nodes with a price per hour each, and `default`.",
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
    configs: tuple[Path, ...],
    seeds: int,
    price_file: Path | None,
    html: Path | None,
    output: str,
) -> None:
    """Place the same workload by two scheduler configurations, with the same seeds, and compare: waits, preemptions, utilisation,
    fragmentation, evenness, cost, each with its 95 % confidence interval.

    The workload is a TRACE; without one, the pods of the cluster, placed anew on its empty nodes.
    """
    from bayplan.cluster.unserved import UnservedKinds
    from bayplan.simulation.replay.compare import compare
    from bayplan.simulation.replay.report import comparison_page
    from bayplan.simulation.replay.tables import print_comparison
    from bayplan.support.progress import Progress

    if len(configs) > 2:
        raise click.UsageError("give --scheduler-config once or twice")
    files = [str(path) for path in configs]
    first, second = (None, files[0]) if len(files) == 1 else (files[0], files[1])
    names = (first or "the defaults", second)
    unserved = UnservedKinds()
    workload = read_workload(trace, nodes, cluster, (kubeconfig, context), stretch, unserved)
    with Progress("runs", 2 * seeds) as progress:
        result = compare(workload, first, second, seeds=seeds, prices=_prices(price_file), told=progress.tell)
    give(
        lambda: {"a": names[0], "b": names[1], **result.to_dict()},
        lambda: comparison_page(names, result),
        lambda: print_comparison(names, result),
        output=output,
        html=html,
        unserved=unserved,
    )


def _prices(path: Path | None) -> Prices | None:
    from bayplan.simulation.replay.compare import PriceError, Prices

    if path is None:
        return None
    import yaml

    try:
        return Prices.of(yaml.safe_load(path.read_text()))
    except (PriceError, yaml.YAMLError) as error:
        raise Unanswerable(f"{path}: {error}") from error
