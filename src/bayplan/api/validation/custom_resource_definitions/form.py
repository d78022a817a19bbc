"""Definitions as Kubernetes looks at them: what all versions have in common stands once, above the versions.

A schema that every version has is checked once and named `spec.validation`; only schemas that differ are named `spec.versions[0].schema`, and so it is with
subresources, columns and selectable fields. Source: the conversion of `apiextensions-apiserver/pkg/apis/apiextensions/v1` to its internal version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bayplan.api.codec import to_tree
from bayplan.api.schema import Schema
from bayplan.api.types import apiextensions_v1 as types

ESTABLISHED = "Established"
NOTHING: Schema = {}


@dataclass(frozen=True, slots=True)
class Part:
    """What stands either above the versions or in each of them."""

    has_validation: bool = False
    schema: Schema | None = None
    """The schema as a plain tree."""
    subresources: types.CustomResourceSubresources | None = None
    columns: tuple[types.CustomResourceColumnDefinition, ...] = ()
    selectable: tuple[types.SelectableField, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """A spec in this form."""

    spec: types.CustomResourceDefinitionSpec
    top: Part
    """What all versions have in common."""
    versions: tuple[Part, ...]
    """What each version has for itself, in the order of the spec."""

    def schemas(self) -> Iterator[Schema]:
        """Every schema, each once."""
        for part in (self.top, *self.versions):
            if part.schema is not None:
                yield part.schema

    def subresources_of(self, name: str) -> types.CustomResourceSubresources | None:
        """The subresources of the first version of a name."""
        if all(part.subresources is None for part in self.versions):
            return self.top.subresources
        return next(
            part.subresources for one, part in zip(self.spec.versions, self.versions, strict=True) if one.name == name
        )


class _Common(NamedTuple):
    """Which fields all versions have in common."""

    validation: bool
    subresources: bool
    columns: bool
    selectable: bool


def form_of(spec: types.CustomResourceDefinitionSpec) -> Form:
    """A spec in the form in which it is checked."""
    if not spec.versions:
        return Form(spec, Part(), ())
    first, *others = spec.versions
    common = _Common(
        all(one.schema == first.schema for one in others),
        all(one.subresources == first.subresources for one in others),
        all(one.additional_printer_columns == first.additional_printer_columns for one in others),
        all(one.selectable_fields == first.selectable_fields for one in others),
    )
    above = _part(first, common)
    rest = _Common(*(not one for one in common))
    return Form(spec, above, tuple(_part(one, rest) for one in spec.versions))


def _part(version: types.CustomResourceDefinitionVersion, wanted: _Common) -> Part:
    validation = version.schema if wanted.validation else None
    return Part(
        validation is not None,
        None if validation is None else tree_of(validation),
        version.subresources if wanted.subresources else None,
        version.additional_printer_columns if wanted.columns else (),
        version.selectable_fields if wanted.selectable else (),
    )


def tree_of(validation: types.CustomResourceValidation) -> Schema | None:
    """A schema as a plain tree; what is not set is not in it."""
    if validation.open_apiv3_schema is None:
        return None
    tree: Schema = to_tree(validation.open_apiv3_schema)
    return tree


def within(schema: Schema) -> Iterator[Schema]:
    """A schema and all schemas inside it."""
    yield schema
    for one in _inner(schema):
        yield from within(one)


_WITH_SCHEMAS: Final = frozenset(
    (
        "items",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "properties",
        "additionalProperties",
        "patternProperties",
        "additionalItems",
        "definitions",
        "dependencies",
    )
)


def has_inner(schema: Schema) -> bool:
    """Whether a schema has a field in which other schemas may stand."""
    return not schema.keys().isdisjoint(_WITH_SCHEMAS)


def _inner(schema: Schema) -> Iterator[Schema]:
    if not has_inner(schema):
        return
    items = schema.get("items")
    yield from items if isinstance(items, list) else _schemas(items)
    for name in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(name, ())
    yield from _schemas(schema.get("not"))
    yield from schema.get("properties", NOTHING).values()
    yield from _schemas(schema.get("additionalProperties"))
    yield from schema.get("patternProperties", NOTHING).values()
    yield from _schemas(schema.get("additionalItems"))
    yield from schema.get("definitions", NOTHING).values()
    for one in schema.get("dependencies", NOTHING).values():
        yield from _schemas(one)


def _schemas(value: Any) -> Iterator[Schema]:
    """A schema where a schema may stand, nothing where anything else does."""
    if isinstance(value, dict):
        yield value


def is_established(definition: types.CustomResourceDefinition) -> bool:
    """Whether objects of the definition may be there."""
    return any(one.type == ESTABLISHED and one.status == "True" for one in definition.status.conditions)
