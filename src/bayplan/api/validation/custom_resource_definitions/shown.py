"""Parts of definitions as messages show them: with the names and the order of Go's internal types, and with everything that is not set.

A schema `{"type": "object"}` is shown as `{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",...}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.api.json.writing import escaped
from bayplan.api.schema import Schema
from bayplan.api.types import apiextensions_v1 as types
from bayplan.api.validation.custom_resource_definitions.form import Form, Part

SCHEMA_FIELDS: dict[str, tuple[str, Any]] = {
    "id": ("ID", ""),
    "$schema": ("Schema", ""),
    "$ref": ("Ref", None),
    "description": ("Description", ""),
    "type": ("Type", ""),
    "nullable": ("Nullable", False),
    "format": ("Format", ""),
    "title": ("Title", ""),
    "default": ("Default", None),
    "maximum": ("Maximum", None),
    "exclusiveMaximum": ("ExclusiveMaximum", False),
    "minimum": ("Minimum", None),
    "exclusiveMinimum": ("ExclusiveMinimum", False),
    "maxLength": ("MaxLength", None),
    "minLength": ("MinLength", None),
    "pattern": ("Pattern", ""),
    "maxItems": ("MaxItems", None),
    "minItems": ("MinItems", None),
    "uniqueItems": ("UniqueItems", False),
    "multipleOf": ("MultipleOf", None),
    "enum": ("Enum", None),
    "maxProperties": ("MaxProperties", None),
    "minProperties": ("MinProperties", None),
    "required": ("Required", None),
    "items": ("Items", None),
    "allOf": ("AllOf", None),
    "oneOf": ("OneOf", None),
    "anyOf": ("AnyOf", None),
    "not": ("Not", None),
    "properties": ("Properties", None),
    "additionalProperties": ("AdditionalProperties", None),
    "patternProperties": ("PatternProperties", None),
    "dependencies": ("Dependencies", None),
    "additionalItems": ("AdditionalItems", None),
    "definitions": ("Definitions", None),
    "externalDocs": ("ExternalDocs", None),
    "example": ("Example", None),
    "x-kubernetes-preserve-unknown-fields": ("XPreserveUnknownFields", None),
    "x-kubernetes-embedded-resource": ("XEmbeddedResource", False),
    "x-kubernetes-int-or-string": ("XIntOrString", False),
    "x-kubernetes-list-map-keys": ("XListMapKeys", None),
    "x-kubernetes-list-type": ("XListType", None),
    "x-kubernetes-map-type": ("XMapType", None),
    "x-kubernetes-validations": ("XValidations", None),
}
"""Fields of schemas in the order of Go's type: name -> its name there, and what it is if it is not set."""
_RULE_FIELDS = {
    "rule": ("Rule", ""),
    "message": ("Message", ""),
    "messageExpression": ("MessageExpression", ""),
    "reason": ("Reason", None),
    "fieldPath": ("FieldPath", ""),
    "optionalOldSelf": ("OptionalOldSelf", None),
}
_DOCS_FIELDS = {"description": ("Description", ""), "url": ("URL", "")}
_ONE, _LIST, _MAP = frozenset(("not",)), frozenset(("allOf", "oneOf", "anyOf")), frozenset(
    ("properties", "patternProperties", "definitions")
)  # fmt: skip
_NUMBERS = frozenset(("maximum", "minimum", "multipleOf"))


def _object(pairs: Iterable[tuple[str, Any]]) -> msgspec.Raw:
    shown = (b'"%b":%b' % (name.encode(), _bytes(value)) for name, value in pairs)
    return msgspec.Raw(b"{%b}" % b",".join(shown))


def _bytes(value: Any) -> bytes:
    """JSON as Go writes it."""
    return escaped(msgspec.json.encode(value, order="deterministic"))


def _fields(tree: dict[str, Any], table: dict[str, tuple[str, Any]]) -> msgspec.Raw:
    return _object((go_name, tree.get(name, unset)) for name, (go_name, unset) in table.items())


def shown_rule(rule: dict[str, Any]) -> msgspec.Raw:
    """A rule of `x-kubernetes-validations`."""
    return _fields(rule, _RULE_FIELDS)


def shown_schema(schema: Schema) -> msgspec.Raw:
    """A schema."""
    return _object(
        (go_name, _schema_field(name, schema[name]) if name in schema else unset)
        for name, (go_name, unset) in SCHEMA_FIELDS.items()
    )


def shown_items(items: Any) -> msgspec.Raw:
    """The value of `items`."""
    if isinstance(items, list):
        return _object((("Schema", None), ("JSONSchemas", [shown_schema(one) for one in items])))
    return _object((("Schema", shown_schema(items)), ("JSONSchemas", None)))


def _schema_field(name: str, value: Any) -> Any:
    if name in _ONE:
        return shown_schema(value)
    if name in _LIST:
        return [shown_schema(one) for one in value]
    if name in _MAP:
        return {key: shown_schema(one) for key, one in value.items()}
    if name == "items":
        return shown_items(value)
    if name in ("additionalProperties", "additionalItems"):
        inner = shown_schema(value) if isinstance(value, dict) else None
        return _object((("Allows", inner is not None or value), ("Schema", inner)))
    if name == "dependencies":
        return {key: _dependency(one) for key, one in value.items()}
    if name == "externalDocs":
        return _fields(value, _DOCS_FIELDS)
    if name == "x-kubernetes-validations":
        return [shown_rule(one) for one in value]
    return int(value) if name in _NUMBERS and float(value).is_integer() else value


def _dependency(value: Any) -> msgspec.Raw:
    is_schema = isinstance(value, dict)
    return _object((("Schema", shown_schema(value) if is_schema else None), ("Property", None if is_schema else value)))


def shown_versions(form: Form) -> list[msgspec.Raw] | None:
    """The value of `spec.versions`."""
    return [_version(*pair) for pair in zip(form.spec.versions, form.versions, strict=True)] or None


def _version(version: types.CustomResourceDefinitionVersion, part: Part) -> msgspec.Raw:
    schema = None if part.schema is None else shown_schema(part.schema)
    return _object(
        (
            ("Name", version.name),
            ("Served", version.served),
            ("Storage", version.storage),
            ("Deprecated", version.deprecated),
            ("DeprecationWarning", version.deprecation_warning),
            ("Schema", _object((("OpenAPIV3Schema", schema),)) if part.has_validation else None),
            ("Subresources", None if part.subresources is None else _subresources(part.subresources)),
            ("AdditionalPrinterColumns", [_column(one) for one in part.columns] or None),
            ("SelectableFields", [_object((("JSONPath", one.json_path),)) for one in part.selectable] or None),
        )
    )


def _subresources(given: types.CustomResourceSubresources) -> msgspec.Raw:
    scale = None
    if given.scale is not None:
        scale = _object(
            (
                ("SpecReplicasPath", given.scale.spec_replicas_path),
                ("StatusReplicasPath", given.scale.status_replicas_path),
                ("LabelSelectorPath", given.scale.label_selector_path),
            )
        )
    return _object((("Status", None if given.status is None else {}), ("Scale", scale)))


def _column(column: types.CustomResourceColumnDefinition) -> msgspec.Raw:
    return _object(
        (
            ("Name", column.name),
            ("Type", column.type),
            ("Format", column.format),
            ("Description", column.description),
            ("Priority", column.priority),
            ("JSONPath", column.json_path),
        )
    )
