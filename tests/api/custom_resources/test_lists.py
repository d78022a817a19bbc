"""Items that are there twice."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.custom_resources.lists import list_errors

Schema = dict[str, Any]


def keyed(*names: str) -> Schema:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(names), "items": {}}


SET = {"x-kubernetes-list-type": "set"}
CASES: dict[str, tuple[Any, Schema, list[str]]] = {
    "a list of neither kind": ([1, 1], {}, []),
    "different items": ([1, 2, 1.0, True, "1", None, {}], SET, []),
    "a scalar twice": ([1, "x", 1], SET, ["a[2]: Duplicate value: 1"]),
    "a scalar three times": ([1, 1, 1], SET, ["a[1]: Duplicate value: 1"]),
    "an object twice": ([{"b": 1, "c": 2}, {"c": 2, "b": 1}], SET, ['a[1]: Duplicate value: {"b":1,"c":2}']),
    "a key twice": ([{"k": 1, "x": 1}, {"k": 2}, {"k": 1}], keyed("k"), ['a[2]: Duplicate value: {"k":1}']),
    "no key twice": ([{"x": 1}, {}, {"k": None}], keyed("k"), ["a[1]: Duplicate value: {}"]),
    "null counts as without key": ([None, {}], keyed("k"), ["a[1]: Duplicate value: {}"]),
    "two keys": ([{"k": 1, "l": 1}, {"k": 1, "l": 2}, {"k": 1}, {"k": 1, "l": 1}], keyed("k", "l"), ['a[3]: Duplicate value: {"k":1,"l":1}']),
    "no object": ([{"k": 1}, "x", "y"], keyed("k"), ['a[1]: Invalid value: "x": must be an object for an array of list-type map']),
    "inside items": ([[1, 1]], {"items": SET}, ["a[0][1]: Duplicate value: 1"]),
    "in a map": ({"x": [1, 1]}, {"additionalProperties": SET}, ["a[x][1]: Duplicate value: 1"]),
    "in an object": ({"x": [1, 1]}, {"properties": {"x": SET}}, ["a.x[1]: Duplicate value: 1"]),
    "where the schema knows nothing": ({"x": [1, 1]}, {}, []),
}  # fmt: skip


@pytest.mark.parametrize(("value", "schema", "expected"), CASES.values(), ids=CASES.keys())
def test_items_differ(value: Any, schema: Schema, expected: list[str]) -> None:
    assert [str(error) for error in list_errors({"a": value}, {"properties": {"a": schema}})] == expected
