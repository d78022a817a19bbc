"""The columns that a CustomResourceDefinition wants its objects to be shown with.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.api.codec import to_tree
from bayplan.api.custom_resources.go_values import json_text, shown
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
    """The printer of one version; without columns of its own it shows the age. A column with a malformed path ends the table."""
    wanted = list(_understood(columns or (_AGE,)))

    def cells(obj: CustomObject, now: float) -> list[Any]:
        tree = {"kind": obj.kind, "apiVersion": obj.api_version, **obj.content, "metadata": to_tree(obj.metadata)}
        return [obj.metadata.name, *(_cell(column.type, path, tree, now) for column, path in wanted)]

    shown = [
        Column(column.name, column.description or _text_of(column), column.type, column.format, column.priority)
        for column, _ in wanted
    ]
    return Printer((default_printer().columns[0], *shown), cells)


def _text_of(column: apiextensions_v1.CustomResourceColumnDefinition) -> str:
    return f"Custom resource definition column (in JSONPath format): {column.json_path}"


def _understood(
    columns: Sequence[apiextensions_v1.CustomResourceColumnDefinition],
) -> Iterator[tuple[apiextensions_v1.CustomResourceColumnDefinition, JsonPath]]:
    for column in columns:
        try:
            yield column, path_of(column.json_path)
        except PathError:
            return


def _cell(kind: str, path: JsonPath, tree: dict[str, Any], now: float) -> Any:
    """One value, None where there is none of the column's type."""
    try:
        found = path.find(tree)
    except PathError:
        return None
    if not found:
        return None
    value = found[0]
    if kind == "string":
        return _text(value)
    if value is None:
        return None
    if kind == "date":
        return _age(value, now) if isinstance(value, str) else None
    if isinstance(value, bool):
        return value if kind == "boolean" else None
    if isinstance(value, int | float) and kind in ("integer", "number"):
        return int(value) if kind == "integer" or float(value).is_integer() else value
    return None


def _age(value: str, now: float) -> str:
    if value in ("", "null"):
        return "<unknown>"
    try:
        parse_rfc3339(value)
    except ValueError:
        return "<invalid>"
    return age(value, now)


def _text(value: Any) -> str:
    """A value as Go's template package prints it."""
    if value is None:
        return "<no value>"
    return json_text(value) if isinstance(value, dict | list) else shown(value)
