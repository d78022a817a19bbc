"""What changed from one tree to another."""

from __future__ import annotations

import pytest

from bayplan.api.managedfields.compare import compare
from bayplan.api.managedfields.fieldset import FieldSet
from bayplan.api.managedfields.typed import type_of_definition, type_of_schema

POD = type_of_definition("io.k8s.api.core.v1.Pod")


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        (["b", "a"], ["a", "c", '"'], ['v:"b"'], ['v:"\\""', 'v:"c"']),
        (["a", "b"], ["b", "a"], [], []),
        (["a"], [], ['v:"a"'], []),
        (["a", "a"], ["a"], ['v:"a"'], ['v:"a"']),
        (["a"], ["b", "b"], ['v:"a"'], ['v:"b"']),
    ],
)
def test_items_of_a_set_come_and_go(old: list[str], new: list[str], removed: list[str], added: list[str]) -> None:
    found = compare({"metadata": {"finalizers": old}}, {"metadata": {"finalizers": new}}, POD)
    gone, come = (fields.get("f:metadata", {}).get("f:finalizers", {}) for fields in (found.removed, found.added))
    assert ([one for one in gone if one != "."], [one for one in come if one != "."]) == (removed, added)


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        (1, {"a": {"b": None}}, {}, {"f:spec": {"f:a": {".": {}, "f:b": {}}}}),
        ({"a": 1}, "x", {"f:spec": {"f:a": {}}}, {}),
        ([1], {"a": 1}, {}, {"f:spec": {"f:a": {}}}),
        (0, {}, {}, {}),
    ],
)
def test_a_map_and_something_else_in_its_place_are_both_seen(
    old: object, new: object, removed: FieldSet, added: FieldSet
) -> None:
    found = compare({"spec": old}, {"spec": new}, type_of_schema({"x-kubernetes-preserve-unknown-fields": True}))
    assert (found.removed, found.modified, found.added) == (removed, {"f:spec": {}}, added)


def test_true_and_one_are_not_the_same_where_no_schema_says_which_it_is() -> None:
    kind = type_of_schema({"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}}})
    assert compare({"spec": {"a": 1}}, {"spec": {"a": True}}, kind).modified == {"f:spec": {"f:a": {}}}
    assert compare({"spec": {"a": [0]}}, {"spec": {"a": [False]}}, kind).modified == {"f:spec": {"f:a": {}}}
    assert compare({"spec": {"a": 1, "b": 2}}, {"spec": {"b": 2, "a": 1}}, kind).is_same
