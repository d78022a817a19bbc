"""Dictionary-encoded columns."""

from __future__ import annotations

import numpy as np

from bayplan.scheduler import Planner
from bayplan.scheduler.snapshot.labels import EncodedColumn
from tests.scheduler.objects import node, pod, spread


def test_a_value_that_nobody_has_makes_room_for_the_next() -> None:
    column: EncodedColumn[str] = EncodedColumn(3)
    for generation in range(50):
        for row in range(3):
            column.set(row, f"value-{generation}-{row % 2}")
    assert len(column.values) <= 4
    assert [column.get(row) for row in range(3)] == ["value-49-0", "value-49-1", "value-49-0"]
    assert column.number("value-48-0") is None


def test_rows_of_a_value_follow_its_rows() -> None:
    column: EncodedColumn[str] = EncodedColumn(3)
    column.set(0, "a")
    column.set(1, "b")
    number = column.number("a")
    assert number is not None
    assert column.rows_of(number).tolist() == [0]
    column.set(2, "a")
    assert column.rows_of(number).tolist() == [0, 2]
    column.set(0, None)
    assert column.rows_of(number).tolist() == [2]


def test_setting_a_value_again_keeps_it() -> None:
    column: EncodedColumn[str] = EncodedColumn(1)
    column.set(0, "a")
    column.set(0, "a")
    assert column.get(0) == "a"
    assert np.array_equal(column.where(lambda value: value == "a", slice(0, 1)), [True])


def test_spreading_goes_on_while_nodes_are_replaced_by_others() -> None:
    planner = Planner([node("n0"), node("n1")])
    hostname = "kubernetes.io/hostname"
    for number in range(30):
        item = pod(f"p{number}", labels={"app": "web"}, topologySpreadConstraints=[spread(hostname, {"app": "web"})])
        assert planner.schedule(item).scheduled, number
        planner.remove(f"default/p{number - 1}")
        planner.snapshot.remove_node(f"n{number}")
        planner.add("Node", node(f"n{number + 2}"))
    assert len(planner.snapshot.label_column(hostname).values) <= 3
