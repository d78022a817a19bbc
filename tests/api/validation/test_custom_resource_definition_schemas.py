"""Schemas of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.validation.definitions import Tree, field_problems, schema_problems

STRING = {"type": "string"}
RULE = ".x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, [".type: Required value: must not be empty for specified object fields"]),
        ({"type": "array"}, [".items: Required value: must be specified"]),
        ({"type": "array", "items": {}}, [".items.type: Required value: must not be empty for specified array items"]),
        ({"x-kubernetes-preserve-unknown-fields": True}, []),
        ({"x-kubernetes-int-or-string": True}, []),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, STRING]}, []),
        (
            {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, STRING]}, {"minLength": 1}]},
            [],
        ),
        (
            {"type": "string", "allOf": [{"anyOf": [STRING]}]},
            [".allOf[0].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            [
                ".x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true"
            ],
        ),
        (
            {"type": "string", "not": {"nullable": True, "title": "t"}},
            [
                ".not.nullable: Forbidden: must be false to be structural",
                ".not.title: Forbidden: must be empty to be structural",
            ],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [".properties: Required value: must not be empty if x-kub"],
        ),
        (
            {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            [".type: Required value: must be obj"],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"kind": {"type": "integer"}}},
            ['.properties[kind].type: Invalid value: "integer": must be string'],
        ),
        (
            {"type": "string", "pattern": "("},
            [
                '.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: missing closing ): `(`'
            ],
        ),
        (
            {
                "type": "object",
                "allOf": [{"properties": {"metadata": {}}}],
                "properties": {"metadata": {"type": "object"}},
            },
            [".allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"],
        ),
    ],
)
def test_schemas_are_structural(schema: Tree, expected: list[str]) -> None:
    found = field_problems(schema)
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))


def test_what_alternatives_at_the_root_are_about_is_declared() -> None:
    def because(place: str) -> str:
        return f"Required value: because it is defined in spec.validation.openAPIV3Schema{place}"

    about = {"oneOf": [{"properties": {"x": {"minimum": 1}}}]}
    assert schema_problems({"type": "object", **about}) == [f".properties[x]: {because('.oneOf[0].properties[x]')}"]
    assert schema_problems({"type": "object", "properties": {"x": {"type": "integer"}}, **about}) == []
    items = {"allOf": [{"properties": {"x": {"items": {"items": {"pattern": "a"}}}}}]}
    declared = {"type": "object", "properties": {"x": {"type": "array", "items": STRING}}}
    assert schema_problems({**declared, **items}) == [
        f".properties[x].items.items: {because('.allOf[0].properties[x].items.items')}"
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid or unsupported Perl syntax: `(?<!`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_malformed_patterns_are_told_as_go_does(pattern: str, expected: str) -> None:
    [found] = field_problems({"type": "string", "pattern": pattern})
    assert found.endswith(f"error parsing regexp: {expected}")


@pytest.mark.parametrize(
    "pattern", ["^[]a]+$", "^a{1,3}?(?:b|c)*$", r"^(?P<x>\d+)[\w-]$", r"\Q*\E", "", "a{,3}", "(?i)x"]
)
def test_well_formed_patterns(pattern: str) -> None:
    assert field_problems({"type": "string", "pattern": pattern}) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "$ref": "x"}, ["$ref: Forbidden: $ref is not supported"]),
        ({"type": "object", "id": "x"}, ["id: Forbidden: id is not supported"]),
        ({"type": "object", "$schema": "x"}, [": Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"]),
        (
            {"type": "object", "additionalProperties": True},
            ["additionalProperties: Forbidden: must not be used at the root"],
        ),
        ({"type": "object", "nullable": True}, ["nullable: Forbidden: nullable cannot be true at the root"]),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "description": "d"}}},
            ["properties[metadata]: Forbidden: must not specify anything other than name"],
        ),
        ({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": STRING}}}}, []),
        (
            {
                "type": "object",
                "properties": {
                    "metadata": {"type": "object", "properties": {"name": STRING, "labels": {"type": "object"}}}
                },
            },
            ["properties[metadata]: Forbidden: must not specify"],
        ),
        (
            {"type": "object", "properties": {"kind": {"type": "string", "default": "X"}}},
            ["properties[kind].default: Forbidden: must not be set in top-level kind"],
        ),
    ],
)
def test_roots(schema: Tree, expected: list[str]) -> None:
    found = [one.removeprefix(".") for one in schema_problems(schema)]
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))


def test_with_a_status_of_its_own_little_may_stand_at_the_root() -> None:
    status: Tree = {"subresources": {"status": {}}}
    assert schema_problems({"type": "object", "description": "d", "required": ["spec"]}, **status) == []
    [found] = schema_problems({"type": "object", "minProperties": 1}, **status)
    assert found.startswith(
        ': Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,'
    )
    tail = (
        '"XPreserveUnknownFields":null,"XEmbeddedResource":false,"XIntOrString":false,"XListMapKeys":null,"XListType":null,"XMapType":null,'
        '"XValidations":null}: only ['
    )
    assert tail in found
    assert found.endswith(
        ": only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems"
        " MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are"
        " allowed at the root of the schema if the status subresource is enabled"
    )
    wrong = schema_problems({"type": "array", "items": STRING}, **status)
    assert wrong[0].startswith('.type: Invalid value: "array": only "object" is allowed as the type at the root')


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "properties": {"x": STRING}, "additionalProperties": False},
            [".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        ({"type": "object", "additionalProperties": STRING}, []),
        (
            {"type": "null"},
            ['.type: Unsupported value: "null"', ".type: Forbidden: type cannot be set to null, use nullable"],
        ),
        ({"type": "array", "items": [STRING]}, [".items: Forbidden: items must be a schema object and not an array"]),
        ({"type": "string", "uniqueItems": True}, [".uniqueItems: Forbidden"]),
        (
            {"type": "string", "x-kubernetes-map-type": "atomic"},
            ['.type: Invalid value: "string": must be object if x-kubernetes-map-type'],
        ),
        (
            {"type": "object", "x-kubernetes-map-type": "loose"},
            ['.x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular"'],
        ),
        (
            {"type": "string", "x-kubernetes-list-type": "atomic"},
            ['.type: Invalid value: "string": must be array if x-kubernetes-list-type'],
        ),
        (
            {"type": "array", "items": STRING, "x-kubernetes-list-map-keys": ["k"]},
            [".x-kubernetes-list-type: Required value: must be map"],
        ),
        (
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            ['.items.type: Invalid value: "string": must be object if parent'],
        ),
        (
            {
                "type": "array",
                "items": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
                "x-kubernetes-list-type": "set",
            },
            ['.items.x-kubernetes-list-type: Invalid value: "set": must be atomic'],
        ),
        (
            {"type": "array", "items": {**STRING, "nullable": True}, "x-kubernetes-list-type": "set"},
            [".items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"],
        ),
    ],
)
def test_what_openapi_and_its_extensions_allow(schema: Tree, expected: list[str]) -> None:
    found = field_problems(schema)
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))


def keyed(key: Tree, keys: tuple[str, ...] = ("k",), **items: Any) -> Tree:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": {"type": "object", "properties": {"k": key}, **items},
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (keyed(STRING, required=["k"]), []),
        (keyed({**STRING, "default": "x"}), []),
        (
            keyed(STRING),
            [".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys"],
        ),
        (keyed({**STRING, "nullable": True}, required=["k"]), [".items.properties[k].nullable: Forbidden"]),
        (
            keyed({"type": "object"}, required=["k"]),
            ['.items.properties[k].type: Invalid value: "object": must be a scalar type'],
        ),
        (
            keyed(STRING, ("k", "k"), required=["k"]),
            ['.x-kubernetes-list-map-keys: Invalid value: ["k","k"]: must not contain dup'],
        ),
        (
            keyed(STRING, ("z",)),
            ['.x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of item properties'],
        ),
    ],
)
def test_keys_of_lists(schema: Tree, expected: list[str]) -> None:
    found = field_problems(schema)
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))


EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"x-kubernetes-int-or-string": True, "default": True}, []),
        ({"type": "integer", "default": 1 << 64}, ['.default: Invalid value: "number"', '.default: Invalid value: ""']),
        ({"type": "string", "default": 1}, ['.default: Invalid value: "integer"']),
        ({"type": "integer", "default": 1, "minimum": 2}, [".default: Invalid value: 1"]),
        ({"type": "object", "default": {"x": 1}}, ['.default: Invalid value: {"x":1}: must not have unknown fields']),
        ({"type": "object", "default": {"x": 1}, "x-kubernetes-preserve-unknown-fields": True}, []),
        (
            {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string", "default": 2}}}},
            ['.items.properties[b].default: Invalid value: "integer"'],
        ),
        ({**EMBEDDED, "default": {"kind": "K"}}, [".default.apiVersion: Required value"]),
        ({**EMBEDDED, "default": {"kind": 1}}, [".default.kind: Invalid value: 1: must be a string"]),
        ({**EMBEDDED, "default": {"kind": "K", "apiVersion": "v1", "metadata": {"name": "n"}}}, []),
        (
            {
                **EMBEDDED,
                "properties": {
                    "metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "%"}}}
                },
            },
            [
                (
                    '.properties[metadata].properties[name].default: Invalid value: "%": must result in valid metadata:'
                    " metadata.name: Invalid value: \"%\": may not contain '%'"
                )
            ],
        ),
        ({**EMBEDDED, "properties": {"kind": {"type": "string", "default": "K"}}}, []),
        (
            {
                **EMBEDDED,
                "properties": {
                    "metadata": {"type": "object", "additionalProperties": {"type": "string", "default": "K"}}
                },
            },
            [
                ".properties[metadata].additionalProperties.default: Forbidden: must not be set inside additionalProperties applying to object metadata"
            ],
        ),
        (
            {**EMBEDDED, "properties": {"metadata": EMBEDDED}},
            [
                ".properties[metadata].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta"
            ],
        ),
    ],
)
def test_defaults_are_values_of_their_schema(schema: Tree, expected: list[str]) -> None:
    found = field_problems(schema)
    assert len(found) == len(expected), found
    assert all(map(str.startswith, found, expected)), found


def ruled(rule: Tree, **schema: object) -> Tree:
    return {"type": "object", "properties": {"x": {"type": "integer"}}, **schema, "x-kubernetes-validations": [rule]}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"rule": " "}, [".rule: Required value: rule is not specified"]),
        ({"rule": "true", "message": " "}, ['.message: Invalid value: " ": must be non-empty if specified']),
        ({"rule": "true", "message": "a\nb"}, ['.message: Invalid value: "a\\nb": must not contain line breaks']),
        (
            {"rule": "true\n&& true"},
            [".message: Required value: message must be specified if rule contains line breaks"],
        ),
        ({"rule": "true\n&& true", "message": "m"}, []),
        (
            {"rule": "true", "messageExpression": " "},
            [".messageExpression: Required value: messageExpression must be non-empty"],
        ),
        ({"rule": "true", "reason": "FieldValueRequired", "fieldPath": ".x"}, []),
        ({"rule": "true", "fieldPath": ".y"}, ['.fieldPath: Invalid value: ".y": must be a valid path']),
        ({"rule": "true", "fieldPath": "x"}, ['.fieldPath: Invalid value: "x": must be a valid path']),
        ({"rule": "true", "fieldPath": "['x']"}, []),
        ({"rule": "self.x > 1"}, []),
        (
            {"rule": "self.x"},
            [
                (
                    '.rule: Invalid value: {"Rule":"self.x","Message":"","MessageExpression":"","Reason":null,"FieldPath":"",'
                    '"OptionalOldSelf":null}: cel expression must evaluate to a bool'
                )
            ],
        ),
        ({"rule": "self.x > oldSelf.x"}, []),
        ({"rule": "duration('x') == duration('1s')"}, ['.rule: Invalid value: {"Rule":"duration']),
        ({"rule": "self.y"}, ['.rule: Invalid value: {"Rule":"self.y"']),
        ({"rule": "true", "messageExpression": "self.x"}, ['.messageExpression: Invalid value: {"Rule":"true"']),
        (
            {"rule": "true", "optionalOldSelf": True},
            [".optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
        ),
        ({"rule": "oldSelf.hasValue() || self.x > 1", "optionalOldSelf": True}, []),
        ({"rule": "oldSelf.hasValue() || self.x > 1"}, ['.rule: Invalid value: {"Rule":"oldSelf.hasValue()']),
    ],
)
def test_rules(rule: Tree, expected: list[str]) -> None:
    found = [one.removeprefix(RULE) for one in field_problems(ruled(rule))]
    assert len(found) == len(expected), found
    assert all(map(str.startswith, found, expected)), found


def test_rules_are_not_compiled_while_their_schema_is_wrong() -> None:
    assert field_problems(ruled({"rule": "self.zzz"}, uniqueItems=True)) == [
        ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
    ]


def test_rules_see_names_of_whole_objects_whatever_their_schema_says() -> None:
    root = {"type": "object", "properties": {"metadata": {"type": "object"}}}
    rule = {"rule": "self.metadata.name.startsWith('a') && self.kind == 'A'"}
    assert schema_problems({**root, "x-kubernetes-validations": [rule]}) == []
    assert field_problems({**EMBEDDED, "x-kubernetes-validations": [rule]}) == []
    inside = {"type": "object", "properties": {"e": EMBEDDED}}
    assert field_problems({**inside, "x-kubernetes-validations": [{"rule": "self.e.metadata.name == 'a'"}]}) == []
    assert len(field_problems(ruled(rule))) == 1


def test_rules_inside_of_lists_have_an_old_value_only_if_items_have_keys() -> None:
    rule: Tree = {"x-kubernetes-validations": [{"rule": "self.k == oldSelf.k"}]}
    assert field_problems(keyed({**STRING, "maxLength": 5}, required=["k"], **rule) | {"maxItems": 5}) == []
    item = {"type": "object", "properties": {"k": {**STRING, "maxLength": 5}}, **rule}
    path = "spec.validation.openAPIV3Schema.properties[a]"
    assert field_problems({"type": "array", "items": item, "maxItems": 5}) == [
        f'.items{RULE}.rule: Invalid value: "self.k == oldSelf.k": oldSelf cannot be used on the uncorrelatable portion of the schema within {path}'
    ]


def test_rules_about_what_has_no_type_are_refused() -> None:
    [found] = field_problems(
        {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}]}
    )
    assert found.startswith(
        ".x-kubernetes-validations: Internal error: internal error: failed to construct type information"
    )


def test_rules_may_not_stand_under_alternatives() -> None:
    found = field_problems({"type": "string", "anyOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]})
    assert found == [".anyOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural"]
