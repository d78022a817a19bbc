"""The outcome of a simulation as a page of HTML."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bayplan.simulation.questions.what_if import Outcome
from bayplan.simulation.reports import plots
from bayplan.simulation.reports.page import details, figures, page, section, table

if TYPE_CHECKING:
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot


def outcome_page(copy: ClusterSnapshot, outcome: Outcome) -> str:
    """What was done, and what happened."""
    counts = copy.counts()
    new = sum(one.new for one in outcome.pending)
    cards = [
        (f"{len(outcome.placements):,}", "pods placed", ""),
        (f"{sum(one.reason != 'Finished' for one in outcome.departures):,}", "pods moved or ended early", ""),
        (f"{len(outcome.pending):,}", f"pods pending, {new:,} of them because of this", "bad" if new else "good"),
        (plots.hours(outcome.seconds), "of virtual time", "" if outcome.settled else "bad"),
    ]
    parts = [figures(cards)]
    if outcome.problems:
        parts.append(section("What did not work", table(("Problem",), [(one,) for one in outcome.problems])))
    parts += [
        _over_time(outcome),
        _pending(outcome),
        _missing(outcome),
        _unserved(outcome),
        _workloads(outcome),
        _moves(outcome),
        _descheduled(outcome),
        _not_evicted(outcome),
        _nodes(outcome),
    ]
    about = f"{counts.get('Node', 0):,} nodes and {counts.get('Pod', 0):,} pods of {copy.source or 'a copy'}"
    return page("; ".join(outcome.actions) or "The cluster left alone", about, [part for part in parts if part])


def _over_time(outcome: Outcome) -> str:
    samples = outcome.samples
    waiting = plots.Series("pending", tuple((one.at, float(one.pending)) for one in samples))
    on_nodes = plots.Series("on a node", tuple((one.at, float(one.running)) for one in samples))
    cpu = plots.Series("cpu", tuple((one.at, one.cpu) for one in samples))
    memory = plots.Series("memory", tuple((one.at, one.memory) for one in samples))
    return section("Pods over time", plots.step_lines([waiting, on_nodes])) + section(
        "Share of the nodes' resources that is asked for",
        plots.step_lines([cpu, memory], y_format=plots.percent, highest=1.0),
    )


def _pending(outcome: Outcome) -> str:
    if not outcome.pending:
        return ""
    reasons = Counter(one.reason for one in outcome.pending)
    rows = [(count, reason) for reason, count in reasons.most_common()]
    pods = [(one.pod, "yes" if one.new else "no", one.reason) for one in outcome.pending]
    every = details("Every pod", table(("Pod", "Because of this", "Reason"), pods))
    return section("Why pods are pending", table(("Pods", "Reason"), rows, frozenset({0})), every)


def _missing(outcome: Outcome) -> str:
    rows = [(one.workload, one.pods, "yes" if one.new else "no", one.reason) for one in outcome.missing]
    head = ("Workload", "Pods", "Because of this", "Reason")
    return section("Pods that could not be made", table(head, rows, frozenset({1}))) if rows else ""


def _unserved(outcome: Outcome) -> str:
    rows = [(one.kind, one.api_version, one.objects) for one in outcome.unserved]
    head = ("Custom kind", "Version", "Objects left out")
    return section("What was not simulated", table(head, rows, frozenset({2}))) if rows else ""


def _workloads(outcome: Outcome) -> str:
    rows = [
        (one.name, one.wanted, one.least, plots.hours(one.degraded), f"{one.missing / 60:.1f}")
        for one in outcome.workloads
    ]
    head = ("Workload", "Ready before", "At least", "Short for", "Pod-minutes missing")
    return section("Workloads that were short of pods", table(head, rows, frozenset({1, 2, 3, 4}))) if rows else ""


def _moves(outcome: Outcome) -> str:
    rows = [(move.workload, move.left, move.reason, move.came_to or "nowhere") for move in outcome.moves()]
    return section("Who moved", table(("Workload", "Left", "Why", "Came to"), rows)) if rows else ""


def _descheduled(outcome: Outcome) -> str:
    rows = [
        (one.pod, one.node, node or "nowhere", one.strategy, one.reason) for one, node in outcome.descheduled_moves()
    ]
    return (
        section("What the descheduler evicted", table(("Pod", "From", "To", "Strategy", "Why"), rows)) if rows else ""
    )


def _not_evicted(outcome: Outcome) -> str:
    rows = [(one.pod, one.node, one.strategy, one.objection) for one in outcome.descheduled if not one.evicted]
    return section("What the descheduler left", table(("Pod", "Node", "Strategy", "Because"), rows)) if rows else ""


def _nodes(outcome: Outcome) -> str:
    names = sorted({*outcome.before, *outcome.after})
    rows = [(name, outcome.before.get(name, 0), outcome.after.get(name, 0)) for name in names]
    changed = [row for row in rows if row[1] != row[2]]
    head = ("Node", "Pods before", "After")
    return section("Nodes whose pods changed", table(head, changed, frozenset({1, 2}))) if changed else ""
