"""Answers as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayplan.scheduler.planning.relocation import packing
from bayplan.simulation.questions.capacity import Capacity, MixCapacity

if TYPE_CHECKING:
    from bayplan.scheduler.planning.capacity import Limit
    from bayplan.simulation.fixes.search import Fixes
    from bayplan.simulation.questions.consolidate import Consolidation
    from bayplan.simulation.questions.quota_limits import QuotaLimits

_ROWS: Final = 12
_WIDE: Final = 200


def console() -> Console:
    """Where tables go; without a terminal they are wide enough not to be wrapped."""
    found = Console(soft_wrap=True, highlight=False, force_jupyter=False)  # what is printed for a notebook is text, too
    return found if found.is_terminal else Console(soft_wrap=True, highlight=False, force_jupyter=False, width=_WIDE)


def print_capacity(answer: Capacity | MixCapacity) -> None:
    """How many more fit, where, and what stops the next."""
    out = console()
    if isinstance(answer, MixCapacity):
        _print_mix(answer, out)
        return
    room = answer.room
    asks = ", ".join(f"{name} {amount}" for name, amount in answer.requests.items()) or "nothing"
    more = "at least " if room.one_by_one and not room.limits else ""
    out.print(f"[bold]{more}{room.total}[/bold] more pods like {answer.pod} fit (each asks for {asks})", markup=True)
    _print_allowed(answer.allowed, out)
    if answer.wanted is not None:
        _print_wanted(answer, out)
    if room.per_node:
        table = Table("Pods on a node", "Nodes", "Such as", box=None, header_style="bold")
        spread = answer.spread()
        for pods, nodes in spread[:_ROWS]:
            such = [name for name, count in room.per_node.items() if count == pods][:3]
            table.add_row(str(pods), str(nodes), ", ".join(such))
        out.print(table)
        if len(spread) > _ROWS:
            out.print(f"  and {sum(nodes for _, nodes in spread[_ROWS:])} nodes with fewer; -o json has all")
    print_limits(room.limits, out)
    if room.one_by_one:
        out.print("Such pods see one another, so the number holds for the order in which the scheduler places them.")


def _print_allowed(allowed: QuotaLimits | None, out: Console) -> None:
    if allowed is not None:
        out.print(f"[red]{allowed.by} allows {allowed.pods or 'none'} of them[/red] ({escape(allowed.why)})")


def _print_wanted(answer: Capacity, out: Console) -> None:
    wanted = answer.wanted or 0
    if answer.enough:
        out.print(f"[green]{wanted} fit[/green]")
        return
    if answer.room.total < wanted:
        out.print(f"[red]{wanted - answer.room.total} of {wanted} do not fit[/red]")
    missing = answer.missing
    if missing is None:
        return
    offers = ", ".join(f"{name} {amount}" for name, amount in sorted(missing.shape.base.status.allocatable.items()))
    if missing.nodes < 0:
        out.print(f"No number of nodes with {offers} helps:")
        print_limits(missing.limits, out)
    else:
        out.print(
            f"[bold]{missing.nodes}[/bold] more nodes are missing (each with {offers}; {missing.per_node} pods on an empty one)"
        )


def _print_mix(answer: MixCapacity, out: Console) -> None:
    found = answer.answer
    out.print(f"[bold]{found.sets}[/bold] more sets fit")
    _print_allowed(answer.allowed, out)
    table = Table("Pod", "Share", "Fit", box=None, header_style="bold")
    for pod, share in answer.shares:
        table.add_row(pod, str(share), str(share * found.sets))
    out.print(table)
    if answer.wanted is not None and (answer.enough or found.sets < answer.wanted):
        out.print(
            f"[green]{answer.wanted} fit[/green]"
            if answer.enough
            else f"[red]{answer.wanted - found.sets} of {answer.wanted} sets do not fit[/red]"
        )
    if found.stopped_by:
        out.print(f"Stopped by {found.stopped_by}:")
        print_limits(found.room.limits, out)


def print_limits(limits: Sequence[Limit], out: Console) -> None:
    """Why nodes take no further pod."""
    if not limits:
        return
    table = Table("Nodes", "Take no further pod because", "Plugin", "Such as", box=None, header_style="bold")
    for one in limits[:_ROWS]:
        table.add_row(str(len(one.nodes)), ", ".join(one.reasons), one.plugin, ", ".join(one.nodes[:3]))
    out.print(table)


def print_consolidation(answer: Consolidation, *, moves: bool = False) -> None:
    """Which nodes can go, and what keeps the others."""
    out = console()
    before, after = packing(answer.before), packing(answer.after)
    out.print(f"[bold]{len(answer.steps)}[/bold] of {len(answer.before)} nodes can go")
    if answer.steps:
        table = Table("", "Nodes", "cpu asked for", "memory asked for", box=None, header_style="bold")
        table.add_row("before", str(len(answer.before)), f"{before['cpu']:.0%}", f"{before['memory']:.0%}")
        table.add_row("after", str(len(answer.after)), f"{after['cpu']:.0%}", f"{after['memory']:.0%}")
        out.print(table)
        out.print(_steps(answer, moves))
        if not moves and len(answer.steps) > _ROWS:
            out.print(f"  and {len(answer.steps) - _ROWS} more; --moves and -o json have all")
    _print_kept(answer, out)


def _steps(answer: Consolidation, moves: bool) -> Table:
    table = Table("Order", "Node", "Pods that move", "To", "Go with it", box=None, header_style="bold")
    for number, step in enumerate(answer.steps if moves else answer.steps[:_ROWS], 1):
        targets = sorted({one.to for one in step.moves})
        shown = ", ".join(targets[:3]) + (f" and {len(targets) - 3} more" if len(targets) > 3 else "")
        table.add_row(str(number), step.node, str(len(step.moves)), shown, str(len(step.left_behind)))
        if moves:
            for one in step.moves:
                note = f"budget {', '.join(one.budgets)}" if one.budgets else ""
                table.add_row("", "", f"  {one.pod}", one.to, note, style="dim")
    return table


def _print_kept(answer: Consolidation, out: Console) -> None:
    if answer.kept:
        table = Table("Stays", "Because", box=None, header_style="bold")
        for one in answer.kept[:_ROWS]:
            more = f" (and {len(one.why) - 1} more)" if len(one.why) > 1 else ""
            table.add_row(one.node, one.why[0] + more)
        out.print(table)
        if len(answer.kept) > _ROWS:
            out.print(f"  and {len(answer.kept) - _ROWS} more that stay; -o json has all")
    if answer.untried:
        why = "as many go as may" if answer.limited else "needed for what runs there and moves there"
        out.print(f"{len(answer.untried)} further {'node stays' if len(answer.untried) == 1 else 'nodes stay'}: {why}")


def print_fixes(answer: Fixes, *, patches: bool = False) -> None:
    """What would place a pod; `patches`: and with which commands."""
    out = console()
    decision = answer.decision
    if answer.placed:
        out.print(f"[green]{answer.pod} needs no fix: {decision.node} takes it[/green]")
        return
    out.print(decision.summary(), markup=False)
    if decision.nominated_node:
        out.print(f"It is going to run on {decision.nominated_node} once {', '.join(decision.victims)} are evicted.")
    if not answer.fixes:
        out.print(f"[red]Nothing helps: {answer.tried} changes and pairs of changes were tried[/red]")
        return
    out.print("\n[bold]What would place it[/bold], the smallest change first, each tried with the scheduler:")
    table = Table("", "Change", "Then it runs on", box=None, header_style="bold")
    for number, fix in enumerate(answer.fixes, 1):
        table.add_row(str(number), "\n".join(change.text for change in fix.changes), fix.node)
    out.print(table)
    if answer.owner:
        out.print(f"Changes of the pod are to be made in {answer.owner}.")
    if patches:
        for number, fix in enumerate(answer.fixes, 1):
            out.print(f"\n# {number}")
            for command in fix.commands:
                out.print(command, markup=False, soft_wrap=True)
