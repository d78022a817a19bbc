"""Flags that stand for fields of a configuration file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

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


def field_options(*, values: Rows, switches: Rows, texts: Rows) -> Callable[[F], F]:
    """Options of a command for fields; those that are not given are None.

    values: field, type and help. switches: truth values, by field and help. texts: what the command reads itself, by field and help.
    """

    def decorate(function: F) -> F:
        for name, (_, kind, text) in reversed(tuple(values.items())):
            function = click.option(name, type=kind, default=None, help=text)(function)
        for name, (_, text) in reversed(tuple(switches.items())):
            function = click.option(name, type=bool, default=None, help=text)(function)
        for name, (_, text) in reversed(tuple(texts.items())):
            function = click.option(name, default=None, help=text)(function)
        return function

    return decorate
