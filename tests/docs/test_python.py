"""Python in the documentation can be read, and what it takes from Bayplan is there."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def sources(page: Path) -> list[tuple[int, str]]:
    return [(block.line, "\n".join(block.lines)) for block in blocks(page) if block.language == "python"]


def is_there(module: str, name: str) -> bool:
    """Whether a module has something of that name, a module within it included."""
    return hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}") is not None


def taken(text: str) -> Iterator[tuple[str, str]]:
    """(module, name) of all that is taken from Bayplan. Raises SyntaxError."""
    for found in ast.walk(ast.parse(text)):
        if isinstance(found, ast.ImportFrom) and (found.module or "").startswith("bayplan"):
            yield from ((found.module or "", one.name) for one in found.names)
        elif isinstance(found, ast.Attribute) and isinstance(found.value, ast.Name) and found.value.id == "bayplan":
            yield "bayplan", found.attr


@pytest.mark.parametrize(
    "page", [page for page in PAGES if sources(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_what_is_taken_exists(page: Path) -> None:
    for line, text in sources(page):
        missing = [f"{module}.{name}" for module, name in taken(text) if not is_there(module, name)]
        assert not missing, f"{page.name}:{line}"


def test_what_does_not_exist_is_found() -> None:
    assert [is_there(*one) for one in taken("from bayplan.api.types import batch_v1, no_v1\nbayplan.nothing()")] == [
        True,
        False,
        False,
    ]
