"""The JSON paths of CustomResourceDefinitions: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.spec.names[*]`.

Source of the behaviour: Kubernetes' `client-go/util/jsonpath`, for columns and selectable fields, where fields may be missing. `range` and `end` are not for
these. A path is read into steps; each step makes of some values those that follow from them.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from bayplan.api.custom_resources import patterns
from bayplan.support.memory.memo import memoized

Values = list[Any]
Step = Callable[[Values], Values]

_ENDS = frozenset(" \t\r\n.,[]$@{}")
_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?", re.ASCII)
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=~]+)(.+)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")


class PathError(ValueError):
    """This is no path, or it leads where nothing can be found in a tree."""


class JsonPath:
    """A path that has been understood."""

    def __init__(self, text: str) -> None:
        """Raises PathError."""
        self.text = text
        self._steps = _steps(text)

    def find(self, tree: Any) -> Values:
        """All values at the path, nulls included; none if a field on the way is missing.

        Raises PathError if an item is asked of what is no list or shorter, or values are compared that are of different types.
        """
        return _follow(self._steps, [tree])

    def first(self, tree: Any) -> Any:
        """The first value at the path, None if there is none. Raises PathError as `find` does."""
        return next(iter(self.find(tree)), None)


@memoized(1024)
def path_of(text: str) -> JsonPath:
    """A path, understood once. Raises PathError."""
    return JsonPath(text)


def _follow(steps: list[Step], values: Values) -> Values:
    for step in steps:
        values = step(values)
    return values


def _steps(text: str) -> list[Step]:
    reader = _Reader(text)
    while reader.at < len(text):
        reader.read()
    return reader.steps


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.steps: list[Step] = []

    def read(self) -> None:
        """One step, or a character that means nothing. Raises PathError."""
        letter = self.text[self.at]
        if self.text.startswith("[?(", self.at):
            self._filter()
        elif self.text.startswith("..", self.at):
            self._recursion()
        elif letter in " @$":
            self.at += 1
        elif letter == "[":
            self._brackets()
        elif letter in "\"'":
            self._constant(self._quoted())
        elif letter == ".":
            self.at += 1
            self._field()
        elif letter in "+-" or letter.isdecimal():
            self._number()
        else:
            self._word()

    def _constant(self, value: Any) -> None:
        self.steps.append(lambda values: [value])

    def _field(self) -> None:
        name = self._name()
        self.steps.append(_every if name == "*" else functools.partial(_fields, re.sub(r"\\", "", name)))

    def _name(self) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _ENDS:
            self.at += 2 if self.text[self.at] == "\\" else 1
        return self.text[start : self.at]

    def _recursion(self) -> None:
        if self.steps and self.steps[-1] is _everything:
            raise PathError(f"{self.text!r} descends twice at once")
        self.at += 2
        self.steps.append(_everything)
        following = self.text[self.at : self.at + 1]
        if following == "_" or following.isalpha() or following.isdecimal():
            self._field()

    def _number(self) -> None:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            raise PathError(f"{self.text!r} has a sign without a number")
        self.at = found.end()
        self._constant(float(found[0]) if found[1] else int(found[0]))

    def _word(self) -> None:
        if not (self.text[self.at] == "_" or self.text[self.at].isalpha()):
            raise PathError(f"{self.text!r} has an unexpected {self.text[self.at]!r}")
        name = self._name()
        if name not in ("true", "false"):
            raise PathError(f"{self.text!r}: nothing is called {name}")
        self._constant(name == "true")

    def _quoted(self) -> str:
        quote, start = self.text[self.at], self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != quote:
            self.at += 2 if self.text[self.at] == "\\" else 1
        if self.at >= len(self.text):
            raise PathError(f"{self.text!r} has a quotation mark without an end")
        self.at += 1
        inner = self.text[start + 1 : self.at - 1].replace("\\'", "'")
        try:
            unquoted: str = json.loads(f'"{inner}"') if "\\" in inner else inner
        except ValueError:
            raise PathError(f"{self.text!r} has a malformed string") from None
        return unquoted

    def _brackets(self) -> None:
        end = self.text.find("]", self.at)
        if end < 0:
            raise PathError(f"{self.text!r} has a bracket without an end")
        inner = self.text[self.at + 1 : end]
        self.at = end + 1
        members = inner.split(",")
        if len(members) > 1:
            each = [_steps(f"[{one.strip(' ')}]") for one in members]
            self.steps.append(lambda values: [value for steps in each for value in _follow(steps, values)])
            return
        key = _KEY.fullmatch(inner)
        if key is not None:  # dots in it lead further down, too, unless they are escaped
            self.steps += _steps(f".{key[1]}")
            return
        found = _SLICE.fullmatch(":" if inner == "*" else inner)
        if found is None or "-" in found.groups():
            raise PathError(f"{self.text!r} has a malformed index: {inner}")
        first, last, step = found.groups()
        self.steps.append(functools.partial(_items, int(first or 0), _end_of(first, last), int(step) if step else None))

    def _filter(self) -> None:
        start = self.at + len("[?(")
        self.at = start
        quote = ""
        while self.at < len(self.text):
            letter = self.text[self.at]
            if quote and letter == "\\":
                self.at += 1
            elif letter == quote:
                quote = ""
            elif not quote and letter in "\"'":
                quote = letter
            elif not quote and letter == ")":
                break
            self.at += 1
        if not self.text.startswith(")]", self.at):
            raise PathError(f"{self.text!r} has a filter without an end")
        inner = self.text[start : self.at]
        self.at += len(")]")
        found = _COMPARISON.fullmatch(inner)
        if found is None:
            self.steps.append(functools.partial(_having, _steps(inner)))
        elif found[2] not in _COMPARISONS:
            raise PathError(f"{self.text!r} compares by {found[2]}")
        else:
            self.steps.append(functools.partial(_comparing, _steps(found[1]), found[2], _steps(found[3])))


class _End(NamedTuple):
    """Where a slice ends."""

    at: int | None
    """Before which item; None for the end of the list."""
    is_single: bool = False
    """Whether just one item was asked for."""


def _end_of(first: str, end: str | None) -> _End:
    return _End(int(first or 0) + 1, is_single=True) if end is None else _End(int(end) if end else None)


def _fields(name: str, values: Values) -> Values:
    return [value[name] for value in values if isinstance(value, dict) and name in value]


def _below(value: Any) -> Values:
    if isinstance(value, dict):
        return [value[name] for name in sorted(value)]
    return value if isinstance(value, list) else []


def _every(values: Values) -> Values:
    return [inner for value in values for inner in _below(value)]


def _everything(values: Values) -> Values:
    """All objects and lists that are not empty, at any depth."""
    found = []
    for value in values:
        below = _below(value)
        if below:
            found += [value, *_everything(below)]
    return found


def _items(first: int, end: _End, step: int | None, values: Values) -> Values:
    found: Values = []
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise PathError("items can only be had of lists")
        size = len(value)
        start, stop = first, size if end.at is None else end.at
        start += size if start < 0 else 0
        stop += size if stop < 0 or (end.is_single and not stop) else 0
        if start == stop:
            return found
        if not 0 <= start < stop <= size or (step is not None and step <= 0):
            raise PathError(f"there are no items {start} to {stop} in a list of {size}")
        found += value[start:stop:step]
    return found


def _members(values: Values) -> Values:
    """The items of lists. Raises PathError for anything else."""
    if any(not isinstance(value, list) for value in values):
        raise PathError("only lists can be filtered")
    return [item for value in values for item in value]


def _having(steps: list[Step], values: Values) -> Values:
    found = []
    for item in _members(values):
        try:
            if _follow(steps, [item]):
                found.append(item)
        except PathError:
            continue
    return found


def _comparing(left: list[Step], how: str, right: list[Step], values: Values) -> Values:
    found = []
    for item in _members(values):
        one, other = _follow(left, [item]), _follow(right, [item])
        if len(one) > 1 or len(other) > 1:
            raise PathError("only one value can be compared at a time")
        if one and other and _COMPARISONS[how](one[0], other[0]):
            found.append(item)
    return found


def _kind(value: Any) -> type[Any]:
    """The type by which values are comparable. Raises PathError for those that never are."""
    if type(value) not in (bool, int, float, str):
        raise PathError("only scalars can be compared")
    return type(value)


def _equal(one: Any, other: Any) -> bool:
    if _kind(one) is not _kind(other):
        raise PathError("values of different types cannot be compared")
    return bool(one == other)


def _less(one: Any, other: Any) -> bool:
    if _kind(one) is not _kind(other) or isinstance(one, bool):
        raise PathError("values of these types have no order")
    return bool(one < other)


def _matching(text: Any, pattern: Any) -> bool:
    if not isinstance(text, str) or not isinstance(pattern, str) or not patterns.is_well_formed(pattern):
        raise PathError("only texts can be searched, by a pattern")
    return patterns.matches(text, pattern)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda one, other: not _equal(one, other),
    "<": _less,
    "<=": lambda one, other: _less(one, other) or _equal(one, other),
    ">": lambda one, other: _less(other, one),
    ">=": lambda one, other: not _less(one, other),
    "=~": _matching,
}
