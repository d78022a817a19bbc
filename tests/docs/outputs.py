"""Comparing what a command printed with what a page shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

_VARYING: Final = (
    (re.compile(r"\b(\d+\.\d+\.\d+\.\d+|localhost):\d{4,5}\b"), r"\1:PORT"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|s|m|h|d)\b(?=[\s,)]|$)"), "AGE"),
    (re.compile(r"\b\d+(?:\.\d+)?(?:Mi|KiB|MiB)(?=\s|$)"), "SIZE"),
    (re.compile(r"-[b-df-hj-np-tv-z2-9]{8,10}-[b-df-hj-np-tv-z2-9]{5}\b"), "-HASH-ID"),
    (re.compile(r"[ \t]+"), " "),
)
"""What differs from run to run, and what stands for it. Ages, sizes and spaces may have other widths."""
_ANY: Final = "..."


def difference(shown: Sequence[str], printed: str) -> str:
    """How a command's output differs from what a page shows; empty if it does not. A line of `...` on the page stands for any lines,
    ` ...` at the end of a line for the rest of it."""
    wanted, found = _plain(shown), _plain(printed.splitlines())
    if _matches(wanted, found):
        return ""
    return "\n".join(difflib.unified_diff(wanted, found, "shown", "printed", lineterm=""))


def _plain(lines: Sequence[str]) -> list[str]:
    return [text for text in (_normal(line) for line in lines) if text]


def _normal(line: str) -> str:
    for pattern, instead in _VARYING:
        line = pattern.sub(instead, line)
    return line.strip()


def _matches(wanted: Sequence[str], found: Sequence[str]) -> bool:
    if not wanted:
        return not found
    if wanted[0] == _ANY:
        return any(_matches(wanted[1:], found[start:]) for start in range(len(found) + 1))
    return bool(found) and _is_line(wanted[0], found[0]) and _matches(wanted[1:], found[1:])


def _is_line(wanted: str, found: str) -> bool:
    return found.startswith(wanted.removesuffix(_ANY)) if wanted.endswith(f" {_ANY}") else wanted == found
