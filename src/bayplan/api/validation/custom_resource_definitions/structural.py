"""Structural schemas: every field has a type outside of `allOf`, `anyOf`, `oneOf` and `not`, which only say more about values.

Source: `apiextensions-apiserver/pkg/apiserver/schema` (convert.go, validation.go, complete.go).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any

from bayplan.api.custom_resources import patterns
from bayplan.api.custom_resources.pruning import EMBEDDED, PRESERVE, RULES
from bayplan.api.errors import FieldError, forbidden, invalid, required
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.form import NOTHING
from bayplan.api.validation.custom_resource_definitions.patterns import pattern_problem

INT_OR_STRING = "x-kubernetes-int-or-string"
_UNSUPPORTED = {
    "id": "id",
    "$schema": "schema",
    "$ref": "$ref",
    "patternProperties": "patternProperties",
    "dependencies": "dependencies",
    "additionalItems": "additionalItems",
    "definitions": "definitions",
}
"""Fields of which a structural schema has none, and their names in messages."""
_NUMBER_OR_TEXT = [{"type": "integer"}, {"type": "string"}]
_ONLY_STRUCTURE = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVE: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    RULES: "must be empty to be structural",
}
"""Fields that may not stand inside `allOf`, `anyOf`, `oneOf` and `not`."""
_NAMES = frozenset(("name", "generateName"))
_ALTERNATIVES = frozenset(("not", "allOf", "anyOf", "oneOf"))
_OF_CONVERSION = _ALTERNATIVES | _UNSUPPORTED.keys() | {PRESERVE, "items", "properties", "additionalProperties"}
_OF_NESTED = _ALTERNATIVES | _ONLY_STRUCTURE.keys() | {"items", "properties", "pattern"}
"""Fields without which a schema needs no further look: most schemas of very large definitions are that small."""


class _Level(enum.Enum):
    """Where a schema stands: what is said of it if it has no type."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def conversion_problem(schema: Schema) -> str:
    """Why a schema cannot be brought into structural form at all, empty if it can."""
    return next(_conversion_problems(schema), "")


def _conversion_problems(schema: Schema) -> Iterator[str]:
    if schema.keys().isdisjoint(_OF_CONVERSION):
        return
    for name, shown in _UNSUPPORTED.items():
        if name in schema and (schema[name] or name == "additionalItems"):
            yield f"OpenAPIV3Schema '{shown}' is not supported"
    for _, one in _alternatives(schema, ("not", "allOf", "anyOf", "oneOf")):
        yield from _conversion_problems(one)
    if schema.get(PRESERVE) is False:
        yield f"internal error: '{PRESERVE}' must be true or undefined"
    items = schema.get("items")
    if isinstance(items, list):
        yield "OpenAPIV3Schema 'items' must be a schema, but is an array"
    elif items is not None:
        yield from _conversion_problems(items)
    for one in schema.get("properties", NOTHING).values():
        yield from _conversion_problems(one)
    if (additional := _additional(schema)) is not None:
        yield from _conversion_problems(additional)


def _alternatives(schema: Schema, names: Iterable[str]) -> Iterator[tuple[str, Schema]]:
    """Schemas that say more about the same value, each with its path."""
    if schema.keys().isdisjoint(_ALTERNATIVES):
        return
    for name in names:
        found = schema.get(name)
        if isinstance(found, dict):
            yield f".{name}", found
        else:
            yield from ((f".{name}[{index}]", one) for index, one in enumerate(found or ()))


def _additional(schema: Schema) -> Schema | None:
    """The schema of fields that are not declared."""
    found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def structural_errors(schema: Schema, path: str) -> list[FieldError]:
    """What keeps a schema that could be converted from being structural, in order of the texts."""
    found = [*_invariants(schema, _Level.ROOT, path), *_incomplete(schema, schema, path, path)]
    return sorted(found, key=str)


def is_structural(schema: Schema) -> bool:
    """Whether nothing keeps it from that."""
    return not conversion_problem(schema) and not structural_errors(schema, "")


def _invariants(schema: Schema, level: _Level, path: str) -> Iterator[FieldError]:
    if "items" in schema:
        yield from _invariants(schema["items"], _Level.ITEM, f"{path}.items")
    elif schema.get("type") == "array":
        yield required(f"{path}.items", "must be specified")
    for name, one in schema.get("properties", NOTHING).items():
        yield from _invariants(one, _Level.FIELD, f"{path}.properties[{name}]")
    if level is _Level.ROOT and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if (additional := _additional(schema)) is not None:
        yield from _invariants(additional, _Level.FIELD, f"{path}.additionalProperties")
    if schema.get(INT_OR_STRING):
        for name in (PRESERVE, EMBEDDED):
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, f"must be false if {INT_OR_STRING} is true")
    yield from _value_errors(schema, path, may_be_number_or_text=True)
    yield from _type_errors(schema, level, path)
    yield from _object_errors(schema, level, path)


def _type_errors(schema: Schema, level: _Level, path: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if schema.get(EMBEDDED) and kind != "object":
        text = f"must be object if {EMBEDDED} is true"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(f"{path}.type", level.value)
    if schema.get(EMBEDDED) and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
    if level is _Level.ROOT and kind not in ("", "object"):
        yield invalid(f"{path}.type", kind, "must be object at the root")


def _object_errors(schema: Schema, level: _Level, path: str) -> Iterator[FieldError]:
    """What holds for kind, apiVersion and metadata of whole objects."""
    properties = schema.get("properties", NOTHING)
    is_object = level is _Level.ROOT or bool(schema.get(EMBEDDED))
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if is_object and name in properties and properties[name].get("type", "") != wanted:
            where = f"{path}.properties[{name}].type"
            yield invalid(where, properties[name].get("type", ""), f"must be {wanted}")
    if level is _Level.ROOT and "metadata" in properties and not _says_only_names(properties["metadata"]):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(f"{path}.properties[metadata]", text)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not properties:
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield required(f"{path}.properties", text)


def _says_only_names(metadata: Schema) -> bool:
    return metadata.keys() <= {"type", "default", "properties"} and metadata.get("properties", NOTHING).keys() <= _NAMES


def _value_errors(schema: Schema, path: str, *, may_be_number_or_text: bool) -> Iterator[FieldError]:
    """What is wrong with what a schema says about values.

    may_be_number_or_text: whether `anyOf` here, or in the first `allOf`, may say that the value is an integer or a string.
    """
    for where, one in _alternatives(schema, ("anyOf", "allOf", "oneOf", "not")):
        inner = one
        if may_be_number_or_text:
            if where.startswith(".anyOf[") and schema["anyOf"] == _NUMBER_OR_TEXT:
                continue
            if where == ".allOf[0]" and one.get("anyOf") == _NUMBER_OR_TEXT:
                inner = {key: value for key, value in one.items() if key != "anyOf"}
        yield from _nested_errors(inner, path + where)
    pattern = schema.get("pattern", "")
    if pattern and not patterns.is_well_formed(pattern):
        text = f"must be a valid regular expression, but isn't: {pattern_problem(pattern)}"
        yield invalid(f"{path}.pattern", pattern, text)


def _nested_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """What is wrong with a schema inside `allOf`, `anyOf`, `oneOf` or `not`."""
    if schema.keys().isdisjoint(_OF_NESTED):
        return
    yield from _value_errors(schema, path, may_be_number_or_text=False)
    if "items" in schema:
        yield from _nested_errors(schema["items"], f"{path}.items")
    for name, one in schema.get("properties", NOTHING).items():
        yield from _nested_errors(one, f"{path}.properties[{name}]")
    for name, text in _ONLY_STRUCTURE.items():
        if _is_given(schema.get(name)):
            yield forbidden(f"{path}.{name}", text)
    if "metadata" in schema.get("properties", NOTHING):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _is_given(value: Any) -> bool:
    return value is not None and value is not False


def _incomplete(schema: Schema, structure: Schema, structure_path: str, path: str) -> Iterator[FieldError]:
    """Fields and items about which `allOf`, `anyOf`, `oneOf` and `not` say something, but which have no schema of their own."""
    for where, one in _alternatives(schema, ("not", "allOf", "anyOf", "oneOf")):
        yield from _nested_incomplete(one, structure, structure_path, path + where)


def _nested_incomplete(
    schema: Schema, structure: Schema | None, structure_path: str, path: str
) -> Iterator[FieldError]:
    if structure is None:
        yield required(structure_path, f"because it is defined in {path}")
        return
    yield from _incomplete(schema, structure, structure_path, path)
    if "items" in schema:
        items = structure.get("items")
        yield from _nested_incomplete(schema["items"], items, f"{structure_path}.items", f"{path}.items")
    for name, one in schema.get("properties", NOTHING).items():
        declared = structure.get("properties", NOTHING).get(name)
        where = f".properties[{name}]"
        yield from _nested_incomplete(one, declared, structure_path + where, path + where)
