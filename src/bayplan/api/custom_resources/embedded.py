"""Whole objects inside custom resources (`x-kubernetes-embedded-resource`).

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bayplan.api.custom_resources.pruning import EMBEDDED, child
from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.schema import Schema
from bayplan.api.types import meta_v1
from bayplan.api.validation.formats import dns_1035_label
from bayplan.api.validation.meta import validate_object_meta


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
            is_declared = name in schema.get("properties", ())
            below = (f"{path}.{name}" if path else name) if is_declared else f"{path}[{name}]"
            yield from _errors(value[name], child(schema, name), below)
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
        metadata = msgspec.convert(given, meta_v1.ObjectMeta)
    except msgspec.ValidationError as error:
        yield invalid(path, given, str(error))
        return
    metadata.name = metadata.name or "fakename"
    for one in validate_object_meta(metadata, namespaced=bool(metadata.namespace), name_rule="path-segment"):
        yield FieldError(one.type, path + one.field.removeprefix("metadata"), one.value, one.detail)
