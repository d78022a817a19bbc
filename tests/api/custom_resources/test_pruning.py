"""What is taken out of trees because a schema does not know it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.custom_resources.pruning import prune

Tree = dict[str, Any]
PRESERVE, EMBEDDED = {"x-kubernetes-preserve-unknown-fields": True}, {"x-kubernetes-embedded-resource": True}

CASES: dict[str, tuple[Tree, Tree, Tree, list[str]]] = {
    "unknown fields": ({"a": 1, "b": 2}, {"properties": {"a": {}}}, {"a": 1}, ["b"]),
    "unknown fields below": (
        {"a": {"b": 1, "c": 2}, "d": {"x": 1}},
        {"properties": {"a": {"properties": {"b": {}}}}},
        {"a": {"b": 1}},
        ["a.c", "d"],
    ),
    "kind, apiVersion and metadata stay": (
        {"kind": "A", "apiVersion": "b/v1", "metadata": {"x": 1}},
        {},
        {"kind": "A", "apiVersion": "b/v1", "metadata": {"x": 1}},
        [],
    ),
    "those of another object do not": (
        {"a": {"kind": "A", "metadata": {}}},
        {"properties": {"a": {"type": "object"}}},
        {"a": {}},
        ["a.kind", "a.metadata"],
    ),
    "those of an embedded object do": (
        {"a": {"kind": "A", "b": 1}},
        {"properties": {"a": EMBEDDED}},
        {"a": {"kind": "A"}},
        ["a.b"],
    ),
    "preserved fields": ({"a": {"b": {"c": 1}}}, {"properties": {"a": PRESERVE}}, {"a": {"b": {"c": 1}}}, []),
    "declared fields among preserved ones are pruned": (
        {"a": {"b": {"c": 1, "d": 2}, "e": 3}},
        {"properties": {"a": {**PRESERVE, "properties": {"b": {"properties": {"c": {}}}}}}},
        {"a": {"b": {"c": 1}, "e": 3}},
        ["a.b.d"],
    ),
    "preserved items": (
        {"a": [{"b": 1}]},
        {"properties": {"a": {**PRESERVE, "items": {"type": "object"}}}},
        {"a": [{"b": 1}]},
        [],
    ),
    "declared fields of preserved items are pruned": (
        {"a": [{"b": {"c": 1}, "d": 1}]},
        {"properties": {"a": {**PRESERVE, "items": {"properties": {"b": {}}}}}},
        {"a": [{"b": {}, "d": 1}]},
        ["a[0].b.c"],
    ),
    "preserved items without a schema": ({"a": [{"b": 1}]}, {"properties": {"a": PRESERVE}}, {"a": [{"b": 1}]}, []),
    "items": (
        {"a": [{"b": 1, "c": 2}, 3]},
        {"properties": {"a": {"items": {"properties": {"b": {}}}}}},
        {"a": [{"b": 1}, 3]},
        ["a[0].c"],
    ),
    "items of items": (
        {"a": [[{"c": 2}]]},
        {"properties": {"a": {"items": {"items": {}}}}},
        {"a": [[{}]]},
        ["a[0][0].c"],
    ),
    "items without a schema": ({"a": [{"b": 1}]}, {"properties": {"a": {}}}, {"a": [{}]}, ["a[0].b"]),
    "maps": (
        {"a": {"x": {"b": 1, "c": 2}}},
        {"properties": {"a": {"additionalProperties": {"properties": {"b": {}}}}}},
        {"a": {"x": {"b": 1}}},
        ["a.x.c"],
    ),
    "maps of anything keep their keys": (
        {"a": {"x": {"b": 1}}},
        {"properties": {"a": {"additionalProperties": True}}},
        {"a": {"x": {}}},
        ["a.x.b"],
    ),
    "maps of what is not told": (
        {"a": {"x": 1}},
        {"properties": {"a": {"additionalProperties": {}}}},
        {"a": {"x": 1}},
        [],
    ),
    "no maps": ({"a": {"x": 1}}, {"properties": {"a": {"additionalProperties": False}}}, {"a": {}}, ["a.x"]),
    "everything is preserved": ({"a": 1, "metadata": {}}, PRESERVE, {"a": 1, "metadata": {}}, []),
}


@pytest.mark.parametrize(("tree", "schema", "left", "dropped"), CASES.values(), ids=CASES.keys())
def test_unknown_fields_go(tree: Tree, schema: Tree, left: Tree, dropped: list[str]) -> None:
    assert prune(tree, schema) == dropped
    assert tree == left


def test_paths_are_in_order() -> None:
    assert prune({"b": 1, "a": [{"z": 1, "y": 1}]}, {"properties": {"a": {"items": {}}}}) == ["a[0].y", "a[0].z", "b"]
