"""What verbs share: `-o`, errors, exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def output_option(function: F) -> F:
    """The option `-o json|yaml`; "" means for people."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["json", "yaml"]),
        callback=lambda ctx, option, value: value or "",
        help="Print data instead of text.",
    )(function)


def print_data(data: Any, output: str) -> None:
    """Print data as JSON or YAML."""
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
    else:
        import yaml

        click.echo(yaml.safe_dump(data, sort_keys=False), nl=False)


def save_page(path: Path, text: str) -> None:
    """Write a report. Raises Failure."""
    from bayplan.simulation.report import write_page

    try:
        write_page(path, text)
    except OSError as error:
        raise Failure(f"the report cannot be written to {path}: {error.strerror or error}") from error
    click.echo(f"report: {path}", err=True)


class Failure(click.ClickException):
    """A failure or negative answer: exit code 1, the message as it is."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(f"bayplan: {self.message}", err=True)
