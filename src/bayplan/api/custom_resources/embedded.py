"""Whole objects inside custom resources (`x-kubernetes-embedded-resource`).

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bayplan.api.custom_resources.metadata import MetadataError, read_metadata
from bayplan.api.custom_resources.pruning import EMBEDDED, child, child_path, has_key
from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.schema import Schema
from bayplan.api.validation.meta import validate_object_meta
from bayplan.api.validation.values.formats import dns_1035_label


def has_embedded(schema: Any) -> bool:
    """Whether a schema has embedded objects somewhere."""
    return has_key(schema, EMBEDDED)


def coerce(value: Any, schema: Schema | None, *, lenient: bool = False) -> list[str]:
    """Bring the metadata of embedded objects into form, in place: unknown fields and empty ones go. Returns the paths of the unknown, in order.

    lenient: what is malformed goes too, as in objects that the store has; otherwise it raises MetadataError.
    """
    dropped: list[str] = []
    _coerce(value, schema, "", dropped, lenient)
    return sorted(dropped)


def _coerce(value: Any, schema: Schema | None, path: str, dropped: list[str], lenient: bool) -> None:
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            _coerce_object(value, f"{path}." if path else "", dropped, lenient)
        for name in value:
            _coerce(value[name], child(schema, name), child_path(path, name, schema), dropped, lenient)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _coerce(item, schema.get("items"), f"{path}[{index}]", dropped, lenient)


def _coerce_object(obj: dict[str, Any], prefix: str, dropped: list[str], lenient: bool) -> None:
    for name in ("apiVersion", "kind"):
        if name in obj and not isinstance(obj[name], str):
            if not lenient:
                raise MetadataError(str(invalid(f"{prefix}{name}", obj[name], "must be a string")))
            del obj[name]
    if "metadata" not in obj:
        return
    try:
        metadata, unknown = read_metadata(obj["metadata"], lenient=lenient)
    except MetadataError as error:
        if not lenient:
            raise MetadataError(str(invalid(f"{prefix}metadata", obj["metadata"], str(error)))) from None
        return
    dropped.extend(f"{prefix}metadata.{one}" for one in unknown)
    obj["metadata"] = msgspec.json.decode(msgspec.json.encode(metadata))


def embedded_errors(value: Any, schema: Schema | None, path: str = "") -> list[FieldError]:
    """What is wrong with embedded objects."""
    return list(_errors(value, schema, path))


def _errors(value: Any, schema: Schema | None, path: str) -> Iterator[FieldError]:
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            yield from _object_errors(value, f"{path}." if path else "")
        for name in sorted(value):
            yield from _errors(value[name], child(schema, name), child_path(path, name, schema))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _errors(item, schema.get("items"), f"{path}[{index}]")


def _object_errors(obj: dict[str, Any], prefix: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        if name not in obj:
            yield required(f"{prefix}{name}")
        elif not isinstance(obj[name], str):
            yield invalid(f"{prefix}{name}", obj[name], "must be a string")
        elif not obj[name]:
            yield invalid(f"{prefix}{name}", "", "must not be empty")
        elif name == "apiVersion" and obj[name].count("/") > 1:
            yield invalid(f"{prefix}{name}", obj[name], f"unexpected GroupVersion string: {obj[name]}")
        elif name == "kind" and (problems := dns_1035_label(obj[name].lower())):
            detail = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            yield invalid(f"{prefix}{name}", obj[name], detail)
    if "metadata" in obj:
        yield from _metadata_errors(obj["metadata"], f"{prefix}metadata")


def _metadata_errors(given: Any, path: str) -> Iterator[FieldError]:
    try:
        metadata, _ = read_metadata(given)
    except MetadataError as error:
        yield invalid(path, given, str(error))
        return
    metadata.name = metadata.name or "fakename"
    for one in validate_object_meta(metadata, namespaced=bool(metadata.namespace), name_rule="path-segment"):
        yield msgspec.structs.replace(one, field=path + one.field.removeprefix("metadata"))
