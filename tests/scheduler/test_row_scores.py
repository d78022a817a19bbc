"""Scores that shapes have in common are the same as if each were asked about all rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bayplan.scheduler.framework.extension_points import PreScorePlugin, ScorePlugin
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.library import Planner
from bayplan.scheduler.row_scores import RowScores
from bayplan.scheduler.snapshot.pods import PodInfo
from tests.scheduler.objects import node, pod

NODES = 40


def planner() -> Planner:
    return Planner([node(f"n{number:02d}", cpu=str(4 + number % 5)) for number in range(NODES)])


def prepared(plugin: ScorePlugin, made: Planner, name: str, cpu: str) -> tuple[CycleState, PodInfo]:
    info = made.pod(pod(name, cpu=cpu, memory="1Gi", labels={"app": name}))
    state = CycleState(made.snapshot)
    assert isinstance(plugin, PreScorePlugin)
    plugin.pre_score(state, info.shape, np.arange(NODES))
    return state, info


@pytest.mark.parametrize("name", ["NodeResourcesFit", "NodeResourcesBalancedAllocation"])
def test_what_one_shape_was_told_is_brought_up_to_date_for_the_next(name: str) -> None:
    made = planner()
    profile = made.cycle_for(made.pod(pod("any"))).profile
    plugin = next(one for one in profile.score if one.name == name)
    kept, chance, asked = RowScores(made.snapshot), random.Random(3), []
    for number in range(30):
        for index in range(chance.choice((0, 1, 3, 30))):
            made.schedule(pod(f"p{number}-{index}", cpu="100m", labels={"app": f"other-{index}"}))
        state, info = prepared(plugin, made, f"app-{number}", "200m" if number % 3 else "300m")
        scores, count = kept.of(plugin, state, info.shape)
        asked.append(count)
        assert scores.tolist() == plugin.score(state, info.shape, made.snapshot.all_rows).tolist()
    assert min(asked) < NODES == max(asked)


def test_new_nodes_start_over() -> None:
    made = planner()
    profile = made.cycle_for(made.pod(pod("any"))).profile
    plugin = next(one for one in profile.score if one.name == "NodeResourcesFit")
    state, info = prepared(plugin, made, "a", "1")
    assert len(profile.row_scores.of(plugin, state, info.shape)[0]) == NODES
    made.add("Node", node("another", cpu="64"))
    scores, asked = profile.row_scores.of(plugin, state, info.shape)
    assert (len(scores), asked) == (NODES + 1, NODES + 1)


def test_only_so_many_are_kept() -> None:
    made = planner()
    profile = made.cycle_for(made.pod(pod("any"))).profile
    plugin = next(one for one in profile.score if one.name == "NodeResourcesFit")
    kept = RowScores(made.snapshot)
    for millis in range(1, RowScores.LIMIT + 2):
        state, info = prepared(plugin, made, f"a{millis}", f"{millis}m")
        kept.of(plugin, state, info.shape)
    state, info = prepared(plugin, made, "again", "1m")
    assert kept.of(plugin, state, info.shape)[1] == NODES
    assert kept.of(plugin, state, info.shape)[1] == 0
