"""CustomResourceDefinitions as they are kept: with what was left out, and with schemas inside schemas read like those at the top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from bayplan.api import codec
from bayplan.api.custom_resources.numbers import NumberError, with_large_floats
from bayplan.api.types import apiextensions_v1 as types

_HTTPS = 443


def default_definition(definition: types.CustomResourceDefinition) -> None:
    """Defaults of one definition. Raises codec.DecodeError if a schema inside a schema is none."""
    spec = definition.spec
    names = spec.names
    if not names.singular:
        names.singular = names.kind.lower()
    if not names.list_kind and names.kind:
        names.list_kind = f"{names.kind}List"
    if spec.conversion is None:
        spec.conversion = types.CustomResourceConversion(strategy="None")
    webhook = spec.conversion.webhook
    client = None if webhook is None else webhook.client_config
    if webhook is not None and client is None and not webhook.conversion_review_versions:
        spec.conversion.webhook = None
    if client is not None and client.service is not None and client.service.port is None:
        client.service.port = _HTTPS
    if not definition.status.stored_versions:
        definition.status = replace(definition.status, stored_versions=stored_version(spec.versions))
    for version in spec.versions:
        if version.schema is not None and version.schema.open_apiv3_schema is not None:
            _settle(version.schema.open_apiv3_schema)


def stored_version(versions: Iterable[types.CustomResourceDefinitionVersion]) -> tuple[str, ...]:
    """The name of the version in which objects are kept from now on: the first that says so."""
    return tuple(one.name for one in versions if one.storage)[:1]


def _settle(schema: types.JSONSchemaProps) -> None:
    """Read, in place, what stands where either a schema or something else may stand; write whole numbers without a fraction."""
    schema.items = _items(schema.items)
    schema.additional_properties = _schema_or_bool(schema.additional_properties)
    schema.additional_items = _schema_or_bool(schema.additional_items)
    schema.dependencies = {name: _dependency(one) for name, one in schema.dependencies.items()}
    schema.maximum, schema.minimum = _whole(schema.maximum), _whole(schema.minimum)
    schema.multiple_of = _whole(schema.multiple_of)
    given = {"default": schema.default, "enum": list(schema.enum)}
    try:
        with_large_floats(given)
    except NumberError as error:
        raise codec.DecodeError(str(error)) from None
    schema.default, schema.enum = given["default"], tuple(given["enum"])
    for one in _inner(schema):
        _settle(one)


def _inner(schema: types.JSONSchemaProps) -> Iterator[types.JSONSchemaProps]:
    """The schemas inside a schema that are read already."""
    if schema.not_ is not None:
        yield schema.not_
    for some in (schema.all_of, schema.any_of, schema.one_of):
        yield from some
    for named in (schema.properties, schema.pattern_properties, schema.definitions):
        yield from named.values()


def _whole(number: float | None) -> float | None:
    if number is None or not float(number).is_integer():
        return number
    return int(number) if -(1 << 63) <= number < 1 << 63 else float(number)


def _schema(tree: dict[str, Any]) -> dict[str, Any]:
    found = codec.from_tree(types.JSONSchemaProps, tree)
    _settle(found)
    settled: dict[str, Any] = codec.to_tree(found)
    return settled


def _items(given: Any) -> Any:
    """A schema, or several."""
    if isinstance(given, list):
        if not all(isinstance(one, dict) for one in given):
            raise codec.DecodeError("json: cannot unmarshal into Go value of type v1.JSONSchemaProps")
        return [_schema(one) for one in given] or None
    return _schema(given) if isinstance(given, dict) else None


def _schema_or_bool(given: Any) -> Any:
    """A schema, or whether anything is allowed. Raises codec.DecodeError for anything else."""
    if given is None or isinstance(given, bool):
        return given
    if not isinstance(given, dict):
        raise codec.DecodeError("boolean or JSON schema expected")
    return _schema(given)


def _dependency(given: Any) -> Any:
    """A schema, or names of fields."""
    if isinstance(given, dict):
        return _schema(given)
    if isinstance(given, list) and not all(isinstance(one, str) for one in given):
        raise codec.DecodeError("json: cannot unmarshal into Go value of type string")
    return given if isinstance(given, list) else None
