"""Flags that stand for fields of a configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

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


def feature_gates(text: str) -> dict[str, bool]:
    """`A=true,B=false`. Raises UsageError."""
    found = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not name or not equals or value.lower() not in ("true", "false"):
            raise click.UsageError(f"--feature-gates: {part!r} is not NAME=true or NAME=false")
        found[name] = value.lower() == "true"
    return found
