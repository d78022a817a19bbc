"""Structural schemas by chance, and values that fit them or nearly do."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.api.steps import Tree, some

NAMES = ("a", "b", "c", "size", "items", "mode")
_FORMATS = (
    "date-time",
    "int32",
    "int64",
    "email",
    "ipv4",
    "uuid",
    "byte",
    "duration",
    "uri",
    "nosuch",
    "date",
    "cidr",
    "hostname",
)
MESSAGES: tuple[Tree, ...] = (
    {},
    {"message": "no"},
    {"messageExpression": "'size ' + string(self.spec.size)"},
    {"message": "no", "reason": "FieldValueForbidden", "fieldPath": ".spec.size"},
    {"reason": "x"},
    {"fieldPath": ".spec.nosuch"},
    {"message": "a\nb"},
    {"messageExpression": "1"},
    {"optionalOldSelf": True},
)


def _leaf(chance: Random) -> Tree:
    kind = chance.choice(("string", "string", "integer", "number", "boolean"))
    found: Tree = {"type": kind}
    if kind == "string":
        found |= some(chance, {
            "maxLength": [3, 0, -1], "minLength": [1, 5], "pattern": ["^a", "[", "x{2}"], "format": list(_FORMATS), "enum": [["x", "y"], ["x", "x"], [1], []],
            "default": ["x", "aaaaaa", 1, None], "nullable": [True], "description": ["d"],
        }, 3)  # fmt: skip
    elif kind in ("integer", "number"):
        found |= some(chance, {
            "minimum": [0, 5, 1.5], "maximum": [10, -1], "exclusiveMinimum": [True], "multipleOf": [2, 0.5, 0], "default": [3, 100, "x"], "nullable": [True],
            "format": ["int32", "int64", "double"], "enum": [[1, 2]],
        }, 3)  # fmt: skip
    return found


def schema_by_chance(chance: Random, depth: int = 0) -> Tree:
    """A schema that is structural most of the time."""
    kind = chance.random()
    if depth > 2 or kind < 0.45:
        found = _leaf(chance)
    elif kind < 0.65:
        found = {"type": "array", "items": schema_by_chance(chance, depth + 1)}
        found |= some(
            chance,
            {
                "maxItems": [2, 0],
                "minItems": [1],
                "uniqueItems": [True, False],
                "default": [[], ["a"]],
                "nullable": [True],
            },
            1,
        )
        listed = chance.choice((None, None, "atomic", "set", "map", "x"))
        if listed:
            found["x-kubernetes-list-type"] = listed
        if listed == "map":
            found["items"] = {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": _leaf(chance)},
                "required": ["a"],
            }
            found["x-kubernetes-list-map-keys"] = chance.choice((["a"], ["a"], ["b"], ["nosuch"], []))
    elif kind < 0.9:
        found = {
            "type": "object",
            "properties": {
                name: schema_by_chance(chance, depth + 1) for name in chance.sample(NAMES, chance.choice((1, 2, 3)))
            },
        }
        found |= some(chance, {
            "required": [["a"], ["nosuch"]], "minProperties": [1], "maxProperties": [2], "x-kubernetes-preserve-unknown-fields": [True, False],
            "x-kubernetes-map-type": ["atomic", "granular", "x"], "default": [{}, {"a": "x"}], "nullable": [True],
        }, 1)  # fmt: skip
        if chance.random() < 0.15:
            found["anyOf"] = [{"required": ["a"]}, {"properties": {"b": {"minimum": 1}}}]
    else:
        found = chance.choice((
            {"type": "object", "additionalProperties": _leaf(chance)},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "additionalProperties": False},
            {},
        ))  # fmt: skip
    if chance.random() < 0.1:
        found["x-kubernetes-validations"] = [
            {
                "rule": chance.choice(("self == self", "self > 1", "self.size() < 2", "has(self.a)")),
                **chance.choice(MESSAGES),
            }
        ]
    return found


def sound_leaf(chance: Random, name: str) -> Tree:
    if name == "size":
        return {"type": "integer", "minimum": 0, **some(chance, {"default": [3], "maximum": [10]}, 1)}
    if name == "items":
        keyed = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
        defaulted = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
        return chance.choice((
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            {"type": "array", "items": keyed, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
            {"type": "array", "items": defaulted, "maxItems": 3},
        ))  # fmt: skip
    if name == "mode":
        return {"type": "string", "enum": ["x", "y"], **some(chance, {"default": ["x"], "nullable": [True]}, 1)}
    return chance.choice((
        {"type": "string", "maxLength": 5},
        {"type": "string", "nullable": True},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"x-kubernetes-int-or-string": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "string", "format": chance.choice(_FORMATS)},
        {"type": "object", "properties": {"a": {"type": "string", "default": "d"}, "b": {"type": "boolean"}}, "x-kubernetes-map-type": "atomic"},
    ))  # fmt: skip


def value_of(chance: Random, schema: Tree) -> Any:
    """A value that fits a schema, or nearly."""
    if chance.random() < 0.06:
        return chance.choice((None, 1, "x", [], {}, True))
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        named = {
            name: value_of(chance, inner)
            for name, inner in schema.get("properties", {}).items()
            if chance.random() < 0.7
        }
        if isinstance(schema.get("additionalProperties"), dict):
            named[chance.choice(("k", "é"))] = value_of(chance, schema["additionalProperties"])
        return named | ({"nosuch": {"a": 1}} if chance.random() < 0.15 else {})
    if kind == "array":
        return [value_of(chance, schema.get("items", {})) for _ in range(chance.choice((0, 1, 2, 2, 4)))]
    if kind == "boolean":
        return chance.random() < 0.5
    if kind in ("integer", "number"):
        return 1.0 if chance.random() < 0.01 else chance.choice((0, 1, 2, 3, 7, 20, -1, 1.5, 2**40))
    if kind == "string":
        return chance.choice(("a", "x", "y", "", "aaaaaaaa", "2026-01-01T00:00:00Z", "1.2.3.4", "YQ==", "1s"))
    return chance.choice((1, "a", {"a": {"b": None}}, [1]))
