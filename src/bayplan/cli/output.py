"""What verbs share: `-o`, `--html`, `--scheduler-config`, `--plugin`, how answers are given, errors, exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bayplan.cluster.manifests.unserved import UnservedKinds
    from bayplan.scheduler.development.plugin_files import PluginFiles

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def output_option(function: F) -> F:
    """The option `-o json|yaml`; "" means for people."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["json", "yaml"]),
        callback=lambda ctx, option, value: value or "",
        help="Print data instead of text.",
    )(function)


def html_option(text: str = "Write a report to this file.") -> Callable[[F], F]:
    """The option `--html FILE`."""
    return click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help=text)


def scheduler_config_option(purpose: str) -> Callable[[F], F]:
    """The option `--scheduler-config FILE`."""
    return click.option("--scheduler-config", type=FILE, help=f"KubeSchedulerConfiguration {purpose}.")


def plugin_option(addition: str = "") -> Callable[[F], F]:
    """The option `--plugin FILE`, which may be repeated."""
    return click.option(
        "--plugin",
        "plugin_files",
        multiple=True,
        type=FILE,
        help=f"A file of Python with scheduler plugins{addition}.",
    )


def plugins_in(files: tuple[Path, ...]) -> PluginFiles | None:
    """What is in files of plugins; None without files. Raises Failure."""
    if not files:
        return None
    from bayplan.scheduler.development.plugin_files import PluginFiles
    from bayplan.scheduler.errors import SchedulerError

    try:
        return PluginFiles(files)
    except SchedulerError as error:
        raise Failure(str(error)) from error


def give(
    data: Callable[[], Any],
    page: Callable[[], str],
    text: Callable[[], object],
    *,
    output: str,
    html: Path | None,
    unserved: UnservedKinds | None = None,
) -> None:
    """Give an answer: as a page if a file is named for it, and as data or (`text` prints it) for people. Raises Failure.

    unserved: the custom kinds that were met, which data name in a field of that name.
    """
    if html is not None:
        _save(html, page())
    if output:
        print_data(data() if unserved is None else {**data(), "unserved": unserved.to_list()}, output)
    else:
        text()


def print_data(data: Any, output: str) -> None:
    """Print data as JSON or YAML."""
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
    else:
        import yaml

        click.echo(yaml.safe_dump(data, sort_keys=False), nl=False)


def _save(path: Path, page: str) -> None:
    """Write a report. Raises Failure."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Failure(f"the report cannot be written to {path}: {error.strerror or error}") from error
    click.echo(f"report: {path}", err=True)


class Failure(click.ClickException):
    """A failure or negative answer: exit code 1, the message as it is."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(f"bayplan: {self.message}", err=True)


class Unanswerable(Failure):
    """A question that makes no sense as it was put: exit code 2. The message names what is wrong."""

    exit_code = 2
