"""Defaults in structural schemas: each is a value that the schema takes, without fields that it does not know.

Rules of `x-kubernetes-validations` hold for a default that fits otherwise, as one that has not changed and as a new one.

Source: `apiextensions-apiserver/pkg/apiserver/schema/defaulting`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from bayplan.api.custom_resources import pruning, values
from bayplan.api.custom_resources.embedded import embedded_errors
from bayplan.api.errors import FieldError, invalid
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.form import NOTHING

_Steps = tuple[str | None, ...]
"""The way from a whole object to a value: names of fields, None for an item of a list."""


def default_errors(schema: Schema, path: str, *, needs_pruned: bool) -> list[FieldError]:
    """What is wrong with the defaults of a structural schema. needs_pruned: whether they may have no unknown fields."""
    root = {**schema, pruning.EMBEDDED: True}
    return list(_Walk(root, needs_pruned=needs_pruned).errors(root, path, (), in_metadata=False))


class _Walk:
    """A walk through one whole object: the custom resource, or one inside it."""

    def __init__(self, root: Schema, *, needs_pruned: bool) -> None:
        self._root = root
        self._needs_pruned = needs_pruned

    def errors(self, schema: Schema, path: str, steps: _Steps, *, in_metadata: bool) -> Iterator[FieldError]:
        """What is wrong below a place. in_metadata: whether that is in kind, apiVersion or metadata."""
        if schema.get(pruning.EMBEDDED) and schema is not self._root:
            yield from _Walk(schema, needs_pruned=self._needs_pruned).errors(schema, path, (), in_metadata=False)
            return
        if schema.get("default") is not None:
            where, value = f"{path}.default", schema["default"]
            yield from (
                self._metadata_errors(value, schema, where, steps)
                if in_metadata
                else self._value_errors(value, schema, where)
            )
        if "items" in schema:
            yield from self.errors(schema["items"], f"{path}.items", (*steps, None), in_metadata=in_metadata)
        for name, one in schema.get("properties", NOTHING).items():
            is_metadata = in_metadata or (bool(schema.get(pruning.EMBEDDED)) and name in pruning.META_FIELDS)
            yield from self.errors(one, f"{path}.properties[{name}]", (*steps, name), in_metadata=is_metadata)

    def _value_errors(self, value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
        if self._needs_pruned and has_unknown_fields(value, schema):
            yield invalid(path, value, "must not have unknown fields")
        found = embedded_errors(value, schema, path)
        yield from _of_wrong_type(found) or found or _fit_errors(value, schema, path)

    def _metadata_errors(self, value: Any, schema: Schema, path: str, steps: _Steps) -> Iterator[FieldError]:
        found = embedded_errors(_surrounded(value, steps), self._root)
        found = _of_wrong_type(found) or found
        if not found:
            yield from _fit_errors(value, schema, path)
            return
        texts = list(dict.fromkeys(map(str, found)))
        shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        yield invalid(path, value, f"must result in valid metadata: {shown}")


def _fit_errors(value: Any, schema: Schema, path: str) -> list[FieldError]:
    """Why a default is no value of its schema."""
    found = values.validate(value, _with_any_type(schema), path)
    if found or not pruning.has_rules(schema):
        return found
    from bayplan.api.custom_resources.rule_compilation import compile_node  # slow to import, and seldom needed
    from bayplan.api.custom_resources.rules import rule_errors

    rules = compile_node(schema, schema, is_root=bool(schema.get(pruning.EMBEDDED)))
    return [] if rules is None else rule_errors(rules, path, value, value) or rule_errors(rules, path, value, None)


def _with_any_type(schema: Schema) -> Schema:
    """A schema as defaults are checked against it: `x-kubernetes-int-or-string` says nothing of their types, as in Kubernetes."""
    found = {name: value for name, value in schema.items() if name != "x-kubernetes-int-or-string"}
    if "properties" in found:
        found["properties"] = {name: _with_any_type(one) for name, one in found["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = _with_any_type(found[name])
    return found


def _of_wrong_type(errors: list[FieldError]) -> list[FieldError]:
    """The first error of an object whose head cannot be read at all; then nothing else is said about it."""
    return [one for one in errors if one.detail == "must be a string" or one.field.endswith(".metadata")][:1]


def _surrounded(value: Any, steps: _Steps) -> Any:
    """A whole object with nothing but a value at the end of a way."""
    for step in reversed(steps):
        value = [value] if step is None else {step: value}
    return {"kind": "Validation", "apiVersion": "validation/v1", **value}


def has_unknown_fields(value: Any, schema: Schema) -> bool:
    """Whether pruning by a schema would change a value."""
    pruned = {"value": copy.deepcopy(value)}
    pruning.prune(pruned, {"properties": {"value": schema}})
    return bool(pruned["value"] != value)


def has_unpruned_defaults(schema: Schema) -> bool:
    """Whether a default of a structural schema has unknown fields."""
    return any(one.get("default") is not None and has_unknown_fields(one["default"], one) for one in _structure(schema))


def _structure(schema: Schema) -> Iterator[Schema]:
    """A schema and those of its fields and items."""
    yield schema
    additional = schema.get("additionalProperties")
    inner = (schema.get("items"), additional, *schema.get("properties", NOTHING).values())
    for one in inner:
        if isinstance(one, dict):
            yield from _structure(one)
