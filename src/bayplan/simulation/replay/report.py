"""Replays and comparisons as pages of HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from bayplan.simulation.replay.compare import Comparison
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.tables import days, shown
from bayplan.simulation.reports import plots
from bayplan.simulation.reports.page import figures, page, section, table


def replay_page(name: str, result: Replay) -> str:
    """How a workload went."""
    cards = [
        (f"{result.placed:,}", f"of {result.pods:,} pods placed", "bad" if result.never else "good"),
        (plots.hours(result.wait_at(0.99)), "waited 99 of 100 at most", ""),
        (f"{result.preemptions:,}", "preemptions", ""),
        (f"{result.mean_fragmentation():.0%}", "fragmentation in the mean", ""),
        (f"{result.nodes_used:,.1f}", f"of {result.nodes:,} nodes had pods in the mean", ""),
    ]
    gpus = result.mean_gpu_fragmentation()
    if gpus is not None:
        cards.append((f"{gpus:.0%}", "GPU fragmentation in the mean", ""))
    parts = [figures(cards), *_over_time([("", result)])]
    if result.waits:
        parts.append(section("How long pods waited", plots.histogram(result.waits, x_format=plots.hours)))
    if result.never:
        reasons = Counter(reason for _, reason in result.never)
        rows = [(count, reason) for reason, count in reasons.most_common()]
        parts.append(section("Why pods were never placed", table(("Pods", "Reason"), rows, frozenset({0}))))
    return page(
        f"{PurePath(name).name} replayed",
        f"{result.pods:,} pods on {result.nodes:,} nodes in {days(result.seconds)}",
        parts,
    )


def comparison_page(names: tuple[str, str], result: Comparison) -> str:
    """Both configurations side by side."""
    rows = [
        (one.name, shown(one, one.first), shown(one, one.second), shown(one, one.difference), one.better or "-")
        for one in result.lines
    ]
    first, second = (PurePath(name).name for name in names)
    about = f"{result.pods:,} pods on {result.nodes:,} nodes, {result.seeds} seeds. A: {first}. B: {second}."
    measures = section("Measures", table(("Measure", "A", "B", "B - A", "Better"), rows, frozenset({1, 2, 3})))
    curves = _over_time([("A ", result.first[0]), ("B ", result.second[0])])
    return page("Two scheduler configurations", about, [measures, *curves])


def _over_time(runs: Sequence[tuple[str, Replay]]) -> list[str]:
    """Curves of runs, whose names begin with these texts; all but the first run's are dashed."""
    pending = [
        plots.Series(f"{name}pending", tuple((one.at, float(one.pending)) for one in run.moments), number > 0)
        for number, (name, run) in enumerate(runs)
    ]
    running = [
        plots.Series(f"{name}running", tuple((one.at, float(one.running)) for one in run.moments), number > 0)
        for number, (name, run) in enumerate(runs)
    ]
    use = [
        plots.Series(
            f"{name}{resource}", tuple((one.at, one.used.get(resource, 0.0)) for one in run.moments), number > 0
        )
        for number, (name, run) in enumerate(runs)
        for resource in ("cpu", "memory")
    ]
    broken = [
        plots.Series(f"{name}fragmentation", tuple(run.fragmentation), number > 0)
        for number, (name, run) in enumerate(runs)
    ]
    gpus = [
        plots.Series(f"{name}GPUs", tuple(run.gpu_fragmentation), number > 0)
        for number, (name, run) in enumerate(runs)
        if run.gpu_fragmentation
    ]
    further = []
    if gpus:
        title = "Share of the free GPUs that a pod that asks for some cannot use, in the mean"
        further.append(section(title, plots.step_lines(gpus, y_format=plots.percent, highest=1.0)))
    return [
        section("Pods over time", plots.step_lines([*pending, *running])),
        section("Share of the nodes' resources that is asked for", plots.step_lines(use, y_format=plots.percent)),
        section(
            "Share of what is free that no pod of the usual shape can use",
            plots.step_lines(broken, y_format=plots.percent, highest=1.0),
        ),
        *further,
    ]
