"""Programs: expressions that were checked, as functions that can be called again and again.

An evaluation costs steps as Kubernetes counts them, and ends when it has cost more than it may. Worked example:

    environment = Environment({"self": DYN})
    program = compile_expression(check("self.min <= self.max", environment), environment)
    program.evaluate({"self": from_json({"min": 1, "max": 5})})    ->    Outcome(value=True, error=None, cost=5)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.building import Builder
from bayplan.api.cel.checker import Checked, Environment
from bayplan.api.cel.steps import Frame, Step
from bayplan.api.cel.values import EvaluationCancelled, EvaluationError

PER_CALL_LIMIT = 1_000_000
"""What one evaluation may cost in Kubernetes."""
OBJECT_BUDGET = 10_000_000
"""What all evaluations for one object may cost together."""
OBJECT_WORK = 1_500_000
"""Microseconds of work that all evaluations for one object may take together, which is less than Kubernetes' budget alone allows: some operators
cost the same whatever they are given, and functions in Go are faster than here."""
_COSTS_PER_WORK = 3
"""What a plain operator costs while it works for a microsecond."""


class CompilationError(ValueError):
    """An expression has no program."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an evaluation: a value or an error."""

    value: Any
    error: EvaluationError | EvaluationCancelled | None
    cost: int
    work: int = 0
    """Microseconds, see `Frame`."""


class Program:
    """An expression that can be evaluated."""

    __slots__ = ("_names", "_slots", "_step")

    def __init__(self, step: Step, names: Mapping[str, int], slots: int) -> None:
        self._step = step
        self._names = tuple(names.items())
        self._slots = slots

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the expression looks at."""
        return frozenset(name for name, _ in self._names)

    def evaluate(
        self, variables: Mapping[str, Any], limit: int = PER_CALL_LIMIT, work_limit: int = OBJECT_WORK
    ) -> Outcome:
        """The value for these variables. One that is missing, or raises EvaluationError, is an error when it is looked at."""
        values: list[Any] = [None] * self._slots
        for name, slot in self._names:
            values[slot] = _looked_up(variables, name)
        frame = Frame(values, limit, work_limit)
        try:
            found = self._step(frame)
        except EvaluationCancelled as error:
            return Outcome(None, error, frame.cost, _work(frame))
        except EvaluationError as error:
            return _ended(None, error, frame)
        return _ended(found, None, frame)


def _looked_up(variables: Mapping[str, Any], name: str) -> Any:
    """A variable, or the error that looking at it is."""
    try:
        return variables[name]
    except KeyError:
        return EvaluationError(f"no such attribute(s): {name}")
    except EvaluationError as error:
        return error


def _ended(value: Any, error: EvaluationError | None, frame: Frame) -> Outcome:
    if frame.cost > frame.limit:
        return Outcome(None, EvaluationCancelled(), frame.cost, _work(frame))
    return Outcome(value, error, frame.cost, _work(frame))


def _work(frame: Frame) -> int:
    return frame.work + frame.cost // _COSTS_PER_WORK


def compile_expression(checked: Checked, environment: Environment) -> Program:
    """The program of an expression. Raises CompilationError for one with issues, and where a constant cannot be what it is used as."""
    if checked.root is None or checked.issues:
        raise CompilationError("the expression has issues")
    builder = Builder(checked, environment)
    try:
        step = builder.step(checked.root)
    except EvaluationError as error:
        raise CompilationError(f"program instantiation failed: {error.message}") from error
    except RecursionError as error:
        raise CompilationError("expression recursion limit exceeded: 250") from error
    return Program(step, builder.names, builder.slots)
