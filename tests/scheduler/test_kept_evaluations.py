"""What is kept of kinds of pods is bounded in bytes, and narrow where that cannot be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.framework.extension_points import ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.registry import known
from bayplan.scheduler.snapshot.labels import Ints, Rows
from tests.scheduler.objects import affinity_term, node, pod


def a_kind(number: int) -> dict[str, Any]:
    """Pods of every other kind look at other nodes."""
    term = {"weight": 7, "podAffinityTerm": affinity_term("zone", {"app": f"a{number}"})}
    rules = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}} if number % 2 else {}
    return pod(f"p{number}", cpu=f"{number + 1}m", labels={"app": f"a{number}"}, affinity=rules)


def test_as_many_kinds_are_kept_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cycle, "CACHE_BYTES", 10 * (8 << 10))
    planner = Planner([node(f"n{number}", labels={"zone": f"z{number % 2}"}) for number in range(4)])
    cycle = planner.cycle_for(planner.pod(pod("any")))
    for number in range(40):
        assert planner.schedule(a_kind(number % 25)).scheduled
    kept = list(cycle._evaluations.values())
    weights = [one.weight for one in kept]
    assert sum(weights) == cycle._evaluation_bytes
    assert 9 <= len(kept) <= 11
    assert len({weight for weight in weights if weight}) == 2, "kinds that look beyond a node weigh more"
    assert max(weights) - min(weight for weight in weights if weight) == 4 * 30


def test_kinds_that_are_only_asked_about_are_the_first_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cycle, "CACHE_BYTES", 10 * (8 << 10))
    planner = Planner([node("a"), node("b")])
    cycle = planner.cycle_for(planner.pod(pod("any")))
    for number in range(0, 16, 2):
        planner.schedule(a_kind(number))
    placed = list(cycle._evaluations)
    with cycle.asked():
        for number in range(100, 140):
            assert planner.decide(a_kind(number)).scheduled
        assert planner.decide(a_kind(0)).scheduled
    assert [key for key in cycle._evaluations if key in placed] == placed
    assert sum(one.weight for one in cycle._evaluations.values()) == cycle._evaluation_bytes
    planner.schedule(a_kind(200))
    assert next(reversed(cycle._evaluations.values())).shape is planner.pod(a_kind(200)).shape


class Lavish(ScorePlugin):
    """Prefers the third node."""

    name = "Lavish"

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return np.array([0, 0, 100], dtype=np.int64)[rows]


@pytest.mark.parametrize("plugin", ["Lavish", "NodeResourcesFit"])
def test_large_weights_are_not_cut_off(plugin: str) -> None:
    enabled = [{"name": plugin, "weight": 5_000_000}]
    config = {"profiles": [{"plugins": {"score": {"enabled": enabled}}}]}
    with known(Lavish):
        planner = Planner([node("a", cpu="2"), node("b", cpu="4"), node("c", cpu="100")], config)
        decision = planner.decide(pod("p", cpu="1"))
    assert decision.node == "c"
    assert decision.total[2] > 1_000_000
    assert decision.total[2] == sum(int(scores[2]) for scores in decision.scores.values())


def test_rows_of_nodes_that_are_gone_do_no_harm() -> None:
    planner = Planner([node("small", cpu="2"), node("gone", cpu="64"), node("large", cpu="64")])
    planner.snapshot.remove_node("gone")
    decision = planner.decide(pod("p", cpu="1500m"))
    assert (decision.node, decision.error) == ("large", "")


def test_totals_of_bayplans_plugins_take_two_bytes() -> None:
    planner = Planner([node("a"), node("b")])
    cycle = planner.cycle_for(planner.pod(pod("any")))
    planner.decide(pod("p", cpu="1"))
    assert cycle.evaluation(planner.pod(pod("p", cpu="1")).shape).totals._totals.dtype == np.int16
