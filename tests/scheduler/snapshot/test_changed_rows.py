"""Which rows changed since a position, and what is left of nodes, whatever came and went."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler.framework.resource_columns import resource_columns
from bayplan.scheduler.snapshot import snapshot as module
from bayplan.scheduler.snapshot.labels import listed, part
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.objects import node, pod


def with_nodes(count: int) -> Snapshot:
    found = Snapshot()
    for index in range(count):
        found.put_node(from_tree(core_v1.Node, node(f"n{index}")))
    return found


def changed(snapshot: Snapshot, position: int) -> list[int]:
    rows = snapshot.changed_rows(position)
    assert rows is not None
    return sorted(listed(rows))


def place(snapshot: Snapshot, name: str, row: int, cpu: str = "100m") -> None:
    snapshot.place(snapshot.pod_info(from_tree(core_v1.Pod, pod(name, cpu=cpu))), snapshot.name(row))


@pytest.mark.parametrize("listed_at_most", [0, 8, 1000])
def test_rows_that_changed_are_told_once_whether_as_a_list_or_an_array(
    listed_at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LISTED", listed_at_most)
    monkeypatch.setattr(module, "_WIDTH_OF_LISTING", 1 << 20)
    chance, snapshot = random.Random(3), with_nodes(150)
    positions = []
    for index in range(300):
        positions.append(snapshot.position)
        if index % 3 == 2 and snapshot.pods:
            snapshot.remove_pod(chance.choice(sorted(snapshot.pods)))
        else:
            place(snapshot, f"p{index}", chance.randrange(150))
    for position in positions[::7]:
        rows = snapshot.changed_rows(position)
        log = snapshot.changed_since(position)
        assert rows is not None
        assert log is not None
        assert isinstance(rows, list) is (len(log) <= listed_at_most)
        assert sorted(listed(rows)) == sorted(set(log))
    assert changed(snapshot, snapshot.position) == []


def test_positions_before_the_log_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_LOG", 10)
    snapshot = with_nodes(3)
    for index in range(12):
        place(snapshot, f"p{index}", index % 3)
    assert snapshot.changed_rows(0) is None
    assert changed(snapshot, snapshot.position - 2) == [1, 2]


def test_rows_that_are_new_have_not_changed() -> None:
    snapshot = with_nodes(2)
    place(snapshot, "p", 0)
    position = snapshot.position
    for index in range(2, 200):  # more than there was room for
        snapshot.put_node(from_tree(core_v1.Node, node(f"n{index}")))
    assert changed(snapshot, position) == []
    for index in range(100, 150):
        place(snapshot, f"p{index}", index)
    assert changed(snapshot, position) == list(range(100, 150))


def test_what_is_left_is_what_a_node_has_less_what_its_pods_take() -> None:
    chance, snapshot = random.Random(5), with_nodes(20)
    requests = snapshot.pod_info(from_tree(core_v1.Pod, pod("asking", cpu="1"))).requests
    fitted = set()
    for index in range(120):
        row = chance.randrange(20)
        action = chance.random()
        if action < 0.2 and snapshot.pods:
            snapshot.remove_pod(chance.choice(sorted(snapshot.pods)))
        elif action < 0.3:
            snapshot.put_node(from_tree(core_v1.Node, node(f"n{row}", cpu=chance.choice(("1", "8")), pods="5")))
        elif action < 0.35:
            snapshot.remove_node(f"n{row}")
            snapshot.put_node(from_tree(core_v1.Node, node(f"n{row}")))
        else:
            place(snapshot, f"p{index}", row, chance.choice(("100m", "3")))
        rows = snapshot.all_rows
        assert (snapshot.free[:, rows] == snapshot.allocatable[:, rows] - snapshot.requested[:, rows]).all()
        assert (snapshot.places[rows] == snapshot.pod_limit[rows] - snapshot.pod_count[rows]).all()
        fits = [
            snapshot.places[row] > 0 and all(snapshot.free[at, row] >= it for at, it in requests) for row in range(20)
        ]
        if index % 5 == 0:
            snapshot.look_for_room()
            assert snapshot.fits_everywhere(requests) is all(fits)
        assert all(fits) or not snapshot.fits_everywhere(requests)
        fitted.add(snapshot.fits_everywhere(requests))
    assert fitted == {True, False}


def test_what_is_taken_for_a_while_is_given_back() -> None:
    snapshot = with_nodes(4)
    place(snapshot, "there", 1)
    before = snapshot.free.copy(), snapshot.requested.copy(), snapshot.places.copy(), snapshot.pod_count.copy()
    info = snapshot.pod_info(from_tree(core_v1.Pod, pod("new", cpu="1")))
    rows = np.array([1, 3])
    with snapshot.taking(info, rows, np.array([2, 1])):
        assert (snapshot.free[0, rows] == before[0][0, rows] - np.array([2000, 1000])).all()
        assert (snapshot.places[rows] == before[2][rows] - np.array([2, 1])).all()
    for one, other in zip(
        before, (snapshot.free, snapshot.requested, snapshot.places, snapshot.pod_count), strict=True
    ):
        assert (one == other).all()


def test_a_part_of_a_column() -> None:
    column = np.arange(10)
    assert part(column, slice(0, 10)) is not column
    assert part(column, slice(0, 10)).base is column
    assert part(column, np.array([7, 2])).tolist() == [7, 2]
    assert resource_columns(with_nodes(2), 0, 1).everywhere() is not None
