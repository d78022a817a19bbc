"""Rehearsals as a page of HTML."""

from __future__ import annotations

from bayplan.simulation.rehearsal.run import Rehearsal
from bayplan.simulation.rehearsal.tables import (
    headline,
    measure_rows,
    namespace_rows,
    pod_tables,
    reasons_elsewhere,
    size_rows,
)
from bayplan.simulation.reports.page import details, figures, page, section, table

_NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7})


def rehearsal_page(result: Rehearsal) -> str:
    """Both settings side by side, and the pods that fare otherwise."""
    found = result.changes
    first, second = result.settings
    cards = [
        (f"{len(found.pending):,}", "pods stay pending", "bad" if found.pending else "good"),
        (f"{len(found.preempted):,}", "are preempted more often", "bad" if found.preempted else "good"),
        (f"{len(found.later):,}", "wait longer", ""),
        (f"{len(found.elsewhere):,}", "land elsewhere", ""),
    ]
    parts = [figures(cards)]
    parts.append(section("Measures", table(("Measure", "A", "B", "B - A"), measure_rows(result.measures), _NUMBERS)))
    head = ("Size of pods", "Pods", "Placed A", "B", "Wait, mean A", "B", "99 of 100 A", "B")
    parts.append(section("Waiting times by size", table(head, size_rows(result), _NUMBERS)))
    head = ("Namespace", "Pods", "Placed A", "B", "Wait, mean A", "B", "Granted A", "B")
    parts.append(section("Namespaces", table(head, namespace_rows(result), _NUMBERS)))
    if found.elsewhere:
        reasons = [(count, reason) for reason, count in reasons_elsewhere(found.elsewhere)]
        parts.append(section("Why pods land elsewhere", table(("Pods", "Why"), reasons, frozenset({0}))))
    for title, pods, cells in pod_tables(result):
        if pods:
            rows = [(one.pod, *cells(one), one.reason) for one in pods]
            named = f"{title.capitalize()}: {len(pods):,} pods"
            parts.append(section(named, details("Show them", table(("Pod", "A", "B", "Why"), rows))))
    if result.gates:
        gates = [
            (
                one.name,
                one.on_since,
                one.locked_since,
                one.decides or "does not change where pods go",
                result.uses.get(one.name, 0),
            )
            for one in result.gates
        ]
        parts.append(
            section(
                "Feature gates",
                table(("Gate", "On since", "Locked since", "Without it", "Objects"), gates, frozenset({4})),
            )
        )
    about = f"A: {first}. B: {second}. {result.pods:,} pods on {result.nodes:,} nodes: {headline(result)}."
    return page("Rehearsal of an upgrade", about, parts)
