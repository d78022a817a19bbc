"""Replays and comparisons as tables for people."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.table import Table

from bayplan.simulation.replay.compare import Comparison, Figure, Line, Measure, summary_of
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import Workload
from bayplan.simulation.reports.tables import console

_REASONS: Final = 8


def print_replay(result: Replay) -> None:
    """How a workload went."""
    out = console()
    never = f", [red]{len(result.never):,} never[/]" if result.never else ""
    out.print(
        f"[bold]{result.placed:,} of {result.pods:,} pods placed[/] on {result.nodes:,} nodes in {days(result.seconds)}{never}"
    )
    most = f"at most {result.most_running:,} at once, {result.most_pending:,} pending"
    out.print(f"{result.preemptions:,} preemptions; {result.nodes_used:,.1f} nodes with pods in the mean; {most}")
    table = Table("WAIT", "SECONDS", box=None, pad_edge=False)
    for name, seconds in _waits(result):
        table.add_row(name, f"{seconds:,.0f}")
    out.print(table)
    table = Table("RESOURCE", "ASKED FOR, MEAN", "MOST", box=None, pad_edge=False)
    for name in sorted({name for moment in result.moments for name in moment.used} - {"pods"}):
        highest = max(moment.used.get(name, 0.0) for moment in result.moments)
        table.add_row(name, f"{result.mean_use(name):.1%}", f"{highest:.1%}")
    out.print(table)
    out.print(
        f"fragmentation {result.mean_fragmentation():.1%}: of what was free, no pod of the usual shape could use this share"
    )
    gpus = result.mean_gpu_fragmentation()
    if gpus is not None:
        out.print(
            f"GPU fragmentation {gpus:.1%}: of the free GPUs, a pod that asks for some could not use this share in the mean"
        )
    reasons = Counter(reason for _, reason in result.never)
    for reason, count in reasons.most_common(_REASONS):
        out.print(f"  {count:,} never placed: {reason}")


def _waits(result: Replay) -> list[tuple[str, float]]:
    mean = statistics.fmean(result.waits) if result.waits else 0.0
    shares = [(f"{share:.0%} waited at most", result.wait_at(share)) for share in (0.5, 0.9, 0.99)]
    return [("mean", mean), *shares, ("longest", max(result.waits, default=0.0))]


def days(seconds: float) -> str:
    """`149.3 days`, `5.0 h`, `90 s`."""
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:,.1f} days"
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{seconds:.0f} s"


def print_comparison(names: tuple[str, str], result: Comparison) -> None:
    """Both, measure by measure."""
    out = console()
    out.print(f"A is {names[0]}, B is {names[1]}; {result.pods:,} pods, {result.nodes:,} nodes, {result.seeds} seeds")
    table = Table("MEASURE", "A", "B", "B - A", "BETTER", box=None, pad_edge=False)
    for line in result.lines:
        better = {"A": "A", "B": "[green]B[/]", "": "-"}[line.better]
        table.add_row(
            line.name, shown(line, line.first), shown(line, line.second), shown(line, line.difference), better
        )
    out.print(table)
    out.print("± is half of the 95 % confidence interval over the seeds; - means that the difference may be chance")


def print_summary(workload: Workload, runs: Sequence[Replay]) -> None:
    """The runs of one configuration, measure by measure."""
    out = console()
    out.print(f"{len(workload.arrivals):,} pods, {len(workload.nodes):,} nodes, {len(runs)} seeds")
    table = Table("MEASURE", "MEAN", box=None, pad_edge=False)
    for one in summary_of(workload, runs):
        table.add_row(one.name, shown(one, one.figure))
    out.print(table)
    out.print("± is half of the 95 % confidence interval over the seeds")


def shown(line: Line | Measure, figure: Figure) -> str:
    """A figure with its margin, in the unit of its line."""
    if line.unit == "share":
        return f"{figure.mean:.1%} ± {figure.margin:.1%}"
    return f"{figure.mean:,.1f} ± {figure.margin:,.1f}{f' {line.unit}' if line.unit else ''}"
