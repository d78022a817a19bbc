"""Defaults, and nulls that count as left out."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.custom_resources.defaulting import default, drop_nulls

Tree = dict[str, Any]

DEFAULTED: dict[str, tuple[Any, Tree, Any]] = {
    "a missing field": ({}, {"properties": {"a": {"default": "A"}}}, {"a": "A"}),
    "a field that is there": ({"a": ""}, {"properties": {"a": {"default": "A"}}}, {"a": ""}),
    "a default that is false": ({}, {"properties": {"a": {"default": False}}}, {"a": False}),
    "null": ({"a": None}, {"properties": {"a": {"default": "A"}}}, {"a": "A"}),
    "null that is allowed": ({"a": None}, {"properties": {"a": {"default": "A", "nullable": True}}}, {"a": None}),
    "fields below a missing one have no defaults": (
        {},
        {"properties": {"a": {"properties": {"b": {"default": 1}}}}},
        {},
    ),
    "fields below a default have": (
        {},
        {"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}},
        {"a": {"b": 1}},
    ),
    "fields of items": (
        {"a": [{}, {"b": 2}]},
        {"properties": {"a": {"items": {"properties": {"b": {"default": 1}}}}}},
        {"a": [{"b": 1}, {"b": 2}]},
    ),
    "null among items": ({"a": [None]}, {"properties": {"a": {"items": {"default": 7}}}}, {"a": [7]}),
    "null among items that may be null": (
        {"a": [None]},
        {"properties": {"a": {"items": {"default": 7, "nullable": True}}}},
        {"a": [None]},
    ),
    "values of a map": (
        {"a": {"x": {}, "y": None}},
        {"properties": {"a": {"additionalProperties": {"default": {"b": 3}, "properties": {"b": {"default": 1}}}}}},
        {"a": {"x": {"b": 1}, "y": {"b": 3}}},
    ),
    "a scalar where an object is expected": (
        {"a": 1},
        {"properties": {"a": {"properties": {"b": {"default": 1}}}}},
        {"a": 1},
    ),
    "what the schema does not know": (
        {"a": {"b": {}}},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"a": {"b": {}}},
    ),
}


@pytest.mark.parametrize(("tree", "schema", "expected"), DEFAULTED.values(), ids=DEFAULTED.keys())
def test_what_is_left_out_is_filled_in(tree: Any, schema: Tree, expected: Any) -> None:
    default(tree, schema)
    assert tree == expected


def test_objects_do_not_share_defaults() -> None:
    schema: Tree = {"properties": {"a": {"default": {"b": []}}}}
    one: Tree = {}
    default(one, schema)
    one["a"]["b"].append(1)
    other: Tree = {}
    default(other, schema)
    assert other == {"a": {"b": []}}


NULLS: dict[str, tuple[Any, Tree, Any]] = {
    "one that is not allowed": ({"a": None}, {"properties": {"a": {}}}, {}),
    "one that is allowed": ({"a": None}, {"properties": {"a": {"nullable": True}}}, {"a": None}),
    "one with a default": ({"a": None}, {"properties": {"a": {"default": 1}}}, {"a": None}),
    "one that the schema does not know": ({"a": None}, {"x-kubernetes-preserve-unknown-fields": True}, {"a": None}),
    "one in a map": ({"a": {"x": None}}, {"properties": {"a": {"additionalProperties": {}}}}, {"a": {}}),
    "one in a map of anything": (
        {"a": {"x": None}},
        {"properties": {"a": {"additionalProperties": True}}},
        {"a": {"x": None}},
    ),
    "one in a list": (
        {"a": [None, {"b": None}]},
        {"properties": {"a": {"items": {"properties": {"b": {}}}}}},
        {"a": [None, {}]},
    ),
}


@pytest.mark.parametrize(("tree", "schema", "expected"), NULLS.values(), ids=NULLS.keys())
def test_nulls_that_are_not_allowed_go(tree: Any, schema: Tree, expected: Any) -> None:
    drop_nulls(tree, schema)
    assert tree == expected
