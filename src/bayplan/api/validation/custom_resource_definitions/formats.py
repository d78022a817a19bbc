"""Formats in schemas that no value is checked against. Source: `apiextensions-apiserver/pkg/apiserver/validation/formats.go`."""

from __future__ import annotations

from bayplan.api.custom_resources import formats
from bayplan.api.schema import Schema
from bayplan.api.types import apiextensions_v1 as types
from bayplan.api.validation.custom_resource_definitions.form import form_of, within


def unknown_formats(spec: types.CustomResourceDefinitionSpec) -> list[str]:
    """The formats that nobody knows, in the order in which they are found."""
    return [one["format"] for schema in form_of(spec).schemas() for one in within(schema) if _is_unknown(one)]


def _is_unknown(schema: Schema) -> bool:
    name, kind = schema.get("format", ""), schema.get("type", "")
    if not name:
        return False
    return not formats.is_known(name) if kind in ("", "string") else name not in formats.OF_NUMBERS.get(kind, ())
