"""What the parts of custom objects are for ownership."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from bayplan.api.custom_resources.objects import CustomObject, class_of
from bayplan.api.custom_resources.ownership import ownership_type
from bayplan.api.managedfields.compare import compare

Tree = dict[str, Any]


def made(**properties: Tree) -> type[CustomObject]:
    return class_of(None, "Thing", {"type": "object", "properties": properties}, keeps_unknown_fields=False)


def owned(tree: Tree, **properties: Tree) -> Tree:
    """The fields that somebody sets who makes an object like this."""
    found: Tree = compare({}, tree, ownership_type(made(**properties))).added
    return found


ITEMS = {
    "type": "object",
    "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}, "v": {"type": "string"}},
}
KEYED = {"type": "array", "items": ITEMS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
TWO_KEYS = {**KEYED, "x-kubernetes-list-map-keys": ["k", "p"]}
LEAF: Tree = {}
CASES: dict[str, tuple[Any, Tree, Tree]] = {
    "a scalar": ("x", {"type": "string"}, LEAF),
    "an integer or string": (5, {"x-kubernetes-int-or-string": True}, LEAF),
    "an object": ({"b": 1}, {"type": "object", "properties": {"b": {"type": "integer"}}}, {".": {}, "f:b": {}}),
    "an atomic object": ({"b": 1}, {"type": "object", "properties": {"b": {}}, "x-kubernetes-map-type": "atomic"}, LEAF),
    "a map": ({"x": "y"}, {"type": "object", "additionalProperties": {"type": "string"}}, {".": {}, "f:x": {}}),
    "a map of anything": ({"x": {"y": 1}}, {"type": "object", "additionalProperties": True}, {".": {}, "f:x": {".": {}, "f:y": {}}}),
    "an object in which anything goes": (
        {"b": {"c": [1]}}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {".": {}, "f:b": {".": {}, "f:c": {}}},
    ),
    "declared and other fields": (
        {"b": 1, "c": {"d": 2}},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"b": {"type": "integer"}}},
        {".": {}, "f:b": {}, "f:c": {".": {}, "f:d": {}}},
    ),
    "a list": ([1], {"type": "array", "items": {"type": "integer"}}, LEAF),
    "a set": (["x"], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, {".": {}, 'v:"x"': {}}),
    "a list under keys": ([{"k": "x", "v": "y"}], KEYED, {".": {}, 'k:{"k":"x"}': {".": {}, "f:k": {}, "f:v": {}}}),
    "a key with a default": ([{"k": "x"}], TWO_KEYS, {".": {}, 'k:{"k":"x","p":"TCP"}': {".": {}, "f:k": {}}}),
}  # fmt: skip


@pytest.mark.parametrize(("value", "schema", "expected"), CASES.values(), ids=CASES.keys())
def test_parts_are_owned_as_the_schema_says(value: Any, schema: Tree, expected: Tree) -> None:
    assert owned({"a": value}, a=schema) == {"f:a": expected}


def test_embedded_objects_have_metadata() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    tree = {"kind": "A", "metadata": {"labels": {"x": "y"}}}
    assert owned({"a": tree}, a=embedded) == {
        "f:a": {".": {}, "f:kind": {}, "f:metadata": {".": {}, "f:labels": {".": {}, "f:x": {}}}}
    }


def test_a_class_has_one_type_and_goes_with_it() -> None:
    cls = made()
    assert ownership_type(cls) is ownership_type(cls)
    known = weakref.ref(cls)
    del cls
    gc.collect()
    assert known() is None
