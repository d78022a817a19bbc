"""Expressions of CEL in kwok's objects, over `node`, `pod` and `container`. The language is loaded when the first one is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from bayplan.kubelet.simulator.errors import KwokFileError

if TYPE_CHECKING:
    from bayplan.api.cel.checker import Environment
    from bayplan.api.cel.evaluation import Program
    from bayplan.api.cel.functions.simulation import Figures

_VARIABLES: Final = ("container", "node", "pod")


def value_of(
    expression: str, objects: Mapping[str, Any], now: float, chance: Callable[[], float], figures: Figures | None = None
) -> Any:
    """What an expression is for objects (decoded JSON). now: unix seconds; figures: for one of metrics. Raises KwokFileError if it fails."""
    from bayplan.api.cel.functions.simulation import situation
    from bayplan.api.cel.values import from_json

    with situation(now, chance, figures):
        found = program(expression, of_metrics=figures is not None)
        outcome = found.evaluate({name: from_json(tree) for name, tree in objects.items()})
    if outcome.error is not None:
        raise KwokFileError(f"{expression!r}: {outcome.error.message}")
    return outcome.value


@functools.lru_cache(maxsize=1024)
def program(expression: str, *, of_metrics: bool = False) -> Program:
    """A compiled expression, remembered. Raises KwokFileError."""
    from bayplan.api.cel.checker import check
    from bayplan.api.cel.evaluation import CompilationError, compile_expression

    environment = _environment(of_metrics)
    checked = check(expression, environment)
    if checked.issues:
        raise KwokFileError("; ".join(issue.message for issue in checked.issues))
    try:
        return compile_expression(checked, environment)
    except CompilationError as error:
        raise KwokFileError(str(error)) from error


@functools.cache
def _environment(of_metrics: bool) -> Environment:
    from bayplan.api.cel.checker import Environment
    from bayplan.api.cel.functions.simulation import METRIC_SIGNATURES, SIGNATURES
    from bayplan.api.cel.library import functions_with
    from bayplan.api.cel.types import DYN

    signatures = (*SIGNATURES, *METRIC_SIGNATURES) if of_metrics else SIGNATURES
    return Environment(dict.fromkeys(_VARIABLES, DYN), functions=functions_with(*signatures))
