"""The code that a step names: where it stands, and its text."""

from __future__ import annotations

import ast
from functools import lru_cache
from importlib.resources import files
from typing import Final

import msgspec

from bayplan.simulation.lessons.lesson import CodePlace, LessonError

_MOST_LINES: Final = 60
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class LocatedCode(msgspec.Struct, frozen=True):
    """A definition in the package as it is installed."""

    file: str
    """Path in the repository."""
    symbol: str
    line: int
    source: str
    """Its text, cut off after some lines."""


def locate(place: CodePlace) -> LocatedCode:
    """Find a definition. Raises LessonError if there is no such file or symbol."""
    text, tree = _parsed(place.file)
    found: ast.AST = tree
    for name in place.symbol.split("."):
        found = _definition(found, name, place)
    assert isinstance(found, _Definition)
    lines = text.splitlines()[found.lineno - 1 : found.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    shown = [line[indent:] if line[:indent].isspace() else line for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"... and {len(lines) - _MOST_LINES} lines more")
    return LocatedCode(f"src/bayplan/{place.file}", place.symbol, found.lineno, "\n".join(shown))


@lru_cache(maxsize=64)
def _parsed(file: str) -> tuple[str, ast.Module]:
    try:
        text = files("bayplan").joinpath(*file.split("/")).read_text(encoding="utf-8")
    except OSError as error:
        raise LessonError(f"there is no file {file}: {error}") from error
    return text, ast.parse(text)


def _definition(within: ast.AST, name: str, place: CodePlace) -> _Definition:
    for one in ast.iter_child_nodes(within):
        if isinstance(one, _Definition) and one.name == name:
            return one
    raise LessonError(f"{place.file} has no {place.symbol}")
