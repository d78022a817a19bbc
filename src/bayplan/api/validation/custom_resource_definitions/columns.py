"""Paths of versions: printer columns, replicas of the scale subresource, selectable fields.

Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`, and `ValidFieldPath` of `.../pkg/apiserver/schema/cel`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bayplan.api.errors import duplicate, invalid, required, too_many
from bayplan.api.schema import Schema
from bayplan.api.types import apiextensions_v1 as types
from bayplan.api.validation.custom_resource_definitions.form import NOTHING
from bayplan.api.validation.fields import Errors

MOST_SELECTABLE_FIELDS = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """A path leads to no field of a schema."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """Where a path leads."""

    text: str
    """The path as errors name fields: `spec.labels[a]`."""
    root: str
    """Its first name."""
    schema: Schema | None
    """The schema of the field; None if it has none."""


def field_path(text: str, schema: Schema, *, may_have_brackets: bool = True) -> FieldPath:
    """The field that a path such as `.spec.labels['a']` means in a structural schema. Raises FieldPathError."""
    words = iter(_TOKEN.findall(text))
    here: Schema | None = schema
    shown = root = ""
    for word in words:
        if word == "[":
            if not may_have_brackets:
                raise FieldPathError("array notation is not allowed")
            name = _quoted(_next(words))
        elif word == ".":
            name = _next(words)
        else:
            raise FieldPathError(f"expected [ or . but got: {word}")
        here, is_declared = _child(here or NOTHING, name)
        shown += (f".{name}" if shown else name) if is_declared else f"[{name}]"
        root = root or (name if is_declared else f"[{name}]")
        if word == "[" and (closing := _next(words)) != "]":
            raise FieldPathError(f"expected ] but got {closing}")
    return FieldPath(shown or "<nil>", root or "<nil>", here)


def _next(words: Iterator[str]) -> str:
    word = next(words, None)
    if word is None:
        raise FieldPathError("unexpected end of JSON path")
    return word


def _quoted(word: str) -> str:
    if len(word) < 2 or word[0] != "'" or word[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {word}")

    def meant(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPED:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPED[match[1]]

    return _ESCAPE.sub(meant, word[1:-1])


def _child(schema: Schema, name: str) -> tuple[Schema | None, bool]:
    """The schema of a field, and whether it is declared by its name."""
    properties = schema.get("properties")
    if properties:
        if name not in properties:
            raise FieldPathError("does not refer to a valid field")
        return properties[name], True
    if "additionalProperties" not in schema:
        raise FieldPathError("does not refer to a valid field")
    additional = schema["additionalProperties"]
    return additional if isinstance(additional, dict) else None, False


def _check_simple_path(errors: Errors, path: str, value: str) -> bool:
    """A path that begins with a dot; more is not asked of it. Returns whether it does."""
    if value.startswith("."):
        return True
    errors.append(invalid(path, value, "must be a simple json path starting with ."))
    return False


def check_columns(errors: Errors, path: str, columns: Sequence[types.CustomResourceColumnDefinition]) -> None:
    """`additionalPrinterColumns`."""
    for index, column in enumerate(columns):
        _check_column(errors, f"{path}.additionalPrinterColumns[{index}]", column)


def _check_column(errors: Errors, path: str, column: types.CustomResourceColumnDefinition) -> None:
    if not column.name:
        errors.append(required(f"{path}.name"))
    text = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.type:
        errors.append(required(f"{path}.type", text))
    elif column.type not in _COLUMN_TYPES:
        errors.append(invalid(f"{path}.type", column.type, text))
    if column.format and column.format not in _COLUMN_FORMATS:
        errors.append(invalid(f"{path}.format", column.format, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not column.json_path:
        errors.append(required(f"{path}.JSONPath"))
    else:
        _check_simple_path(errors, f"{path}.JSONPath", column.json_path)


def check_subresources(errors: Errors, path: str, given: types.CustomResourceSubresources | None) -> None:
    """`subresources`: where the replicas are."""
    if given is None or given.scale is None:
        return
    where, scale = f"{path}.subresources.scale", given.scale
    for field, value, part in (
        ("specReplicasPath", scale.spec_replicas_path, ".spec"),
        ("statusReplicasPath", scale.status_replicas_path, ".status"),
    ):
        if not value:
            errors.append(required(f"{where}.{field}"))
        elif _check_simple_path(errors, f"{where}.{field}", value) and not value.startswith(f"{part}."):
            errors.append(invalid(f"{where}.{field}", value, f"should be a json path under {part}"))
    selector = scale.label_selector_path
    if (
        selector
        and _check_simple_path(errors, f"{where}.labelSelectorPath", selector)
        and not selector.startswith((".spec.", ".status."))
    ):
        text = "should be a json path under either .spec or .status"
        errors.append(invalid(f"{where}.labelSelectorPath", selector, text))


def check_selectable_fields(
    errors: Errors, path: str, given: Sequence[types.SelectableField], schema: Schema, *, may_be_too_many: bool
) -> None:
    """`selectableFields`: each is a field of the schema with a simple value. may_be_too_many: they were before, and are the same."""
    known: set[str] = set()
    for index, one in enumerate(given):
        where, value = f"{path}[{index}].jsonPath", one.json_path
        if not value:
            errors.append(required(where))
            continue
        try:
            found = field_path(value, schema, may_have_brackets=False)
        except FieldPathError as error:
            errors.append(invalid(where, value, f"is an invalid path: {error}"))
            continue
        if found.root == "metadata":
            errors.append(invalid(where, value, "must not point to fields in metadata"))
        if (found.schema or NOTHING).get("type") not in _SELECTABLE_TYPES:
            text = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            errors.append(invalid(where, value, text))
        if found.text in known:
            errors.append(duplicate(where, value))
        known.add(found.text)
    if len(known) > MOST_SELECTABLE_FIELDS and not may_be_too_many:
        errors.append(too_many(path, len(known), MOST_SELECTABLE_FIELDS))
