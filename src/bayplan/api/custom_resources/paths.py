"""The JSON paths of CustomResourceDefinitions: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.spec.names[*]`.

Source of the behaviour: Kubernetes' `client-go/util/jsonpath`, as far as columns, replicas and selectable fields can say it.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""\.\.(?P<deep>[\w\-/]+|\*)          # ..name
      | \.(?P<name>(?:[^.\[\]\\\s]|\\.)+)  # .name, with \. for a dot in it
      | \[\s*'(?P<quoted>(?:[^'\\]|\\.)*)'\s*\]
      | \[\s*(?P<any>\*)\s*\]
      | \[\s*\?\(\s*@(?P<left>[^=!<>\s]*)\s*(?:(?P<how>==|!=|<=|>=|<|>)\s*(?P<right>"[^"]*"|'[^']*'|[^\s)]+)\s*)?\)\s*\]
      | \[\s*(?P<index>-?\d*(?::-?\d*){0,2})\s*\]
    """,
    re.VERBOSE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class PathError(ValueError):
    """This is no path."""


class JsonPath:
    """A path that has been understood."""

    def __init__(self, text: str) -> None:
        """Raises PathError."""
        self.text = text
        self._steps = _steps(text)

    def find(self, tree: Any) -> list[Any]:
        """All values at the path, nulls included; none if something on the way is missing."""
        found = [tree]
        for step in self._steps:
            found = [value for one in found for value in step(one)]
        return found

    def first(self, tree: Any) -> Any:
        """The first value at the path, None if there is none."""
        return next(iter(self.find(tree)), None)


@functools.lru_cache(maxsize=1024)
def path_of(text: str) -> JsonPath:
    """A path, understood once. Raises PathError."""
    return JsonPath(text)


def _steps(text: str) -> list[Step]:
    steps: list[Step] = []
    at = 0
    if text and text[0] not in ".[":
        raise PathError(f"{text!r} does not begin with a dot")
    while at < len(text):
        if text[at:] == ".":
            break
        token = _TOKEN.match(text, at)
        if token is None or token.end() == at:
            raise PathError(f"{text!r} is no JSON path from character {at + 1} on")
        steps.append(_step(token))
        at = token.end()
    return steps


def _step(token: re.Match[str]) -> Step:
    if token["name"] is not None:
        name = re.sub(r"\\(.)", r"\1", token["name"])
        return _every if name == "*" else functools.partial(_field, name)
    if token["quoted"] is not None:
        return functools.partial(_field, re.sub(r"\\(.)", r"\1", token["quoted"]))
    if token["any"]:
        return _every
    if token["deep"] is not None:
        return functools.partial(_deep, token["deep"])
    if token["left"] is not None:
        return functools.partial(_matching, _steps(token["left"]), token["how"], token["right"])
    return functools.partial(_items, token["index"])


def _field(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (value[name] for name in sorted(value))
    elif isinstance(value, list):
        yield from value


def _deep(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    for inner in _every(value):
        yield from _deep(name, inner)


def _items(index: str, value: Any) -> Iterator[Any]:
    if not isinstance(value, list):
        return
    if ":" not in index:
        number = int(index or 0)
        if -len(value) <= number < len(value):
            yield value[number]
        return
    yield from value[slice(*(int(part) if part else None for part in index.split(":")))]


def _matching(left: list[Step], how: str | None, right: str | None, value: Any) -> Iterator[Any]:
    for item in _every(value):
        found = [item]
        for step in left:
            found = [inner for one in found for inner in step(one)]
        if found and (how is None or _compare(found[0], how, right or "")):
            yield item


def _compare(value: Any, how: str, text: str) -> bool:
    wanted = text[1:-1] if text[:1] in "\"'" else _literal(text)
    try:
        return _COMPARISONS[how](value, wanted)
    except TypeError:
        return False


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
