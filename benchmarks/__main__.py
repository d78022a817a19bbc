"""Measure and print: `python -m benchmarks [NAME...] [--quick]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.figures import Figure
from benchmarks.measuring import BENCHMARKS, measured


def main() -> int:
    """Run the chosen benchmarks; write benchmarks/out/results.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller counts, for a first look")
    parser.add_argument("--results", type=Path, metavar="FILE", help="write the figures as a Markdown page, too")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    console, figures = Console(), []
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        for name in options.names or BENCHMARKS:
            task = progress.add_task(name, total=None)
            for figure in measured(name, quick=options.quick):
                figures.append(figure)
                progress.update(task, description=f"{name}: {figure.name}")
            progress.remove_task(task)
    table = Table("Benchmark", "Measure", "Value", "Unit", "Kubernetes 1.36.2 + etcd", header_style="bold")
    for one in figures:
        table.add_row(one.benchmark, one.name, shown(one.value), one.unit, one.peer)
    console.print(table)
    target = Path(__file__).parent / "out" / "results.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(
        json.dumps(
            {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "figures": [asdict(one) for one in figures]},
            indent=1,
        )
        + "\n"
    )
    if options.results:
        options.results.write_text(page(figures))
    return 0


def shown(value: float) -> str:
    """A value with three digits of meaning."""
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


def page(figures: list[Figure]) -> str:
    """The figures of one run as a Markdown page."""
    lines = [
        "<!-- Written by `python -m benchmarks --results benchmarks/RESULTS.md`; do not edit. -->",
        "# Results",
        "",
        "One run on a machine with 2 cores. Writes are durable (SQLite, synchronous=FULL), TLS and events are on, load comes from a second process on the",
        "same machine. The last column is kube-apiserver, kube-scheduler and etcd 1.36.2 on a machine of the same kind, measured separately: look at the ratio,",
        "not at the figure. Library mode decides and accounts without an API, in a process that collects garbage as seldom as Bayplan's.",
        "Events are written behind the work they tell of: the last ones of such a burst come",
        "some seconds after its last binding. Machines of one kind differ, also from day to day, by a factor of two: only figures of one run can be compared.",
        f"The interpreter was {sys.version}.",
        "",
        "| benchmark | measure | value | unit | Kubernetes 1.36.2 + etcd |",
        "|---|---|---:|---|---|",
        *(f"| {one.benchmark} | {one.name} | {shown(one.value)} | {one.unit} | {one.peer} |" for one in figures),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
