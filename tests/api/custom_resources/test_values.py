"""What is wrong with values, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.custom_resources.correlation import Before
from bayplan.api.custom_resources.values import validate

Schema = dict[str, Any]


def of(schema: Schema) -> Schema:
    """The schema of an object with one field, `a`."""
    return {"type": "object", "properties": {"a": schema}}


def problems(value: Any, schema: Schema) -> list[str]:
    return [str(error) for error in validate({"a": value}, of(schema))]


def problems_of_change(old: Any, new: Any, schema: Schema) -> list[str]:
    whole = of(schema)
    return [str(error) for error in validate({"a": new}, whole, before=Before({"a": old}, {"a": new}, whole))]


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
FINE: dict[str, tuple[Any, Schema]] = {
    "a string": ("x", STRING),
    "an integer is a number": (1, NUMBER),
    "a whole float is an integer": (1.0, INTEGER),
    "an integer or string": (1, INT_OR_STRING),
    "a string or integer": ("1", INT_OR_STRING),
    "null where that is allowed": (None, {"type": "string", "nullable": True}),
    "null where nothing is said": (None, {}),
    "the longest string, in letters": ("éé", {"type": "string", "maxLength": 2, "minLength": 2}),
    "a pattern in the middle": ("xay", {"type": "string", "pattern": "a"}),
    "an enum": ("b", {"enum": ["a", "b"]}),
    "an enum of integers takes floats": (1.5, {"enum": [1]}),
    "an enum of floats takes integers": (1, {"enum": [1.0]}),
    "an enum of objects": ({"b": 1}, {"enum": [{"b": 1}]}),
    "a format that is not known": ("x", {"type": "string", "format": "zip"}),
    "a format of another type": (1, {"type": "integer", "format": "date"}),
    "a string with a known format instead of another type": ("2020-01-01", {"format": "date"}),
    "a bound that is included": (5, {"type": "integer", "minimum": 5, "maximum": 5}),
    "a bound's fraction does not count for integers": (1, {"type": "number", "maximum": 1.5}),
    "a multiple": (9, {"type": "integer", "multipleOf": 3}),
    "a multiple with a fraction": (0.3, {"type": "number", "multipleOf": 0.1}),
    "the largest 32-bit integer": (2**31 - 1, {"type": "integer", "format": "int32"}),
    "a 32-bit float": (3.4e38, {"type": "number", "format": "float"}),
    "the longest list": ([1, 2], {"type": "array", "maxItems": 2, "minItems": 2}),
    "unique items of different types": ([1, 1.0, True, "1"], {"type": "array", "uniqueItems": True}),
    "fields that nothing is said about": ({"b": 1}, {"type": "object"}),
    "anyOf: the second": (1, {"anyOf": [STRING, INTEGER]}),
    "oneOf: the second": (1, {"oneOf": [STRING, INTEGER]}),
    "allOf": (4, {"allOf": [{"minimum": 3}, {"maximum": 5}]}),
    "not": (1, {"not": {"minimum": 3}}),
}
WRONG: dict[str, tuple[Any, Schema, list[str]]] = {
    "a number for a string": (1, STRING, ['a: Invalid value: "integer": a in body must be of type string: "integer"']),
    "a boolean for an integer": (
        True,
        INTEGER,
        ['a: Invalid value: "boolean": a in body must be of type integer: "boolean"'],
    ),
    "a fraction for an integer": (
        1.5,
        INTEGER,
        [
            'a: Invalid value: "number": a in body must be of type integer: "number"',
            '<nil>: Invalid value: "": Checked value must be of type integer (default format) in a',
        ],
    ),
    "a float next to a whole one has the type, but not the range of an integer": (
        3.0000000001,
        INTEGER,
        ['<nil>: Invalid value: "": Checked value must be of type integer (default format) in a'],
    ),
    "a float beyond 53 bits for an integer": (
        1e17,
        INTEGER,
        ['a: Invalid value: "number": a in body must be of type integer: "number"'],
    ),
    "a list for an object": (
        [],
        {"type": "object"},
        ['a: Invalid value: "array": a in body must be of type object: "array"'],
    ),
    "null": (None, STRING, ['a: Invalid value: "null": a in body must be of type string: "null"']),
    "null for an integer or string": (
        None,
        INT_OR_STRING,
        ['a: Invalid value: "null": a in body must be of type integer,string: "null"'],
    ),
    "an object for an integer or string": (
        {},
        INT_OR_STRING,
        ['a: Invalid value: "object": a in body must be of type integer,string: "object"'],
    ),
    "a string for an integer with a format": (
        "1",
        {"type": "integer", "format": "int32"},
        ['a: Invalid value: "string": a in body must be of type integer: "string"'],
    ),
    "a boolean for a string with a format": (
        True,
        {"type": "string", "format": "date"},
        ['a: Invalid value: "": a in body must be of type date: ""'],
    ),
    "an integer for a format without type": (
        1,
        {"format": "date"},
        ['a: Invalid value: "int64": a in body must be of type date: "int64"'],
    ),
    "null in an enum": (
        None,
        {"nullable": True, "enum": [None, "a"]},
        ['a: Unsupported value: null: supported values: "null", "a"'],
    ),
    "another value than an enum's": (
        "c",
        {"enum": ["a", "b"]},
        ['a: Unsupported value: "c": supported values: "a", "b"'],
    ),
    "a boolean in an enum of numbers": (True, {"enum": [1]}, ['a: Unsupported value: true: supported values: "1"']),
    "too long": ("abc", {"type": "string", "maxLength": 2}, ["a: Too long: may not be more than 2 bytes"]),
    "too short": (
        "",
        {"type": "string", "minLength": 1},
        ['a: Invalid value: "": a in body should be at least 1 chars long'],
    ),
    "only the first problem of a string": (
        "",
        {"type": "string", "minLength": 1, "pattern": "x"},
        ['a: Invalid value: "": a in body should be at least 1 chars long'],
    ),
    "no match": ("x", {"type": "string", "pattern": "^y"}, ["a: Invalid value: \"x\": a in body should match '^y'"]),
    "another format": (
        "x",
        {"type": "string", "format": "date"},
        ['a: Invalid value: "x": a in body must be of type date: "x"'],
    ),
    "too small": (
        1,
        {"type": "integer", "minimum": 2},
        ["a: Invalid value: 1: a in body should be greater than or equal to 2"],
    ),
    "as small as is excluded": (
        2,
        {"type": "integer", "minimum": 2, "exclusiveMinimum": True},
        ["a: Invalid value: 2: a in body should be greater than 2"],
    ),
    "too large": (
        3,
        {"type": "integer", "maximum": 2},
        ["a: Invalid value: 3: a in body should be less than or equal to 2"],
    ),
    "as large as is excluded": (
        2,
        {"type": "integer", "maximum": 2, "exclusiveMaximum": True},
        ["a: Invalid value: 2: a in body should be less than 2"],
    ),
    "floats have bounds with exponents": (
        2e6 + 0.5,
        {"type": "number", "maximum": 1e6},
        ["a: Invalid value: 2.0000005e+06: a in body should be less than or equal to 1e+06"],
    ),
    "an integer against a bound without its fraction": (
        2,
        {"type": "number", "maximum": 1.5},
        ["a: Invalid value: 2: a in body should be less than or equal to 1"],
    ),
    "a bound that no integer has": (
        0,
        {"type": "integer", "minimum": 0.5},
        [
            '<nil>: Invalid value: "": Minimum boundary value must be of type integer (default format) in a',
            "a: Invalid value: 0: a in body should be greater than or equal to 0.5",
        ],
    ),
    "no multiple": (
        4,
        {"type": "integer", "multipleOf": 3},
        ["a: Invalid value: 4: a in body should be a multiple of 3"],
    ),
    "no multiple of a fraction": (
        0.35,
        {"type": "number", "multipleOf": 0.1},
        ["a: Invalid value: 0.35: a in body should be a multiple of 0.1"],
    ),
    "integers are no multiples of fractions": (
        3,
        {"type": "number", "multipleOf": 0.5},
        ["a: Invalid value: 0: factor MultipleOf declared for a must be positive: 0"],
    ),
    "beyond 32 bits": (
        2**31,
        {"type": "integer", "format": "int32"},
        ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in a'],
    ),
    "beyond a 32-bit float": (
        4e38,
        {"type": "number", "format": "float"},
        ['<nil>: Invalid value: "": Checked value must be of type number with format float in a'],
    ),
    "too few items": (
        [],
        {"type": "array", "minItems": 1},
        ["a: Invalid value: 0: a in body should have at least 1 items"],
    ),
    "too many items": ([1, 2], {"type": "array", "maxItems": 1}, ["a: Too many: 2: must have at most 1 item"]),
    "the same item twice": (
        [{}, {}],
        {"type": "array", "uniqueItems": True},
        ['a: Invalid value: "": a in body shouldn\'t contain duplicates'],
    ),
    "an item": (
        ["x"],
        {"type": "array", "items": INTEGER},
        ['a[0]: Invalid value: "string": a[0] in body must be of type integer: "string"'],
    ),
    "too few fields": (
        {},
        {"type": "object", "minProperties": 1},
        ["a: Invalid value: 0: a in body should have at least 1 properties"],
    ),
    "too many fields": (
        {"b": 1, "c": 1},
        {"type": "object", "maxProperties": 1},
        ["a: Too many: 2: must have at most 1 item"],
    ),
    "a field of a map": (
        {"b": "x"},
        {"type": "object", "additionalProperties": INTEGER},
        ['a.b: Invalid value: "string": a.b in body must be of type integer: "string"'],
    ),
    "a forbidden field": (
        {"b": 1},
        {"type": "object", "additionalProperties": False},
        ['a: Invalid value: "b": a.b in body is a forbidden property'],
    ),
    "a missing field": ({}, {"type": "object", "required": ["b"]}, ["a.b: Required value"]),
    "not": (4, {"not": {"minimum": 3}}, ['<nil>: Invalid value: "": "a" must not validate the schema (not)']),
    "one of allOf": (
        2,
        {"allOf": [{"minimum": 3}, {"maximum": 5}]},
        [
            "a: Invalid value: 2: a in body should be greater than or equal to 3",
            '<nil>: Invalid value: "": "a" must validate all the schemas (allOf)',
        ],
    ),
    "none of allOf": (
        2,
        {"allOf": [{"minimum": 3}]},
        [
            "a: Invalid value: 2: a in body should be greater than or equal to 3",
            '<nil>: Invalid value: "": "a" must validate all the schemas (allOf). None validated',
        ],
    ),
    "two of oneOf": (
        4,
        {"oneOf": [{"minimum": 3}, {"maximum": 5}]},
        ['<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
    ),
    "none of oneOf: the first is told": (
        4,
        {"oneOf": [{"minimum": 5}, {"minimum": 6}]},
        [
            '<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found none valid',
            "a: Invalid value: 4: a in body should be greater than or equal to 5",
        ],
    ),
    "none of anyOf: the closest is told": (
        {"b": 1, "c": {"d": 1}},
        {
            "anyOf": [
                {"properties": {"b": STRING}},
                {"properties": {"b": INTEGER, "c": {"properties": {"d": STRING}}}},
            ]
        },
        [
            '<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)',
            'a.c.d: Invalid value: "integer": a.c.d in body must be of type string: "integer"',
        ],
    ),
    "nulls count less than other values for what is closest": (
        {"b": 1, "c": None},
        {"anyOf": [{"properties": {"c": {}}, "required": ["x"]}, {"properties": {"b": {}}, "required": ["y"]}]},
        ['<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)', "a.y: Required value"],
    ),
}


@pytest.mark.parametrize(("value", "schema"), FINE.values(), ids=FINE.keys())
def test_nothing_is_wrong(value: Any, schema: Schema) -> None:
    assert problems(value, schema) == []


@pytest.mark.parametrize(("value", "schema", "expected"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_as_kubernetes_says_it(value: Any, schema: Schema, expected: list[str]) -> None:
    assert problems(value, schema) == expected


def test_the_whole_object_has_no_name() -> None:
    schema = {"type": "object", "minProperties": 1, "required": ["spec"]}
    assert [str(error) for error in validate({}, schema)] == [
        "<nil>: Invalid value: 0:  in body should have at least 1 properties",
        "spec: Required value",
    ]


def test_a_part_is_named_by_its_path() -> None:
    schema = {"type": "object", "minProperties": 1, "required": ["b"], "not": {}}
    assert [error.field for error in validate({}, schema, "status")] == ["status", "status", "status.b"]


def test_one_problem_is_told_once() -> None:
    assert len(problems(1, {"type": "string", "allOf": [{"enum": ["x"]}, {"enum": ["x"]}]})) == 3


KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": {}, "v": {"maximum": 1}}},
}
LISTED = {"type": "array", "items": {"properties": {"v": {"maximum": 1}}}}
KEPT: dict[str, tuple[Any, Any, Schema]] = {
    "a value that was wrong before": (5, 5, {"maximum": 1}),
    "a field beside one that changed": (
        {"b": 5, "c": 1},
        {"b": 5, "c": 2},
        {"properties": {"b": {"maximum": 1}, "c": {}}},
    ),
    "a field of a map": ({"b": 5, "c": 1}, {"b": 5, "c": 0}, {"additionalProperties": {"maximum": 1}}),
    "an item under keys, wherever it stands": ([{"k": "x", "v": 5}], [{"k": "y", "v": 1}, {"k": "x", "v": 5}], KEYED),
    "a whole list that did not change": ([{"v": 5}], [{"v": 5}], LISTED),
    "a field inside an alternative": (
        {"b": 5, "c": 1},
        {"b": 5, "c": 2},
        {"properties": {"b": {}, "c": {}}, "anyOf": [{"properties": {"b": {"maximum": 1}}}]},
    ),
    "an item under keys inside an alternative": (
        [{"k": "x", "v": 5}],
        [{"k": "x", "v": 5}, {"k": "y"}],
        {**KEYED, "allOf": [{"items": {"properties": {"v": {"maximum": 2}}}}]},
    ),
}
NOT_KEPT: dict[str, tuple[Any, Any, Schema]] = {
    "a value that changed": (5, 6, {"maximum": 1}),
    "a value of another type": (True, 1, {"type": "string"}),
    "a float that was an integer": (5, 5.0, {"maximum": 1}),
    "an item of a list without keys": ([{"v": 5}], [{"v": 5}, {"v": 1}], LISTED),
    "an item without its key": ([{"v": 5}], [{"v": 5}, {"k": "y"}], KEYED),
    "an item that was not the first with its key": (
        [{"k": "x", "v": 1}, {"k": "x", "v": 5}],
        [{"k": "x", "v": 5}],
        KEYED,
    ),
    "a new field": ({}, {"b": 5}, {"properties": {"b": {"maximum": 1}}}),
    "an alternative as a whole": (
        {"b": 5, "c": 1},
        {"b": 5, "c": 2},
        {"properties": {"b": {}, "c": {}}, "anyOf": [{"required": ["d"]}]},
    ),
    "what must not be": (
        {"b": 5, "c": 1},
        {"b": 5, "c": 2},
        {"properties": {"b": {}, "c": {}}, "not": {"properties": {"b": {"maximum": 1}}}},
    ),
}


@pytest.mark.parametrize(("old", "new", "schema"), KEPT.values(), ids=KEPT.keys())
def test_what_was_wrong_may_stay(old: Any, new: Any, schema: Schema) -> None:
    assert problems(new, schema) or "not" in schema
    assert problems_of_change(old, new, schema) == []


@pytest.mark.parametrize(("old", "new", "schema"), NOT_KEPT.values(), ids=NOT_KEPT.keys())
def test_what_changed_has_to_be_right(old: Any, new: Any, schema: Schema) -> None:
    assert problems_of_change(old, new, schema)


def test_what_an_object_says_it_is_has_no_past() -> None:
    schema = {"type": "object", "properties": {"kind": {"enum": ["A"]}, "spec": {}}}
    old, new = {"kind": "B", "spec": 1}, {"kind": "B", "spec": 2}
    assert [error.field for error in validate(new, schema, before=Before(old, new, schema))] == ["kind"]
