"""What is wrong with an expression, written as cel-go writes it: message, line, and a caret below the place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_SHOWN_AT_MOST = 100
_SNIPPET_AT_MOST = 16384
"""Characters of a line that is shown."""
NOWHERE = -1
"""The place of what is wrong with an expression as a whole."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong."""

    offset: int
    """Index of the character in the expression, or `NOWHERE`."""
    message: str


class SyntaxIssue(ValueError):
    """The text is no expression. `issues`: what is wrong with it, in order; `before` was found before."""

    def __init__(self, offset: int, message: str, before: Iterable[Issue] = ()) -> None:
        super().__init__(message)
        self.issues = (*before, Issue(offset, message))


def display(source: str, issues: Iterable[Issue]) -> str:
    """The text of issues in order of their places; after a hundred only the number of the rest.

    For `object.foo > 1` without a field foo:

        ERROR: <input>:1:7: undefined field 'foo'
         | object.foo > 1
         | ......^
    """
    found = list(issues)
    shown = [_place(source, one) for one in found[:_SHOWN_AT_MOST]]
    texts = [_text(source, *one) for one in sorted(shown, key=lambda one: one[:2])]
    if len(found) > _SHOWN_AT_MOST:
        texts.append(f"{len(found) - _SHOWN_AT_MOST} more errors were truncated")
    return "\n".join(texts)


def _place(source: str, issue: Issue) -> tuple[int, int, str]:
    """Line and column, both from 0 (-1 if it has no place), and the message."""
    if issue.offset == NOWHERE:
        return -1, -1, issue.message
    if not source:
        return 0, -1, issue.message
    before = source[: issue.offset]
    return before.count("\n"), issue.offset - (before.rfind("\n") + 1), issue.message


def _text(source: str, line: int, column: int, message: str) -> str:
    if line < 0:
        return f"ERROR: <input>:-1:0: {message}"
    head = f"ERROR: <input>:{line + 1}:{column + 1}: {message}"
    snippet = source.split("\n")[line]
    if not source or len(snippet) > _SNIPPET_AT_MOST:
        return head
    shown = snippet.replace("\t", " ")
    dots = "".join("." if character.isascii() else "\uff0e" for character in shown[:column])
    caret = "\uff3e" if shown[column : column + 1] and not shown[column].isascii() else "^"
    return f"{head}\n | {shown}\n | {dots}{caret}"
