"""`$(NAME)` in commands, arguments and values of variables (k8s.io/kubernetes/third_party/forked/golang/expansion)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace references to names that have a value; others stay as they are, and `$$` is one dollar sign."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return values.get(name, match.group(0))

    return _REFERENCE.sub(value, text)


def references(text: str) -> set[str]:
    """The names that a text refers to."""
    return {match.group(1) for match in _REFERENCE.finditer(text) if match.group(1) is not None}


def expand_command(parts: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Each part of a command, expanded."""
    return tuple(expand(each, values) for each in parts)
