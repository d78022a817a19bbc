"""Defaults of a structural schema, and nulls that it does not allow.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/apiserver/schema/defaulting`.
"""

from __future__ import annotations

import copy
from typing import Any

from bayplan.api.custom_resources.pruning import child
from bayplan.api.schema import Schema

_REFUSING_NULL = ("type", "x-kubernetes-int-or-string", "enum")


def drop_nulls(value: Any, schema: Schema | None, *, unless_refused: bool = False) -> None:
    """Take out, in place, nulls that are not allowed and have no default: such a field counts as left out.

    unless_refused: not where validation refuses them, as it does what is applied.
    """
    if isinstance(value, dict):
        for name in list(value):
            inner = None if schema is None else child(schema, name)
            if value[name] is None and inner is not None and _is_dropped(inner, unless_refused):
                del value[name]
            else:
                drop_nulls(value[name], inner, unless_refused=unless_refused)
    elif isinstance(value, list):
        items = None if schema is None else schema.get("items")
        for item in value:
            drop_nulls(item, items, unless_refused=unless_refused)


def _is_dropped(schema: Schema, unless_refused: bool) -> bool:
    if schema.get("nullable") or schema.get("default") is not None:
        return False
    return not (unless_refused and any(map(schema.get, _REFUSING_NULL)))


def default(value: Any, schema: Schema | None) -> None:
    """Fill in, in place, what is left out and has a default."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if inner.get("default") is not None and _is_missing(value.get(name, _LEFT_OUT), inner):
                value[name] = copy.deepcopy(inner["default"])
        for name in value:
            inner = child(schema, name)
            if inner is not None and name not in schema.get("properties", ()) and _is_missing(value[name], inner):
                value[name] = copy.deepcopy(inner.get("default"))
            default(value[name], inner)
    elif isinstance(value, list):
        items = schema.get("items")
        for index, item in enumerate(value):
            if items is not None and _is_missing(item, items):
                value[index] = copy.deepcopy(items.get("default"))
            default(value[index], items)


_LEFT_OUT = object()


def _is_missing(value: Any, schema: Schema) -> bool:
    return value is _LEFT_OUT or (value is None and not schema.get("nullable"))
