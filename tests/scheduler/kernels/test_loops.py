"""Loops, compiled or not, give what NumPy gives, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.framework.resource_columns import EXACT, ResourceColumns, resource_columns
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.framework.two_resource_scores import balanced, least_allocated
from bayplan.scheduler.plugins.node_resources_fit import NodeResourcesFit
from bayplan.scheduler.snapshot.labels import Rows
from tests.scheduler.kernels.loaded import use
from tests.scheduler.objects import node, pod

pytestmark = pytest.mark.xdist_group("compiled")
WEIGHTS = ((1, 1), (3, 3), (1, 100), (7, 2))


def a_cluster(chance: random.Random) -> ResourceColumns:
    """The columns of nodes by chance: full ones, over-committed ones, empty ones, and rows that are no nodes any more."""
    sizes = [
        (str(chance.randint(1, 200)), chance.choice((EXACT - 1, 1 << 34, 3, 977))) for _ in range(chance.randint(1, 3))
    ]
    planner = Planner([])
    for number in range(40):
        cpu, memory = chance.choice(sizes)
        planner.add("Node", node(f"n{number}", cpu=cpu, memory=str(memory)))
        used, filled = chance.randint(0, 1200 * int(cpu)), chance.randint(0, memory + memory // 5)
        if chance.random() < 0.8:
            planner.add("Pod", pod(f"p{number}", cpu=f"{used}m", memory=str(filled), nodeName=f"n{number}"))
    for number in chance.sample(range(40), 3):
        planner.snapshot.remove_node(f"n{number}")
    resources = planner.snapshot.resources
    cpu_column, memory_column = resources.find("cpu"), resources.find("memory")
    assert cpu_column is not None
    assert memory_column is not None
    return resource_columns(planner.snapshot, cpu_column, memory_column)


def answers(columns: ResourceColumns, chance: random.Random) -> list[Any]:
    """Scores of pods by chance on all rows, and on some."""
    found: list[Any] = []
    some = np.array(chance.sample(range(columns.size), 9), dtype=np.intp)
    rows: Rows
    for rows in (slice(0, columns.size), some, some[::2], some[:0], np.arange(3, 15)):
        for weights in WEIGHTS:
            requests = (
                chance.randint(0, 5000),
                chance.choice((0, 1, chance.randint(1, 1 << 34), chance.randint(1, 500))),
            )
            found += [least_allocated(columns, rows, requests, weights), balanced(columns, rows, requests)]
    return found


@pytest.mark.parametrize("means", ["python", "compiled"])
def test_loops_give_what_numpy_gives(means: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = 0
    for seed in range(20):
        columns = a_cluster(random.Random(seed))
        use(monkeypatch, "numpy")
        expected = answers(columns, random.Random(seed))
        use(monkeypatch, means)
        for one, other in zip(expected, answers(columns, random.Random(seed)), strict=True):
            assert (one is None) is (other is None)
            if one is not None:
                assert one.dtype == other.dtype == np.int16
                assert one.tolist() == other.tolist()
                given += len(one)
    assert given > 5_000


@pytest.mark.parametrize("means", ["numpy", "python", "compiled"])
def test_a_worked_example(means: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, means)
    planner = Planner([node("empty", cpu="4", memory="1000"), node("half", cpu="4", memory="1000")])
    planner.add("Pod", pod("there", nodeName="half", cpu="2", memory="100"))
    columns = resource_columns(planner.snapshot, 0, 1)
    rows = slice(0, 2)
    # One core of four and 500 of 1,000: 75 and 50 are left on the first node; 25 and 40 on the second.
    assert least_allocated(columns, rows, (1000, 500), (1, 1)).tolist() == [62, 32]  # type: ignore[union-attr]
    assert least_allocated(columns, rows, (1000, 500), (3, 1)).tolist() == [68, 28]  # type: ignore[union-attr]
    # Balance was 100 and 80, and is 87 and 92 then: 50 + (50 - 13) / 2, and 50 + (50 + 12) / 2.
    assert balanced(columns, rows, (1000, 500)).tolist() == [68, 81]  # type: ignore[union-attr]


RESOURCES = ("example.com/a", "example.com/b", "example.com/c", "example.com/d", "example.com/e")


@pytest.mark.parametrize("means", ["numpy", "python", "compiled"])
def test_verdicts_on_all_rows_are_those_on_single_rows(means: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, means)
    chance = random.Random(7)
    planner = Planner([])
    for number in range(40):
        more = {name: str(chance.choice((0, 1, 4))) for name in chance.sample(RESOURCES, 3)}
        limit = str(chance.choice((1, 2, 110)))
        made = node(f"n{number}", cpu=str(chance.randint(1, 4)), memory=str(chance.randint(1, 4) << 30), pods=limit)
        made["status"]["allocatable"] |= more
        planner.add("Node", made)
        if chance.random() < 0.8:
            taken = pod(f"p{number}", cpu=f"{chance.randint(0, 5000)}m", memory="1Gi", nodeName=f"n{number}")
            planner.add("Pod", taken)
    planner.snapshot.remove_node("n7")
    (fit,) = [
        one for one in planner.cycle_for(planner.pod(pod("any"))).profile.filter if one.name == "NodeResourcesFit"
    ]
    assert isinstance(fit, NodeResourcesFit)
    reasons = set()
    for number in range(60):
        made = pod(f"new{number}", cpu=f"{chance.randint(0, 5000)}m", memory=str(chance.randint(0, 5) << 30))
        wanted = {name: str(chance.randint(1, 4)) for name in chance.sample(RESOURCES, number % 6)}
        made["spec"]["containers"][0]["resources"]["requests"] |= wanted
        info, state = planner.pod(made), CycleState(planner.snapshot)
        fit.pre_filter(state, info.shape)
        state.data[f"{fit.name}/devices"] = frozenset(
            column
            for column, _ in info.requests
            if number % 2 and planner.snapshot.resources.names[column] == RESOURCES[0]
        )
        for _ in range(2):  # what has not come up before, and what has
            codes = fit.filter(state, info.shape, planner.snapshot.all_rows)
            expected = [fit.filter_row(state, info.shape, row) for row in range(planner.snapshot.size)]
            assert codes.dtype == np.int32
            assert codes.tolist() == expected
        some = np.array([3, 39, 11], dtype=np.intp)
        assert fit.filter(state, info.shape, some).tolist() == [expected[row] for row in some]
        reasons |= set(expected)
    assert len(reasons) > 30
