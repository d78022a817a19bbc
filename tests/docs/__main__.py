"""Runs the commands of pages, and says what each printed that is not what the page shows: `python -m tests.docs [--write] [PAGE ...]`.

With --write the page shows afterwards what was printed, where the page leaves nothing out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import blocks, pages
from tests.docs.running import Problem, problems_of
from tests.docs.shop import write_copy


def main(arguments: list[str]) -> int:
    """Returns 1 if anything differs."""
    names = [one for one in arguments if one != "--write"]
    found: list[Problem] = []
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "shop.bayplan"
        write_copy(copy)
        for number, page in enumerate([Path(name).resolve() for name in names] or pages()):
            for problem in problems_of(page, copy, Path(directory) / str(number)):
                print(problem, end="\n\n", flush=True)
                found.append(problem)
    if "--write" in arguments:
        for problem in reversed(found):
            _write(problem)
    return int(bool(found))


def _write(problem: Problem) -> None:
    """Have a page show what was printed."""
    commands = [one for block in blocks(problem.page) for one in block.commands() if one.line == problem.line]
    if problem.printed is None or not commands or any("..." in line for line in commands[0].output):
        return
    lines = problem.page.read_text().splitlines()
    start = problem.line + commands[0].text.count("\n")
    lines[start : start + len(commands[0].output)] = [one.rstrip() for one in problem.printed.rstrip().splitlines()]
    problem.page.write_text("\n".join(lines) + "\n")


sys.exit(main(sys.argv[1:]))
