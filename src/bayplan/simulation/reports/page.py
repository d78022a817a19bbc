"""Answers as one page of HTML that needs nothing else: no script, no request, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from bayplan import __version__
from bayplan.scheduler.planning.relocation import NodeUse, packing, use_of_nodes
from bayplan.simulation.fixes.search import Fixes
from bayplan.simulation.questions.capacity import Capacity, MixCapacity
from bayplan.simulation.questions.consolidate import Consolidation
from bayplan.simulation.reports import plots
from bayplan.simulation.snapshots.planner import planner_of

if TYPE_CHECKING:
    from bayplan.scheduler.planning.capacity import Limit
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_MOST_ROWS: Final = 500
"""Rows of a table; the rest is counted."""

_PAGE_STYLE: Final = """
:root{color-scheme:light dark;--page:#f7f7f5;--card:#fff;--ink:#14140f;--ink-2:#55544e;--line:#e3e2dc;--grid:#ecebe6;
--axis:#c3c2b7;--track:#eeede8;--warn:#d03b3b;--good:#0a7d3c;--s1:#2a78d6;--s2:#1baf7a;--s3:#eda100;--s4:#4a3aa7;--s5:#e34948;--s6:#e87ba4}
@media (prefers-color-scheme:dark){:root{--page:#0f0f0e;--card:#1a1a19;--ink:#f4f3ee;--ink-2:#b4b2a8;--line:#33322f;--grid:#2a2a27;
--axis:#4a4944;--track:#282826;--warn:#e66767;--good:#3fbf74;--s1:#3987e5;--s2:#199e70;--s3:#c98500;--s4:#9085e9;--s5:#e66767;--s6:#d55181}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;margin:0 0 2px;line-height:1.25}
h2{font-size:16px;margin:0 0 10px}
p{margin:0 0 8px}
.sub{color:var(--ink-2);margin-bottom:20px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:0 0 16px}
.card,section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px}
section{margin:0 0 16px;overflow-x:auto}
.card b{display:block;font-size:28px;line-height:1.2;font-weight:650}
.card span{color:var(--ink-2);font-size:13px}
.good b{color:var(--good)}
.bad b{color:var(--warn)}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:16px}
@media (max-width:760px){.pair{grid-template-columns:1fr}}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;color:var(--ink-2);font-weight:500}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
details summary{cursor:pointer;color:var(--ink-2)}
code{font:13px ui-monospace,monospace;background:var(--track);padding:1px 5px;border-radius:4px}
.legend{display:flex;gap:16px;flex-wrap:wrap;margin-top:6px;font-size:13px;color:var(--ink-2)}
.key i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}
.k1{background:var(--s1)}
.k2{background:var(--s2)}
.k3{background:var(--s3)}
.k4{background:var(--s4)}
.k5{background:var(--s5)}
.k6{background:var(--s6)}
footer{color:var(--ink-2);font-size:13px;margin-top:24px}
h3{font-size:13px;font-weight:500;color:var(--ink-2);margin:0 0 4px}
"""


def page(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """A whole page of the given parts."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_PAGE_STYLE}{plots.STYLE}</style></head><body><main>"
        f'<h1>{escape(title)}</h1><p class="sub">{escape(subtitle)}</p>{"".join(parts)}'
        f"<footer>Made by bayplan {escape(__version__)}. The scheduler that answered is the one that bayplan runs.</footer>"
        "</main></body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """A part of a page under a heading."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def figures(rows: Iterable[tuple[str, str, str]]) -> str:
    """Large figures side by side: (figure, what it is, "good", "bad" or "")."""
    cards = [
        f'<div class="card {look}"><b>{escape(figure)}</b><span>{escape(what)}</span></div>'
        for figure, what, look in rows
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], numbers: frozenset[int] = frozenset()) -> str:
    """A table; `numbers`: columns that are aligned to the right. Very long ones are cut and say so; columns without content are left out."""
    full = [number for number in range(len(head)) if not rows or any(str(row[number]) for row in rows)]
    head = [head[number] for number in full]
    numbers = frozenset(place for place, number in enumerate(full) if number in numbers)
    rows = [[row[number] for number in full] for row in rows]
    classes = [' class="n"' if number in numbers else "" for number in range(len(head))]
    top = "".join(f"<th{look}>{escape(name)}</th>" for name, look in zip(head, classes, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{look}>{escape(str(cell))}</td>" for cell, look in zip(row, classes, strict=True))
        + "</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = f"<p>and {len(rows) - _MOST_ROWS:,} more</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}"


def details(summary: str, content: str) -> str:
    """Content that is shown when asked for."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def packing_plots(uses: Sequence[NodeUse], slots: int = 0, width: int = plots.WIDTH) -> str:
    """How full nodes are, in cpu and memory."""
    parts = []
    for series, resource in enumerate(("cpu", "memory"), 1):
        shares = [(use.node, use.share(resource)) for use in uses]
        parts.append(f"<h3>{resource} asked for</h3>{plots.fullness(shares, slots=slots, series=series, width=width)}")
    return "".join(parts)


def _limits(limits: Sequence[Limit]) -> str:
    rows = [(", ".join(one.reasons), float(len(one.nodes))) for one in limits]
    examples = [(len(one.nodes), ", ".join(one.reasons), one.plugin, ", ".join(one.nodes[:4])) for one in limits]
    return plots.bars(rows) + details(
        "Which plugin, which nodes", table(("Nodes", "Reason", "Plugin", "Such as"), examples, frozenset({0}))
    )


def _about(copy: ClusterSnapshot) -> str:
    counts = copy.counts()
    taken = f", as of {copy.taken_at}" if copy.taken_at else ""
    return f"{counts.get('Node', 0):,} nodes and {counts.get('Pod', 0):,} pods of {copy.source or 'a copy'}{taken}"


# Pages


def capacity_page(copy: ClusterSnapshot, answer: Capacity | MixCapacity) -> str:
    """How many more pods fit."""
    uses = answer.uses
    if isinstance(answer, MixCapacity):
        return _mix_page(copy, answer, uses)
    room = answer.room
    shown = [(f"{room.total:,}", "more pods fit", "good" if answer.enough else "bad")]
    if answer.wanted is not None:
        shown.append((f"{answer.wanted:,}", "are wanted", ""))
    if answer.allowed is not None:
        shown.append((f"{answer.allowed.pods:,}", f"of them {answer.allowed.by} allows: {answer.allowed.why}", "bad"))
    shown.append((f"{len(room.per_node):,}", f"of {room.node_count:,} nodes have room", ""))
    if answer.missing is not None:
        nodes = f"{answer.missing.nodes:,}" if answer.missing.nodes >= 0 else "no number"
        shown.append((nodes, "nodes to add for the rest", "bad"))
    asks = ", ".join(f"{name} {amount}" for name, amount in answer.requests.items()) or "nothing"
    counts = dict(answer.spread())
    ends = (min(counts), max(counts) + 1) if counts else (0, 0)
    spread = [(str(pods), float(counts.get(pods, 0))) for pods in range(*ends)]
    parts = [
        figures(shown),
        section("Nodes by the number of further pods that they take", plots.columns(spread, x_label="pods on a node")),
    ]
    if room.limits:
        parts.append(section("What stops the next pod", _limits(room.limits)))
    parts.append(section("How full the nodes are now", packing_plots(uses)))
    rows = sorted(room.per_node.items(), key=lambda item: (-item[1], item[0]))
    parts.append(
        section("Room per node", details(f"{len(rows):,} nodes", table(("Node", "More pods"), rows, frozenset({1}))))
    )
    return page(f"How many more pods like {answer.pod} fit", f"Each asks for {asks}. {_about(copy)}", parts)


def _mix_page(copy: ClusterSnapshot, answer: MixCapacity, uses: Sequence[NodeUse]) -> str:
    found, limit = answer.answer, answer.allowed
    allowed = [(f"{limit.pods:,}", f"of them {limit.by} allows: {limit.why}", "bad")] if limit is not None else []
    rows = [(pod, share, share * found.sets) for pod, share in answer.shares]
    parts = [
        figures([(f"{found.sets:,}", "more sets fit", "good" if answer.enough else "bad"), *allowed]),
        section("The mix", table(("Pod", "Share", "Fit"), rows, frozenset({1, 2}))),
    ]
    if found.stopped_by:
        parts.append(section(f"What stops the next {found.stopped_by}", _limits(found.room.limits)))
    parts.append(section("How full the nodes are now", packing_plots(uses)))
    return page("How often a mix of pods fits", _about(copy), parts)


def consolidation_page(copy: ClusterSnapshot, answer: Consolidation) -> str:
    """Which nodes can go."""
    before, after = packing(answer.before), packing(answer.after)
    moved = sum(len(step.moves) for step in answer.steps)
    shown = [
        (f"{len(answer.steps):,}", f"of {len(answer.before):,} nodes can go", "good" if answer.steps else "bad"),
        (f"{moved:,}", "pods move", ""),
        (f"{before['cpu']:.0%} → {after['cpu']:.0%}", "of cpu asked for", ""),
        (f"{before['memory']:.0%} → {after['memory']:.0%}", "of memory asked for", ""),
    ]
    slots = len(answer.before)
    pair = (
        f'<div class="pair"><div><h2>Before: {len(answer.before):,} nodes</h2>{packing_plots(answer.before, slots, plots.HALF)}</div>'
        f"<div><h2>After: {len(answer.after):,} nodes</h2>{packing_plots(answer.after, slots, plots.HALF)}</div></div>"
    )
    parts = [figures(shown), f"<section>{pair}</section>"]
    if answer.steps:
        rows = [
            (number, step.node, len(step.moves), len(step.left_behind)) for number, step in enumerate(answer.steps, 1)
        ]
        moves = [
            (step.node, move.pod, move.to, ", ".join(move.budgets)) for step in answer.steps for move in step.moves
        ]
        parts.append(
            section(
                "Which nodes go, in this order",
                table(("Order", "Node", "Pods that move", "Go with it"), rows, frozenset({0, 2, 3})),
                details(f"Where {moved:,} pods go", table(("From", "Pod", "To", "Budgets"), moves)),
            )
        )
    if answer.kept:
        rows_kept = [(one.node, "; ".join(one.why)) for one in answer.kept]
        parts.append(section("What keeps the others", table(("Node", "Because"), rows_kept)))
    if answer.untried:
        why = "as many go as may" if answer.limited else "needed for what runs there and moves there"
        parts.append(
            section(
                "The rest",
                f"<p>{len(answer.untried):,} further {'node stays' if len(answer.untried) == 1 else 'nodes stay'}: {why}.</p>",
            )
        )
    return page("Which nodes can go", _about(copy), parts)


def fixes_page(copy: ClusterSnapshot, answer: Fixes) -> str:
    """What would place a pod."""
    decision = answer.decision
    shown = [(f"{len(answer.fixes):,}", "ways to place it", "good" if answer.fixes or answer.placed else "bad")]
    shown.append((f"{answer.tried:,}", "changes tried with the scheduler", ""))
    message = decision.message or (f"{decision.node} takes it" if decision.node else decision.summary())
    parts = [figures(shown), section("As things are", f"<p>{escape(message)}</p>")]
    reasons = [
        (reason, float(count)) for reason, count in sorted(decision.histogram().items(), key=lambda one: -one[1])
    ]
    if reasons:
        parts.append(section("Nodes that refuse it, by reason", plots.bars(reasons)))
    if answer.fixes:
        rows = [
            (number, " and ".join(change.text for change in fix.changes), fix.node, _commands(fix.changes))
            for number, fix in enumerate(answer.fixes, 1)
        ]
        note = f"<p>Changes of the pod are to be made in {escape(answer.owner)}.</p>" if answer.owner else ""
        head = ("", "Change", "Then it runs on", "How")
        parts.append(section("What would place it, the smallest change first", note, table(head, rows, frozenset({0}))))
    parts.append(section("How full the nodes are now", packing_plots(use_of_nodes(planner_of(copy)))))
    return page(f"What would place {answer.pod}", _about(copy), parts)


def _commands(changes: Sequence[Any]) -> str:
    return "; ".join(str(change.detail["command"]) for change in changes if "command" in change.detail)
