"""The expressions of policies of both kinds: variables, conditions, and how evaluations share a budget. Pure.

Source: `k8s.io/apiserver/pkg/admission/plugin/cel`, and `pkg/admission/plugin/webhook/matchconditions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.compilation import Compiler
from bayplan.api.cel.evaluation import OBJECT_WORK, CompilationError, Program
from bayplan.api.cel.values import ABSENT, EvaluationError, Map
from bayplan.api.types import admissionregistration_v1 as types

_CONDITIONS_BUDGET = 2_500_000
OVER_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
Spec = types.ValidatingAdmissionPolicySpec | types.MutatingAdmissionPolicySpec


class OutOfBudget(Exception):
    """No more expressions are evaluated."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A part of a policy. Without a program it does not compile."""

    text: str
    program: Program | None
    problem: str = ""


class _Variables(Map):
    """The variables of a policy: each is evaluated when it is first looked at."""

    __slots__ = ("_bindings", "_expressions", "_known", "cost", "work_left")
    type_name = "kubernetes.variables"

    def __init__(self, expressions: Mapping[str, Expression], bindings: Mapping[str, Any]) -> None:
        self._expressions = expressions
        self._bindings = {**bindings, "variables": self}
        self._known: dict[str, Any] = {}
        self.cost = 0
        """Of what was evaluated since somebody asked."""
        self.work_left = OBJECT_WORK
        """Microseconds that all expressions of the round may still take."""

    def __len__(self) -> int:
        return len(self._expressions)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._expressions.keys()

    def find(self, key: Any) -> Any:
        """The value of a variable. Raises EvaluationError for one that has none."""
        expression = self._expressions.get(key)
        if expression is None:
            return ABSENT
        if key not in self._known:
            self._known[key] = self._evaluated(key, expression)
        found = self._known[key]
        if isinstance(found, EvaluationError):
            raise found
        return found

    def _evaluated(self, name: str, expression: Expression) -> Any:
        if expression.program is None:
            return EvaluationError(f'composited variable "{name}" fails to compile: {expression.problem}')
        outcome = expression.program.evaluate(self._bindings, work_limit=self.work_left)
        self.cost += outcome.cost
        self.work_left -= outcome.work
        if outcome.error is not None:
            return EvaluationError(f'composited variable "{name}" fails to evaluate: {outcome.error.message}')
        return outcome.value


class Round:
    """Expressions that are evaluated one after the other on one budget."""

    def __init__(self, policy: PolicyExpressions, bindings: Mapping[str, Any], budget: int) -> None:
        self.budget = budget
        self._variables = _Variables(policy.variables, bindings)
        self._bindings = {**bindings, "variables": self._variables}

    def evaluate(self, expression: Expression) -> tuple[Any, str]:
        """The value of an expression, or what is wrong with it. Raises OutOfBudget."""
        if expression.program is None:
            return None, f"compilation error: {expression.problem}"
        outcome = expression.program.evaluate(self._bindings, work_limit=self._variables.work_left)
        self._variables.work_left -= outcome.work
        spent = outcome.cost + self._variables.cost
        self._variables.cost = 0
        if spent > self.budget or self._variables.work_left <= 0:
            raise OutOfBudget
        self.budget -= spent
        if outcome.error is not None:
            return None, f"expression '{expression.text}' resulted in error: {outcome.error.message}"
        return outcome.value, ""


class PolicyExpressions:
    """What policies of both kinds have."""

    def __init__(self, spec: Spec) -> None:
        self.ignores_failures = spec.failure_policy == "Ignore"
        mutates = isinstance(spec, types.MutatingAdmissionPolicySpec)
        self.compiler = Compiler(has_params=spec.param_kind is not None, has_variables=mutates or bool(spec.variables))
        self.variables: dict[str, Expression] = {}
        for one in spec.variables:
            self.variables[one.name] = compiled(self.compiler, one.expression)
            self.compiler.add_variable(one.name, one.expression)
        self.conditions = [compiled(self.compiler, one.expression) for one in spec.match_conditions]

    def applies(self, bindings: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether all conditions hold, or why that is not known. A false one settles it; errors do not matter then. They see no namespace, as in Kubernetes."""
        steps = Round(self, {**bindings, "namespaceObject": None}, _CONDITIONS_BUDGET)
        problems: list[str] = []
        try:
            results = [steps.evaluate(one) for one in self.conditions]
        except OutOfBudget:
            return False, OVER_BUDGET
        for value, problem in results:
            if value is False:
                return False, ""
            if problem and problem not in problems:
                problems.append(problem)
        if not problems:
            return True, ""
        return False, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def compiled(
    compiler: Compiler, expression: str, *, has_authorizer: bool = True, makes_patches: bool = False
) -> Expression:
    """A part of a policy."""
    try:
        return Expression(
            expression, compiler.program(expression, has_authorizer=has_authorizer, makes_patches=makes_patches)
        )
    except CompilationError as error:
        return Expression(expression, None, str(error))
