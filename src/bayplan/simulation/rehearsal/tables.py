"""Rehearsals as tables for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from bayplan.simulation.rehearsal.measures import Measures
from bayplan.simulation.rehearsal.run import PodChange, Rehearsal
from bayplan.simulation.replay.tables import days
from bayplan.simulation.reports.tables import console

_REASONS: Final = 5
"""Reasons of which the most frequent are shown."""
_MOST_NAMESPACES: Final = 10

Row = tuple[str, str, str, str]
"""Measure, under the first setting, under the second, and the difference; texts."""


def print_rehearsal(result: Rehearsal, *, most: int = 10) -> None:
    """What changes. most: pods that are named of each kind of change."""
    out = console()
    first, second = result.settings
    out.print(f"A is {first}, B is {second}; {result.pods:,} pods, {result.nodes:,} nodes")
    _print_gates(result, out)
    out.print(f"[bold]{headline(result)}[/]")
    for title, found, cells in pod_tables(result):
        _print_pods(title, found, cells, most, out)
    _print_reasons(result.changes.elsewhere, out)
    table = Table("MEASURE", "A", "B", "B - A", box=None, pad_edge=False)
    for row in measure_rows(result.measures):
        table.add_row(*row)
    out.print(table)
    _print_rows(
        ("SIZE OF PODS", "PODS", "PLACED A", "B", "WAIT, MEAN A", "B", "99 OF 100 A", "B"), size_rows(result), out
    )
    namespaces = namespace_rows(result)
    if len(namespaces) > 1:
        head = ("NAMESPACE", "PODS", "PLACED A", "B", "WAIT, MEAN A", "B", "GRANTED A", "B")
        _print_rows(head, namespaces[:_MOST_NAMESPACES], out)
        _print_more(len(namespaces) - _MOST_NAMESPACES, "namespaces", out)


def headline(result: Rehearsal) -> str:
    """How many pods fare otherwise, in a line."""
    found = result.changes
    parts = [
        f"{len(found.elsewhere):,} pods land elsewhere",
        f"{len(found.later):,} wait longer, {len(found.sooner):,} less",
        f"{len(found.preempted):,} are preempted more often, {len(found.spared):,} less often",
        f"{len(found.pending):,} stay pending, {len(found.placed):,} no longer",
    ]
    return "; ".join(parts)


Cells = Callable[[PodChange], tuple[str, str]]


def pod_tables(result: Rehearsal) -> Iterator[tuple[str, tuple[PodChange, ...], Cells]]:
    """Title of each kind of change, the pods, and what is shown of a pod under both settings."""
    found = result.changes
    yield "STAYS PENDING", found.pending, _nodes
    yield "PREEMPTED", found.preempted, _preemptions
    yield "WAITS LONGER", found.later, _waits
    yield "LANDS ELSEWHERE", found.elsewhere, _nodes
    yield "NO LONGER PENDING", found.placed, _nodes


def _nodes(one: PodChange) -> tuple[str, str]:
    return one.before.node or "pending", one.after.node or "pending"


def _waits(one: PodChange) -> tuple[str, str]:
    return days(one.before.wait), days(one.after.wait)


def _preemptions(one: PodChange) -> tuple[str, str]:
    return f"{len(one.before.preempted_by)} times", f"{len(one.after.preempted_by)} times"


def _print_gates(result: Rehearsal, out: Console) -> None:
    used = [gate for gate in result.gates if gate.name in result.uses]
    for gate in used:
        locked = f", locked since {gate.locked_since}" if gate.locked_since else ""
        count = result.uses[gate.name]
        out.print(f"  {gate.name}: on since {gate.on_since}{locked}; {gate.decides}: {count:,} objects")
    if result.gates:
        out.print(f"  no object uses the {'other ' * bool(used)}{len(result.gates) - len(used)} gates that changed")


def _print_pods(title: str, found: Sequence[PodChange], cells: Cells, most: int, out: Console) -> None:
    if not found:
        return
    table = Table(title, "A", "B", "WHY", box=None, pad_edge=False)
    for one in found[:most]:
        table.add_row(one.pod, *cells(one), _short(one.reason) or "-")
    out.print(table)
    _print_more(len(found) - most, "pods", out)


def _short(reason: str) -> str:
    """What the scheduler said of nodes, without what it said of preemption."""
    return re.sub(r"\. (no new claims|preemption:).*", "", reason)


def _print_more(count: int, what: str, out: Console) -> None:
    if count > 0:
        out.print(f"... and {count:,} more {what}")


def reasons_elsewhere(found: Sequence[PodChange]) -> list[tuple[str, int]]:
    """Why pods land elsewhere, without the names of nodes: the most frequent first."""
    reasons: Counter[str] = Counter()
    for one in found:
        text = one.reason.replace(one.before.node, "A's node").replace(one.after.node, "B's node")
        reasons[_kind_of(text)] += 1
    return reasons.most_common()


def _kind_of(text: str) -> str:
    """A reason without its figures: `B's node scores more: NodeResourcesFit`."""
    head, _, rest = text.partition(": ")
    if " scores " in head:
        return f"B's node scores more by {rest.split(' ')[0]}"
    return text or "not explained"


def _print_reasons(found: Sequence[PodChange], out: Console) -> None:
    if found:
        out.print("why elsewhere:")
    for reason, count in reasons_elsewhere(found)[:_REASONS]:
        out.print(f"  {count:,} {reason}")


def _print_rows(head: Sequence[str], rows: Sequence[Sequence[str]], out: Console) -> None:
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def measure_rows(measures: tuple[Measures, Measures]) -> list[Row]:
    """The measures of both sides."""
    first, second = measures
    rows = [_share("scheduling success rate", first.success, second.success)]
    both = [(name, share, second.allocation.get(name, 0.0)) for name, share in sorted(first.allocation.items())]
    rows += [_share(f"allocation ratio, {name}", one, other) for name, one, other in both]
    rows.append(_share("fragmentation rate", first.fragmentation, second.fragmentation))
    if first.gpu_fragmentation is not None and second.gpu_fragmentation is not None:
        rows.append(_share("GPU fragmentation rate", first.gpu_fragmentation, second.gpu_fragmentation))
    if first.split_gpu_nodes is not None and second.split_gpu_nodes is not None:
        rows.append(_share("GPU nodes partly used", first.split_gpu_nodes, second.split_gpu_nodes))
    rows.append(_share("unevenness of nodes", first.unevenness, second.unevenness))
    rows.append(_number("nodes with pods, mean", first.nodes_with_pods, second.nodes_with_pods))
    rows.append(_number("preemptions", first.preemptions, second.preemptions, 0))
    rows.append(_number("wait, mean (s)", first.mean_wait, second.mean_wait))
    rows.append(_number("wait, 99 of 100 (s)", first.wait_of_99, second.wait_of_99))
    rows.append(_number("fairness between namespaces", first.fairness, second.fairness, 3))
    return rows


def _share(name: str, first: float, second: float) -> Row:
    return name, f"{first:.1%}", f"{second:.1%}", f"{second - first:+.1%}"


def _number(name: str, first: float, second: float, places: int = 1) -> Row:
    return name, f"{first:,.{places}f}", f"{second:,.{places}f}", f"{second - first:+,.{places}f}"


def size_rows(result: Rehearsal) -> list[tuple[str, ...]]:
    """Waiting times by size of pods, under both settings."""
    first, second = result.measures
    rows: list[tuple[str, ...]] = []
    for one, other in zip(first.sizes, second.sizes, strict=True):
        waits = (days(one.mean_wait), days(other.mean_wait), days(one.wait_of_99), days(other.wait_of_99))
        rows.append((one.name, f"{one.pods:,}", f"{one.placed:,}", f"{other.placed:,}", *waits))
    return rows


def namespace_rows(result: Rehearsal) -> list[tuple[str, ...]]:
    """What namespaces get, under both settings; those with most pods first."""
    first, second = result.measures
    pairs = sorted(zip(first.namespaces, second.namespaces, strict=True), key=lambda pair: -pair[0].pods)
    return [
        (
            one.name,
            f"{one.pods:,}",
            f"{one.placed:,}",
            f"{other.placed:,}",
            days(one.mean_wait),
            days(other.mean_wait),
            f"{one.granted:.1%}",
            f"{other.granted:.1%}",
        )
        for one, other in pairs
    ]
