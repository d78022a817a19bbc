"""Plugins of other people that misbehave: the decision names them, and all else goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayplan.scheduler import Planner, guards
from bayplan.scheduler.framework.extension_points import (
    FilterPlugin,
    PreEnqueuePlugin,
    ScaledScorePlugin,
    ScorePlugin,
)
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Reject
from bayplan.scheduler.snapshot.labels import Ints, Rows
from tests.scheduler.installing import install
from tests.scheduler.objects import node, pod
from tests.scheduler.test_core import Setup

Answer = Callable[[Any, Any], Any]
"""Gets the plugin and the rows."""


def scoring(answer: Answer, *, normalizing: Answer | None = None) -> type[ScorePlugin]:
    class Odd(ScorePlugin):
        name = "Odd"
        normalizes = normalizing is not None

        def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
            found: Ints = answer(self, rows)
            return found

        def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
            found: Ints = normalizing(self, feasible) if normalizing is not None else scores
            return found

    return Odd


def filtering(answer: Answer) -> type[FilterPlugin]:
    class Odd(FilterPlugin):
        name = "Odd"

        def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
            found: Codes = answer(self, rows)
            return found

    return Odd


def of(value: int, dtype: type = np.int64, more: int = 0) -> Answer:
    return lambda plugin, rows: np.full(plugin.snapshot.select(rows) + more, value, dtype=dtype)


def writing(plugin: Any, rows: Rows) -> Ints:
    plugin.snapshot.free[0, rows] = 0
    return np.zeros(plugin.snapshot.select(rows), dtype=np.int64)


def removing(plugin: Any, rows: Rows) -> Ints:
    plugin.snapshot.remove_node("a")
    return np.zeros(plugin.snapshot.select(rows), dtype=np.int64)


def setting(plugin: Any, rows: Rows) -> Ints:
    plugin.snapshot.free = None
    return np.zeros(plugin.snapshot.select(rows), dtype=np.int64)


def longer(plugin: Any, rows: Rows) -> Ints:
    plugin.snapshot.nodes.append(None)
    return np.zeros(plugin.snapshot.select(rows), dtype=np.int64)


def unlisting(plugin: Any, rows: Rows) -> Ints:
    plugin.snapshot.row_of.clear()
    return np.zeros(plugin.snapshot.select(rows), dtype=np.int64)


INVALID = 'plugin "Odd" returns an invalid score {}, it should in the range of [0, 100] after normalizing'
SHAPE = "plugin Odd failed: {} answered {}, not whole numbers for 2 nodes"


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (scoring(of(101)), INVALID.format(101)),
        (scoring(of(-1)), INVALID.format(-1)),
        (scoring(of(0), normalizing=of(1000)), INVALID.format(1000)),
        (scoring(of(0, more=1)), SHAPE.format("Score", "an array of int64 (3,)")),
        (scoring(of(1, float)), SHAPE.format("Score", "an array of float64 (2,)")),
        (scoring(lambda *_: None), SHAPE.format("Score", "None")),
        (scoring(of(0), normalizing=lambda *_: "x"), SHAPE.format("NormalizeScore", "'x'")),
        (filtering(of(7777, np.int32)), 'running "Odd" filter plugin: the verdict 7777 is neither 0 nor a code'),
        (filtering(of(-7, np.int32)), 'running "Odd" filter plugin: the verdict -7 is neither 0 nor a code'),
        (filtering(of(0, np.int32, more=2)), SHAPE.format("Filter", "an array of int32 (4,)")),
        (filtering(lambda *_: 1 / 0), "plugin Odd failed: ZeroDivisionError: division by zero"),
        (scoring(writing), "plugin Odd failed: ValueError: assignment destination is read-only"),
        (scoring(removing), "plugins cannot change the snapshot: remove_node"),
        (scoring(setting), "plugins cannot change the snapshot: free"),
        (scoring(longer), "'_ReadOnlyList' object has no attribute 'append'"),
        (scoring(unlisting), "'mappingproxy' object has no attribute 'clear'"),
    ],
)
def test_a_plugin_that_misbehaves_is_named_by_the_decision(
    plugin: type[Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = install(monkeypatch, (plugin,))
    planner = Planner([node("a"), node("b")], config)
    for _ in range(2):
        decision = planner.decide(pod("p", cpu="1"))
        assert message in decision.error
        assert (decision.node, decision.error_plugin) == (None, "Odd")
    for other in ("q", "r"):
        assert planner.decide(pod(other, cpu="1", schedulerName="default-scheduler")).error
    assert planner.snapshot.node_count == 2
    assert planner.snapshot.free[0, :2].tolist() == [4000, 4000]


def test_scores_of_nodes_that_cannot_run_the_pod_may_be_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(plugin: Any, rows: Rows) -> Ints:
        return np.array([5_000, 7], dtype=np.int64)[rows]

    planner = Planner([node("a", cpu="1"), node("b"), node("c")][:2], install(monkeypatch, (scoring(answer),)))
    assert planner.decide(pod("large", cpu="2")).node == "b"
    planner = Planner([node("a", cpu="1"), node("b")], install(monkeypatch, (scoring(answer),)))
    assert INVALID.format(5000) in planner.decide(pod("small", cpu="1")).error


def test_one_row_answers_are_checked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(ScorePlugin):
        name = "Odd"

        def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
            return np.zeros(self.snapshot.select(rows), dtype=np.int64)

        def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
            return 500

    planner = Planner([node("a"), node("b")], install(monkeypatch, (Odd,)))
    assert planner.schedule(pod("p", cpu="1")).node == "a"
    assert INVALID.format(500) in planner.decide(pod("q", cpu="1")).error, "one row was asked about again"


def test_scales_out_of_range_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(ScaledScorePlugin):
        name = "Odd"

        def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
            return np.arange(self.snapshot.size, dtype=np.int64)[rows]

        def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
            return scores * 150

        def scale_one(self, state: CycleState, pod: PodShape, score: int, lowest: int, highest: int) -> int:
            return score * 150

    planner = Planner([node("a"), node("b")], install(monkeypatch, (Odd,)))
    assert INVALID.format(150) in planner.decide(pod("p", cpu="1")).error


def test_a_column_of_the_snapshot_may_be_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(
        [node("a"), node("b")],
        install(monkeypatch, (scoring(lambda plugin, rows: plugin.snapshot.pod_count[rows]),)),
    )
    for name in ("p", "q", "r"):
        assert planner.schedule(pod(name, cpu="1")).scheduled
    assert planner.snapshot.pod_count[:2].sum() == 3
    assert (
        planner.decide(pod("s", cpu="1"), explain=True).scores["Odd"].tolist()
        == planner.snapshot.pod_count[:2].tolist()
    )


def test_a_plugin_that_loops_is_stopped_and_has_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "SECONDS", 0.05)
    asked = []

    def looping(plugin: Any, rows: Rows) -> Ints:
        asked.append(rows)
        while True:
            try:
                sum(range(1000))
            except Exception:
                asked.clear()

    config = install(monkeypatch, (scoring(looping),))
    config["profiles"][0]["schedulerName"] = "odd"
    config["profiles"].append({"schedulerName": "default-scheduler"})
    planner = Planner([node("a"), node("b")], config)
    decision = planner.decide(pod("p", schedulerName="odd"))
    assert (decision.error, decision.error_plugin) == ("plugin Odd took longer than 0.05 s", "Odd")
    again = planner.decide(pod("q", schedulerName="odd"))
    assert again.error == "plugin Odd took longer than 0.05 s before, and is not asked for 60 s"
    assert len(asked) == 1
    assert planner.decide(pod("r")).node == "a"


def test_a_gate_that_fails_is_closed_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(PreEnqueuePlugin):
        name = "Odd"

        def pre_enqueue(self, pod: PodInfo) -> Reject | None:
            raise LookupError("no list of permits")

    setup = Setup(install(monkeypatch, (Odd,)))
    setup.see("Node", node("a"))
    waiting = setup.see("Pod", pod("p"))
    assert setup.core.queue.sizes()["gated"] == 1
    gate = setup.core.explain(waiting).gate
    assert gate is not None
    place = r" \(test_guards\.py:\d+\)"
    assert [(one.plugin, gate[1].reasons[0] in one.message) for one in setup.core.held_back.take()] == [("Odd", True)]
    assert re.fullmatch(f"plugin Odd failed: LookupError: no list of permits{place}", gate[1].reasons[0])
