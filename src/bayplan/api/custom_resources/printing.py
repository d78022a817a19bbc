"""The columns that a CustomResourceDefinition wants its objects to be shown with.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bayplan.api.codec import to_tree
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.paths import JsonPath, PathError, path_of
from bayplan.api.printing.base import Column, Printer, age, default_printer
from bayplan.api.types import apiextensions_v1
from bayplan.support.timestamps import parse_rfc3339

_AGE = apiextensions_v1.CustomResourceColumnDefinition(
    name="Age",
    type="date",
    json_path=".metadata.creationTimestamp",
    description=default_printer().columns[1].description,
)


def printer_of(columns: Sequence[apiextensions_v1.CustomResourceColumnDefinition]) -> Printer:
    """The printer of one version; without columns of its own it shows the age."""
    wanted = [(column, _path(column.json_path)) for column in columns or (_AGE,)]

    def cells(obj: CustomObject, now: float) -> list[Any]:
        tree = {**obj.content, "metadata": to_tree(obj.metadata)}
        return [obj.metadata.name, *(_cell(column.type, path, tree, now) for column, path in wanted)]

    shown = [
        Column(column.name, column.description or _text_of(column), column.type, column.format, column.priority)
        for column, _ in wanted
    ]
    return Printer((default_printer().columns[0], *shown), cells)


def _text_of(column: apiextensions_v1.CustomResourceColumnDefinition) -> str:
    return f"Custom resource definition column (in JSONPath format): {column.json_path}"


def _path(text: str) -> JsonPath | None:
    try:
        return path_of(text)
    except PathError:
        return None


def _cell(kind: str, path: JsonPath | None, tree: dict[str, Any], now: float) -> Any:
    """One value, None where there is none of the column's type."""
    found = [] if path is None else path.find(tree)
    if not found:
        return None
    value = found[0]
    if kind == "string":
        return _text(value)
    if value is None:
        return None
    if kind == "date":
        return _age(value, now)
    if kind == "integer" and isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    if kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    return None


def _age(value: Any, now: float) -> str:
    try:
        parse_rfc3339(value)
    except (ValueError, TypeError, AttributeError):
        return "<invalid>"
    return age(value, now)


def _text(value: Any) -> str:
    """A value as Go's template package prints it."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    )
