"""Expressions of CEL in kwok's objects. The language is loaded when the first one is read."""

from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.support.memory.memo import memoized

if TYPE_CHECKING:
    from bayplan.api.cel.checker import Environment
    from bayplan.api.cel.evaluation import Program
    from bayplan.api.cel.functions.simulation import Figures


class Scope(enum.Enum):
    """Where an expression stands: the variables that it may look at."""

    USAGE = ("container", "node", "pod")
    METRICS = ("container", "node", "pod", "")
    """The same; it may call more functions."""
    STAGE = ("self",)


@contextlib.contextmanager
def at_moment(now: float, chance: Callable[[], float], figures: Figures | None = None) -> Iterator[None]:
    """Evaluate expressions at a moment (unix seconds), with numbers in [0, 1). figures: for those of metrics."""
    from bayplan.api.cel.functions.simulation import situation

    with situation(now, chance, figures):
        yield


def value_of(expression: str, objects: Mapping[str, Any], scope: Scope) -> Any:
    """What an expression is for objects (decoded JSON), within `at_moment`. Raises KwokFileError if it fails."""
    from bayplan.api.cel.values import from_json

    outcome = program(expression, scope).evaluate({name: from_json(tree) for name, tree in objects.items()})
    if outcome.error is not None:
        raise KwokFileError(f"{expression!r}: {outcome.error.message}")
    return outcome.value


@memoized(1024)
def program(expression: str, scope: Scope) -> Program:
    """A compiled expression, remembered. Raises KwokFileError."""
    from bayplan.api.cel.checker import check
    from bayplan.api.cel.evaluation import CompilationError, compile_expression

    environment = _environment(scope)
    checked = check(expression, environment)
    if checked.issues:
        raise KwokFileError("; ".join(issue.message for issue in checked.issues))
    try:
        return compile_expression(checked, environment)
    except CompilationError as error:
        raise KwokFileError(str(error)) from error


@functools.cache
def _environment(scope: Scope) -> Environment:
    from bayplan.api.cel.checker import Environment
    from bayplan.api.cel.functions.simulation import METRIC_SIGNATURES, SIGNATURES
    from bayplan.api.cel.library import functions_with
    from bayplan.api.cel.types import DYN

    signatures = (*SIGNATURES, *METRIC_SIGNATURES) if scope is Scope.METRICS else SIGNATURES
    variables = {name: DYN for name in scope.value if name}
    return Environment(variables, functions=functions_with(*signatures))
