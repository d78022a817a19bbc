"""`kubectl bayplan`: the same program as a plugin of kubectl, which completes its arguments."""

from __future__ import annotations

import sys
from typing import NoReturn

import click
from click.shell_completion import ShellComplete

from bayplan.cli.main import COMPLETE_VARIABLE, main, run

_NO_FILES, _FILES = 4, 0
"""What kubectl is to do besides: propose no files, or propose some."""


def run_plugin() -> NoReturn:
    """The program `kubectl-bayplan`, which kubectl runs for `kubectl bayplan`."""
    run("kubectl bayplan")


def complete() -> None:
    """The program `kubectl_complete-bayplan`, by which kubectl completes: it gets the words, prints proposals, and last what else to propose."""
    words = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "kubectl bayplan", COMPLETE_VARIABLE).get_completions(words[:-1], words[-1])
    for each in found:
        if each.type == "plain":
            click.echo(f"{each.value}\t{each.help}" if each.help else each.value)
    click.echo(f":{_NO_FILES if all(each.type == 'plain' for each in found) else _FILES}")
