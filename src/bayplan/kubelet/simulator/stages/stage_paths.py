"""Where to look in an object: the part of jq that selectors of stages use.

    .status.phase     .metadata.annotations["a.b/c"]     .status.conditions.[] | select( .type == "Ready" ) | .status     .items[0]

The result is all values that are there; `null` counts as not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_STEP = re.compile(
    r"""\s*(?:\.?\[\s*("(?:[^"\\]|\\.)*"|-?\d+|)\s*\]\??|\.([A-Za-z_]\w*)\??|\."((?:[^"\\]|\\.)*)"|\.(?=\s|$))"""
)
_SELECT = re.compile(
    r"""\s*select\(\s*(?P<path>.+?)\s*(?P<sign>==|!=)\s*(?P<value>"(?:[^"\\]|\\.)*"|-?\d+|true|false|null)\s*\)\s*"""
)


class PathError(ValueError):
    """An expression is not one of those that are understood; the message names it."""


@dataclass(frozen=True, slots=True)
class _Each:
    """All items of a list or values of an object."""


@dataclass(frozen=True, slots=True)
class _Select:
    """Only values of which something is (or is not) equal to something."""

    path: Path
    value: Any
    equal: bool


Step = str | int | _Each | _Select


@dataclass(frozen=True, slots=True)
class Path:
    """An expression that has been read."""

    steps: tuple[Step, ...]

    def values(self, root: Any) -> list[Any]:
        """What is found in plain data."""
        found = [root]
        for step in self.steps:
            found = [one for value in found for one in _next(value, step) if one is not None]
        return found


def _next(value: Any, step: Step) -> Iterable[Any]:
    if isinstance(step, str):
        return (value.get(step),) if isinstance(value, Mapping) else ()
    if isinstance(step, int):
        return (value[step],) if isinstance(value, list) and -len(value) <= step < len(value) else ()
    if isinstance(step, _Select):
        found = step.path.values(value)
        matches = (found[0] if found else None) == step.value
        return (value,) if matches == step.equal else ()
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def parse_path(text: str) -> Path:
    """Read an expression. Raises PathError."""
    steps: list[Step] = []
    for part in _pipes(text):
        if match := _SELECT.fullmatch(part):
            steps.append(_Select(parse_path(match["path"]), json.loads(match["value"]), match["sign"] == "=="))
        else:
            steps += _steps(part, text)
    return Path(tuple(steps))


def _steps(part: str, whole: str) -> list[Step]:
    found: list[Step] = []
    position = 0
    while part[position:].strip():
        match = _STEP.match(part, position)
        if match is None or match.end() == position:
            raise PathError(
                f'{whole!r}: {part[position:].strip()!r} is not supported; supported: .field, ["key"], [0], .[], select(... == ...)'
            )
        position = match.end()
        if match[2] is not None:
            found.append(match[2])
        elif match[3] is not None:
            found.append(match[3])
        elif match[1]:
            found.append(json.loads(match[1]))
        elif match[1] == "":
            found.append(_Each())
    return found


def _pipes(text: str) -> list[str]:
    """Parts between `|` that stand outside of quotes and parentheses."""
    parts, depth, quoted, start = [], 0, False, 0
    for position, character in enumerate(text):
        if character == '"' and text[position - 1 : position] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and not depth:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
