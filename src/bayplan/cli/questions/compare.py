"""`bayplan compare`: two scheduler configurations on the same workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.output import FILE, Unanswerable, give, html_option, output_option
from bayplan.cli.questions.sweep_options import Sweep, sweep_options
from bayplan.cli.questions.workload_input import read_workload, replays, workload_options

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
@sweep_options("runs")
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
    **options: Any,
) -> None:
    """Place the same workload by two scheduler configurations, with the same seeds, and compare: waits, preemptions, utilisation,
    fragmentation, evenness, cost, each with its 95 % confidence interval.

    The workload is a TRACE; without one, the pods of the cluster, placed anew on its empty nodes. With --shard, results are kept, and the
    command without it reports all of them.
    """
    from bayplan.cluster.manifests.unserved import UnservedKinds
    from bayplan.simulation.replay.compare import comparison_of
    from bayplan.simulation.replay.report import comparison_page
    from bayplan.simulation.replay.tables import print_comparison

    sweep = Sweep(**options)
    sweep.check_shard()
    if len(configs) > 2:
        raise click.UsageError("give --scheduler-config once or twice")
    first, second = (None, configs[0]) if len(configs) == 1 else configs
    names = (str(first or "the defaults"), str(second))
    unserved = UnservedKinds()
    workload = read_workload(trace, nodes, cluster, (kubeconfig, context), stretch, unserved)
    prices = _prices(price_file)
    runs = replays(sweep, workload, (first, second), range(seeds))
    if sweep.shard is not None:
        click.echo(f"{len(runs)} of {2 * seeds} runs are of this part; without --shard, {sweep.results} is reported")
        return
    result = comparison_of(workload, runs[::2], runs[1::2], prices)
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
