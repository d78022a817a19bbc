"""Types of OpenAPI schemas."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import schema
from bayplan.api.cel.schema_types import SchemaTypes, escaped


def fields(properties: dict[str, Any], **definitions: Any) -> dict[str, str]:
    """The fields of an object with these properties, besides those that every object has."""
    made = SchemaTypes(lambda name: definitions[name])
    made.root({"type": "object", "properties": properties}, "Thing")
    return {
        name: str(one) for name, one in made.structs["Thing"].items() if name not in ("kind", "apiVersion", "metadata")
    }


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "byte"}, "bytes"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "duration"}, "duration"),
        ({"type": "integer", "format": "int32"}, "int"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "bool"),
        ({"type": "array", "items": {"type": "integer"}}, "list(int)"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map(string, string)"),
        ({"type": "object", "additionalProperties": True}, "Thing.x"),
        ({"type": "object"}, "Thing.x"),
        ({"type": "array", "items": {"type": "object"}}, "list(Thing.x.@idx)"),
        ({"type": "object", "additionalProperties": {"type": "object"}}, "map(string, Thing.x.@elem)"),
        ({"x-kubernetes-int-or-string": True}, "dyn"),
        ({"$ref": "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}, "dyn"),
    ],
)
def test_types_of_fields(one: dict[str, Any], expected: str) -> None:
    assert fields({"x": one}) == {"x": expected}


@pytest.mark.parametrize(
    "one",
    [
        {},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}]}},
    ],
)
def test_what_has_no_type_is_not_shown(one: dict[str, Any]) -> None:
    assert fields({"x": one}) == {}


def test_a_definition_inside_itself_is_an_object_without_fields() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "Node"}, "name": {"type": "string"}}}
    made = SchemaTypes({"Node": node}.__getitem__)
    made.root({"$ref": "Node"}, "Node0")
    assert made.structs["Node0.next"] == {}


def test_two_fields_of_one_definition_are_types_of_their_own() -> None:
    assert fields({"a": {"$ref": "Part"}, "b": {"$ref": "Part"}}, Part={"type": "object"}) == {
        "a": "Thing.a",
        "b": "Thing.b",
    }


def test_every_object_has_kind_and_names_if_the_schema_says_nothing() -> None:
    made = SchemaTypes(dict[str, Any]().__getitem__)
    made.root({"type": "object"}, "Thing")
    assert set(made.structs["Thing"]) == {"kind", "apiVersion", "metadata"}
    assert set(made.structs["Thing.metadata"]) == {"name", "generateName"}


def test_a_schema_without_type_has_none_even_at_the_root() -> None:
    assert SchemaTypes(dict[str, Any]().__getitem__).root({}, "Thing") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("replicas", "replicas"),
        ("namespace", "__namespace__"),
        ("x-kubernetes-list", "x__dash__kubernetes__dash__list"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("$ref", None),
        ("1st", None),
        ("", None),
    ],
)
def test_how_fields_are_written(name: str, expected: str | None) -> None:
    assert escaped(name) == expected


def test_fields_of_a_deployment() -> None:
    made = SchemaTypes(schema.definitions().__getitem__)
    made.root({"$ref": "io.k8s.api.apps.v1.Deployment"}, "Deployment0")
    structs = made.structs
    assert str(structs["Deployment0.spec"]["replicas"]) == "int"
    assert str(structs["Deployment0.metadata"]["creationTimestamp"]) == "timestamp"
    assert str(structs["Deployment0.metadata"]["__namespace__"]) == "string"
    container = structs["Deployment0.spec.template.spec.containers.@idx"]
    assert str(container["image"]) == "string"
    assert "limits" not in structs[container["resources"].name]
