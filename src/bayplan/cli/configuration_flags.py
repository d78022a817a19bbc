"""Flags that stand for fields of a configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Rows = Mapping[str, tuple[str, ...] | tuple[Any, ...]]
"""Flag -> a row that begins with the field, such as `authentication.x509.clientCAFile`."""


def given_fields(options: Mapping[str, Any], *tables: Rows) -> Iterator[tuple[str, str, Any]]:
    """(flag, field, value) of all flags that were given."""
    for table in tables:
        for flag, row in table.items():
            value = options[flag.removeprefix("--").replace("-", "_")]
            if value is not None:
                yield flag, row[0], value


def put_field(tree: dict[str, Any], field: str, value: Any) -> None:
    """Give a field of a configuration, by its path with dots, a value."""
    *path, last = field.split(".")
    for part in path:
        tree = tree.setdefault(part, {})
    tree[last] = value
