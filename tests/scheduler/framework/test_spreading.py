"""Skews and costs of spread constraints follow single rows as a full count would."""

from __future__ import annotations

import numpy as np

from bayplan.api.selectors.labels import from_map
from bayplan.scheduler.framework.extension_points import EVERY_ROW
from bayplan.scheduler.framework.spreading import Constraint, Cost, Domains, Skews
from bayplan.scheduler.snapshot.counters import PodCounter, Tally
from bayplan.scheduler.snapshot.labels import EncodedColumn

TWO_ZONES = ("a", "a", "a", "b", "b")


def domains(zones: tuple[str | None, ...], pods: tuple[int, ...], *, skew: int = 1) -> tuple[Domains, PodCounter]:
    column: EncodedColumn[str] = EncodedColumn(len(zones))
    counter = PodCounter(Tally(lambda namespace, labels: True, True, len(zones)))
    for row, (zone, count) in enumerate(zip(zones, pods, strict=True)):
        column.set(row, zone)
        counter.per_row[row] = count
    constraint = Constraint("zone", skew, 1, from_map({"app": "web"}), True, False)
    return Domains(constraint, column, np.ones(len(zones), dtype=np.bool_), counter, 1), counter


def test_a_pod_in_the_emptiest_zone_lets_the_other_zone_take_pods_again() -> None:
    counts, counter = domains(TWO_ZONES, (1, 1, 1, 1, 1))
    skews = Skews(counts)
    assert skews.over[:2].tolist() == [True, False]
    counter.per_row[4] += 1
    assert [rows.tolist() for rows in skews.catch_up([4])] == [[0, 1, 2]]
    assert skews.over[:2].tolist() == [False, False]


def test_a_pod_that_leaves_the_emptiest_zone_closes_the_other() -> None:
    counts, counter = domains(TWO_ZONES, (1, 0, 0, 1, 0))
    skews = Skews(counts)
    assert skews.over[:2].tolist() == [False, False]
    counter.per_row[3] -= 1
    assert [rows.tolist() for rows in skews.catch_up([3])] == [[0, 1, 2]]


def test_one_of_two_emptiest_zones_filling_up_closes_itself_only() -> None:
    counts, counter = domains(("a", "b", "c"), (0, 0, 0))
    skews = Skews(counts)
    counter.per_row[1] += 1
    assert [rows.tolist() for rows in skews.catch_up([1])] == [[1]]
    assert skews.least == 0


def test_rows_of_a_zone_cost_more_with_each_pod_there() -> None:
    counts, counter = domains(TWO_ZONES, (0, 0, 0, 0, 0))
    cost = Cost(counts, np.ones(5, dtype=np.bool_))
    before = cost.of(EVERY_ROW).tolist()
    counter.per_row[0] += 1
    moved = cost.catch_up(0)
    assert moved is not None
    assert moved.tolist() == [0, 1, 2]
    assert (cost.of(EVERY_ROW)[:3] > before[:3]).all()
    assert cost.of(EVERY_ROW)[3:].tolist() == before[3:]


def test_the_weight_changes_when_a_zone_loses_its_last_feasible_node() -> None:
    counts, _ = domains(TWO_ZONES, (0, 0, 0, 0, 0))
    cost = Cost(counts, np.ones(5, dtype=np.bool_))
    assert not cost.choose(3, False)
    assert cost.choose(4, False)
    assert cost.spread == 1
