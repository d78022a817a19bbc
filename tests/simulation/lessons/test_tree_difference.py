"""Which fields of two versions of an object differ, and what their paths are."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.simulation.lessons.tree_difference import tree_difference


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, [("a.c", 2, None)]),
        ({}, {"a": {"b": {"c": True}}}, [("a.b.c", None, True)]),
        (None, {"a": "x"}, [("a", None, "x")]),
        ({"a": "x"}, None, [("a", "x", None)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a", [1, 2], [1, 3])]),
        ({"a": {}}, {"a": None}, [("a", {}, None)]),
        ({}, {"volumes": [{"name": "v", "emptyDir": {}}]}, [("volumes[v].name", None, "v"), ("volumes[v].emptyDir", None, {})]),
    ],
)  # fmt: skip
def test_each_field_that_differs_is_named(before: Any, after: Any, expected: list[Any]) -> None:
    assert [(one.path, one.before, one.after) for one in tree_difference(before, after)] == expected


def test_items_are_told_apart_by_what_names_them() -> None:
    before = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]}
    after = {"conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}
    (change,) = tree_difference(before, after)
    assert (change.path, change.before, change.after) == ("conditions[Ready].status", "False", "True")


def test_items_with_equal_names_are_told_apart_by_their_places() -> None:
    before = {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}
    after = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    assert [one.path for one in tree_difference(before, after)] == ["taints[1].key", "taints[1].effect"]


def test_what_the_server_keeps_for_itself_is_left_out() -> None:
    after = {"metadata": {"resourceVersion": "2", "managedFields": [{"manager": "x"}], "uid": "u", "name": "web"}}
    assert [one.path for one in tree_difference({}, after)] == ["metadata.name"]
