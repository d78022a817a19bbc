"""The outcome of a simulation as tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayplan.simulation.questions.what_if import Outcome
from bayplan.simulation.reports.tables import console

_ROWS: Final = 12
_WORDS: Final = {
    "EvictionByEvictionAPI": "evicted",
    "PreemptionByScheduler": "preempted",
    "DeletionByTaintManager": "driven away by a taint",
    "DeletionByPodGC": "lost with its node",
    "Finished": "finished",
    "Deleted": "deleted",
}


def print_outcome(outcome: Outcome) -> None:
    """What was done, what happened, and what is wrong."""
    out = console()
    verdict = "[green]all went well[/]" if outcome.good else "[red]not all went well[/]"
    out.print(f"[bold]{'; '.join(outcome.actions) or 'nothing was done'}[/]: {verdict}")
    rest = "" if outcome.settled else "; it had not come to rest"
    out.print(f"{_time(outcome.seconds)} of virtual time{rest}")
    for problem in outcome.problems:
        out.print(f"  [red]✗[/] {escape(problem)}")
    _print_departures(outcome, out)
    _print_descheduled(outcome, out)
    _print_pending(outcome, out)
    _print_missing(outcome, out)
    _print_workloads(outcome, out)
    _print_nodes(outcome, out)


def _print_departures(outcome: Outcome, out: Console) -> None:
    moves = outcome.moves()
    counts = Counter(departure.reason for departure in outcome.departures)
    placed = len(outcome.placements)
    told = ", ".join(f"{count} {_WORDS.get(reason, reason)}" for reason, count in counts.most_common())
    out.print(f"{placed} pod{'s' * (placed != 1)} placed" + (f"; {told}" if told else ""))
    if not moves:
        return
    table = Table("WORKLOAD", "LEFT", "WHY", "CAME TO", box=None, pad_edge=False)
    rows = Counter((move.workload, move.left, move.reason, move.came_to or "nowhere") for move in moves)
    for (workload, left, reason, came), count in rows.most_common(_ROWS):
        times = f" x {count}" if count > 1 else ""
        table.add_row(f"{workload}{times}", left, _WORDS.get(reason, reason), came)
    out.print(table)
    _print_more(len(rows), "moves", out)


def _print_descheduled(outcome: Outcome, out: Console) -> None:
    moves = outcome.descheduled_moves()
    if moves:
        table = Table("DESCHEDULED", "FROM", "TO", "STRATEGY", "WHY", box=None, pad_edge=False)
        for one, node in moves[:_ROWS]:
            table.add_row(one.pod, one.node, node or "nowhere", one.strategy, escape(one.reason))
        out.print(table)
        _print_more(len(moves), "evictions", out)
    stays = [one for one in outcome.descheduled if not one.evicted]
    if stays:
        table = Table("NOT EVICTED", "NODE", "STRATEGY", "BECAUSE", box=None, pad_edge=False)
        for one in stays[:_ROWS]:
            table.add_row(one.pod, one.node, one.strategy, escape(one.objection))
        out.print(table)
        _print_more(len(stays), "refusals", out)


def _print_pending(outcome: Outcome, out: Console) -> None:
    if not outcome.pending:
        out.print("no pod is pending")
        return
    new = sum(one.new for one in outcome.pending)
    many = len(outcome.pending)
    out.print(
        f"[red]{many} {'pods are' if many > 1 else 'pod is'} pending[/], {new or 'none'} of them because of this:"
    )
    reasons: dict[str, list[str]] = {}
    for one in outcome.pending:
        reasons.setdefault(one.reason, []).append(one.pod)
    for reason, pods in sorted(reasons.items(), key=lambda item: -len(item[1]))[:_ROWS]:
        out.print(f"  {pods[0]}{f' and {len(pods) - 1} more' if len(pods) > 1 else ''}: {escape(reason)}")
    _print_more(len(reasons), "reasons", out)


def _print_missing(outcome: Outcome, out: Console) -> None:
    if not outcome.missing:
        return
    pods = sum(one.pods for one in outcome.missing)
    out.print(f"[red]{pods} {'pod' if pods == 1 else 'pods'} could not be made[/]:")
    for one in outcome.missing[:_ROWS]:
        out.print(f"  {one.pods} of {one.workload}{'' if one.new else ' (as before)'}: {escape(one.reason)}")
    _print_more(len(outcome.missing), "workloads", out)


def _print_workloads(outcome: Outcome, out: Console) -> None:
    if not outcome.workloads:
        return
    table = Table("SHORT OF PODS", "READY BEFORE", "AT LEAST", "FOR", "POD-MINUTES MISSING", box=None, pad_edge=False)
    for one in outcome.workloads[:_ROWS]:
        missing = f"{one.missing / 60:.1f}"
        table.add_row(one.name, str(one.wanted), str(one.least), _time(one.degraded), missing)
    out.print(table)
    _print_more(len(outcome.workloads), "workloads", out)


def _print_nodes(outcome: Outcome, out: Console) -> None:
    changed = [
        (name, outcome.before.get(name, 0), outcome.after.get(name, 0))
        for name in _names(outcome.before, outcome.after)
        if outcome.before.get(name, 0) != outcome.after.get(name, 0)
    ]
    if not changed:
        return
    table = Table("NODE", "PODS BEFORE", "AFTER", box=None, pad_edge=False)
    for name, before, after in sorted(changed, key=lambda row: (-abs(row[1] - row[2]), row[0]))[:_ROWS]:
        table.add_row(name, str(before), str(after))
    out.print(table)
    _print_more(len(changed), "nodes", out)


def _names(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return sorted({*one, *other})


def _print_more(count: int, what: str, out: Console) -> None:
    if count > _ROWS:
        out.print(f"  and {count - _ROWS} more {what} (-o json shows all)")


def _time(seconds: float) -> str:
    """`45 s`, `6 min`, `1.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
