"""CEL expressions over devices (`device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name`).

The language is `bayplan.api.cel`, which is loaded when the first expression is compiled. Source of the behaviour:
`k8s.io/dynamic-resource-allocation/cel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.api.validation.devices.device_expressions import environment, expression_problem
from bayplan.support.memory.memo import memoized

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import Device


class ExpressionError(ValueError):
    """An expression does not compile, or fails on a device."""


class DeviceExpression:
    """A compiled expression."""

    def __init__(self, text: str) -> None:
        """Raises ExpressionError if it does not compile."""
        from bayplan.api.cel.checker import check
        from bayplan.api.cel.evaluation import CompilationError, compile_expression

        problem = expression_problem(text)
        if problem:
            raise ExpressionError(problem)
        self.text = text
        try:
            self._program = compile_expression(check(text, environment()), environment())
        except CompilationError as error:
            raise ExpressionError(str(error)) from error

    def matches(self, driver: str, device: Device) -> bool:
        """Whether a device is meant. Raises ExpressionError if the expression fails or gives no boolean."""
        from bayplan.api.cel.values import EvaluationError, type_name
        from bayplan.scheduler.snapshot.device_values import describe

        try:
            outcome = self._program.evaluate({"device": describe(driver, device)})
        except EvaluationError as error:
            raise ExpressionError(error.message) from error
        if outcome.error is not None:
            raise ExpressionError(outcome.error.message)
        if not isinstance(outcome.value, bool):
            kind = type_name(outcome.value)
            raise ExpressionError(f"CEL result of type {kind} could not be converted to bool: type conversion error")
        return outcome.value


def split_name(name: str, driver: str) -> tuple[str, str]:
    """(domain, name) of an attribute or capacity."""
    domain, slash, plain = name.rpartition("/")
    return (domain, plain) if slash else (driver, name)


@memoized(1024)
def compiled(text: str) -> DeviceExpression:
    """A compiled expression, remembered. Raises ExpressionError."""
    return DeviceExpression(text)
