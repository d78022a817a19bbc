"""Commands in pages of documentation: where they stand, what they should print, and what the page says about running them.

A block of ```console has commands after `$ ` and what they print; a line of `...` stands for any lines, `...` at the end of a line for the rest of it. A block of
```sh has commands alone. Comments of HTML directly before a block, which readers do not see, say more:

    <!-- not run: REASON -->      the block is not run
    <!-- output varies -->        what it prints is not compared
    <!-- fresh -->                it begins anew: an empty home, no clusters
    <!-- first: COMMANDS -->      these come before it, unseen, one a line
    <!-- file: NAME -->           what the block shows is this file, in whatever language
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\s*$")
_COMMENT = re.compile(r"^<!--\s*(.*?)\s*-->$", re.DOTALL)
_NOT_RUN, _VARIES, _FRESH, _FIRST = "not run:", "output varies", "fresh", "first:"
_FILE = "file:"


class PageError(Exception):
    """A page says something about a block that nobody understands."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a block."""

    line: int
    text: str
    """As it is typed, over several lines if the page has them."""
    output: tuple[str, ...] = ()
    """What the page shows that it prints."""


@dataclass(slots=True)
class Block:
    """A block of a page, in its language, with what was said before it."""

    line: int
    language: str
    lines: list[str] = field(default_factory=list)
    not_run: str = ""
    """Why not."""
    varies: bool = False
    fresh: bool = False
    first: str = ""
    file: str = ""

    def commands(self) -> list[Command]:
        """Those of a block that has some."""
        if self.language == "sh":
            return [Command(self.line + 1, "\n".join(self.lines))]
        return list(self._typed()) if self.language == "console" else []

    def _typed(self) -> Iterator[Command]:
        text, start = "", 0
        output: list[str] = []
        for number, line in enumerate(self.lines, self.line + 1):
            if text.endswith("\\") and not output:
                text += f"\n{line}"
            elif line.startswith("$ "):
                if text:
                    yield Command(start, text, tuple(output))
                text, output, start = line[2:], [], number
            else:
                output.append(line)
        if text:
            yield Command(start, text, tuple(output))


def blocks(path: Path) -> list[Block]:
    """All blocks of a page. Raises PageError."""
    found: list[Block] = []
    open_block: Block | None = None
    comments: list[str] = []
    comment: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if open_block is not None:
            if fence:
                found.append(open_block)
                open_block, comments = None, []
            else:
                open_block.lines.append(line)
        elif fence:
            open_block = Block(number, fence[1])
            for one in comments:
                _obey(open_block, one, f"{path.name}:{number}")
        elif comment or line.startswith("<!--"):
            comment.append(line)
            if line.endswith("-->"):
                match = _COMMENT.match("\n".join(comment))
                comments += [match[1]] if match else []
                comment = []
        elif line.strip():
            comments = []
    return found


def _obey(block: Block, comment: str, where: str) -> None:
    if comment.startswith(_NOT_RUN):
        block.not_run = comment.removeprefix(_NOT_RUN).strip()
    elif comment.startswith(_FIRST):
        block.first = comment.removeprefix(_FIRST).strip()
    elif comment.startswith(_FILE):
        block.file = comment.removeprefix(_FILE).strip()
    elif comment == _VARIES:
        block.varies = True
    elif comment == _FRESH:
        block.fresh = True
    else:
        raise PageError(f"{where}: <!-- {comment} --> says nothing that is known here")


def pages() -> list[Path]:
    """All pages that have commands."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if any(block.commands() for block in blocks(page))]
