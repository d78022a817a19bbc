"""How functions are put into tables: by name, and by the types of what they are given.

A group of functions is a module with a `Table`. Several functions may have one name; which one is called is found by the types of the values, once per
combination of types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bayplan.api.cel.values import (
    Duration,
    ListValue,
    Map,
    Optional,
    Timestamp,
    UInt,
    no_such_overload,
)

Implementation = Callable[..., Any]
_Added = TypeVar("_Added", bound=Implementation)

ANY: type = object
BOOL, BYTES, DOUBLE, INT, STRING = bool, bytes, float, int, str
DURATION, LIST, MAP, OPTIONAL, TIMESTAMP, UINT = Duration, ListValue, Map, Optional, Timestamp, UInt
ORDERED = (BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT)
_EXACT = frozenset((BOOL, BYTES, DOUBLE, INT, STRING, UINT))


def _takes(wanted: type, given: type) -> bool:
    if wanted is ANY:
        return True
    if wanted in _EXACT:
        return given is wanted
    return issubclass(given, wanted) or (wanted is LIST and given is list)


class Function:
    """All functions of one name that are called the same way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[Any, Implementation] = {}
        """What takes values of certain types (a type for functions of one argument, else a tuple of them), as far as it was asked for."""
        self._overloads: list[tuple[tuple[type, ...], Implementation]] = []

    def add(self, wanted: tuple[type, ...], implementation: Implementation) -> None:
        """Add a function for values of these types."""
        self._overloads.append((wanted, implementation))

    def extend(self, other: Function) -> None:
        """Add the functions of another group."""
        self._overloads += other._overloads

    def resolve(self, *values: Any) -> Implementation:
        """The function that takes these values. Raises EvaluationError."""
        given = tuple(map(type, values))
        for wanted, implementation in self._overloads:
            if len(wanted) == len(given) and all(map(_takes, wanted, given)):
                self.found[given[0] if len(given) == 1 else given] = implementation
                return implementation
        raise no_such_overload(self.name, *values)


class Table:
    """Functions by name, those that are called on something apart from the others."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, bool], Function] = {}

    def add(self, name: str, wanted: tuple[type, ...], implementation: Implementation, *, member: bool = False) -> None:
        """Add a function; of member functions the first type is that of the target."""
        found = self.functions.setdefault((name, member), Function(name))
        found.add(wanted, implementation)

    def function(self, name: str, *wanted: type) -> Callable[[_Added], _Added]:
        """A decorator that adds a function."""

        def added(implementation: _Added) -> _Added:
            self.add(name, wanted, implementation)
            return implementation

        return added

    def member(self, name: str, *wanted: type) -> Callable[[_Added], _Added]:
        """A decorator that adds a function which is called on its first argument."""

        def added(implementation: _Added) -> _Added:
            self.add(name, wanted, implementation, member=True)
            return implementation

        return added
