"""Running the commands of a page, block by block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.outputs import difference
from tests.docs.pages import Command, blocks
from tests.docs.shell import Shell, ShellError

_ANSWERS: Final = re.compile(
    r"^(?:kubectl )?bayplan (?:explain|simulate|what-if|capacity|consolidate|compare|rehearse|replay|doctor)\b|^pytest\b"
)
"""Commands whose exit code 1 is an answer."""
_FAILS: Final = re.compile(r"^(?:[Ee]rror|command terminated|FAILED)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Problem:
    """What does not do what a page says."""

    page: Path
    line: int
    command: str
    difference: str
    printed: str | None = None
    """What was printed instead of what is shown, if that is all that differs."""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}: {self.command}\n{self.difference}"


def problems_of(page: Path, copy: Path, directory: Path) -> Iterator[Problem]:
    """Run the commands of a page. copy: as `Shell` takes it. directory: where to work."""
    shell: Shell | None = None
    with ExitStack() as shells:
        for block in blocks(page):
            commands = [] if block.not_run else block.commands()
            if not commands and not block.file:
                continue
            if shell is None or block.fresh:
                shells.close()
                shell = shells.enter_context(Shell(directory / str(block.line), copy))
            if block.file:
                shell.write(block.file, block.lines)
            for line in block.first.splitlines():
                code, printed = shell.run(line)
                shell.export(printed)
                if code:
                    yield Problem(page, block.line, line, f"exit code {code}\n{printed}")
            for command in commands:
                problem = _problem(shell, page, command, varies=block.varies)
                if problem is not None:
                    yield problem


def _problem(shell: Shell, page: Path, command: Command, *, varies: bool) -> Problem | None:
    """What is wrong with what a command does."""
    try:
        code, printed = shell.run(command.text)
    except ShellError as error:
        return Problem(page, command.line, command.text, str(error))
    shell.export(printed)
    printed = shell.as_seen(printed)
    if code and not (code == 1 and _ANSWERS.match(command.text)) and not _FAILS.search("\n".join(command.output)):
        return Problem(page, command.line, command.text, f"exit code {code}\n{printed}")
    differs = difference(command.output, printed) if command.output and not varies else ""
    return Problem(page, command.line, command.text, differs, printed) if differs else None
