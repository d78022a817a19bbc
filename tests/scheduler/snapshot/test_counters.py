"""Counts are remembered for as long as somebody refers to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bayplan.api.selectors.labels import compile_selector
from bayplan.api.types import meta_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.snapshot.counters import PodCounts
from bayplan.scheduler.snapshot.labels import EncodedColumn
from bayplan.scheduler.snapshot.shape import ShapeTable
from tests.scheduler.objects import affinity_term, node, pod, spread


def a_job_pod(number: int) -> dict[str, Any]:
    """A pod that is like no other: its labels, and the terms that select them, are its own."""
    labels = {"job": f"job-{number}"}
    term = affinity_term("zone", labels)
    affinity = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
    }
    return pod(
        f"p{number}",
        labels=labels,
        affinity=affinity,
        topologySpreadConstraints=[spread("kubernetes.io/hostname", labels)],
    )


def test_memory_stays_flat_while_workloads_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShapeTable, "MOST_BYTES", 100_000)
    monkeypatch.setattr(Cycle, "CACHE_BYTES", 1)
    monkeypatch.setattr("bayplan.scheduler.profile.PLANS_BYTES", 10_000)
    planner = Planner([node(f"n{index}", labels={"zone": f"z{index}"}) for index in range(4)])
    for number in range(200):
        decision = planner.schedule(a_job_pod(number))
        assert decision.scheduled
        planner.remove(f"default/p{number}")
    held = planner.snapshot.counts.held
    assert max(held.groups, held.terms / 2) <= 25
    assert held.tallies <= 5 * 3


def test_running_pods_are_counted_however_long_nobody_asked() -> None:
    planner = Planner([node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"})])
    planner.add("Pod", pod("first", on="a", labels={"app": "web"}))
    term = affinity_term("zone", {"app": "web"})
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for _ in range(2):
        assert planner.decide(pod("later", affinity=apart)).node == "b"
        for cycle in planner._cycles.values():
            cycle._evaluations.clear()
            cycle._latest = None


def test_a_counter_that_is_asked_for_again_has_missed_nothing() -> None:
    counts = PodCounts(4, lambda key: EncodedColumn(4))
    group = counts.group("default", {"app": "web"})
    counter = counts.counter("web", lambda namespace, labels: True, live_only=False)
    counts.add(group, (), 1, 1, live=True)
    del counter
    counts.add(group, (), 1, 1, live=True)
    assert counts.counter("web", lambda namespace, labels: True, live_only=False).per_row.tolist() == [0, 2, 0, 0]
    assert counts.held.tallies == 0
    counts.add(group, (), 2, 1, live=True)
    again = counts.counter("web", lambda namespace, labels: True, live_only=False)
    assert again.per_row.tolist() == [0, 2, 1, 0]


def test_anchored_questions_count_what_unanchored_ones_do() -> None:
    counts = PodCounts(4, lambda key: EncodedColumn(4))
    selector = compile_selector(meta_v1.LabelSelector(match_labels={"app": "web"}))

    def matches(namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == "default" and selector.matches(labels)

    early = [
        counts.group("default", labels) for labels in ({"app": "web"}, {"app": "web", "x": "y"}, {"app": "db"}, {})
    ]
    for row, group in enumerate(early):
        counts.add(group, (), row, 1, live=True)
    anchored = counts.counter("anchored", matches, live_only=False, anchor=selector.anchor)
    free = counts.counter("free", matches, live_only=False)
    late = [counts.group("default", {"app": "web", "z": "z"}), counts.group("other", {"app": "web"})]
    for group in (*early, *late):
        counts.add(group, (), 3, 1, live=True)
    assert anchored.per_row.tolist() == free.per_row.tolist() == [1, 1, 0, 3]
    del anchored
    assert counts.held.tallies == 1
    assert [len(group.tallies) for group in (*early, *late)] == [1, 1, 0, 0, 1, 0]


def test_labels_nobody_has_any_more_are_forgotten() -> None:
    counts = PodCounts(1, lambda key: EncodedColumn(1))
    for number in range(10_000):
        counts.group("default", {"app": f"a{number}"})
    assert len(counts._groups_of) < 2_000
