"""Whether an API server takes an expression of an admission policy or webhook: it compiles, and evaluates to what is wanted.

Objects and parameters can be anything here; what does not fit their kinds is only warned about (`policies`).
"""

from __future__ import annotations

from bayplan.api.cel.checker import Checked, Environment, check
from bayplan.api.cel.environments import AUTHORIZER, Composed, for_patches, for_requests
from bayplan.api.cel.evaluation import CompilationError, Program, compile_expression
from bayplan.api.cel.issues import Issue, display
from bayplan.api.cel.types import DYN, ERROR, Type, named_type, struct
from bayplan.api.cel.validators import unreadable, validate


class Compiler:
    """Compiles the expressions of one policy. Only a policy that mutates, or has variables, knows the name `variables`."""

    def __init__(self, *, has_params: bool, has_variables: bool = False) -> None:
        self._params: dict[str, Type] = {"params": DYN} if has_params else {}
        self._composed = Composed(self._given(has_authorizer=True)) if has_variables else None
        self._silent = Composed(self._given(has_authorizer=False)) if has_variables else None

    def _given(self, *, has_authorizer: bool) -> Environment:
        asking = {
            "authorizer": AUTHORIZER,
            "authorizer.requestResource": struct("kubernetes.authorization.ResourceCheck"),
        }
        return Environment({"object": DYN, "oldObject": DYN, **self._params, **(asking if has_authorizer else {})})

    def problem(self, expression: str, *wanted: str, has_authorizer: bool = True) -> str:
        """Why an expression is refused, empty if it is not. It has to evaluate to one of the named types, such as `bool`."""
        environment = self._environment(has_authorizer=has_authorizer)
        return _problem(expression, environment, [named_type(one) for one in wanted])[0]

    def patch_problem(self, expression: str, wanted: str) -> str:
        """The same for an expression that makes patches: an `Object`, or a `list(JSONPatch)`."""
        return _problem(expression, for_patches(self._environment(has_authorizer=True)), [named_type(wanted)])[0]

    def program(self, expression: str, *, has_authorizer: bool = True, makes_patches: bool = False) -> Program:
        """The program of an expression. Raises CompilationError."""
        environment = self._environment(has_authorizer=has_authorizer)
        environment = for_patches(environment) if makes_patches else environment
        problem = _problem(expression, environment, [])[0]
        if problem:
            raise CompilationError(problem)
        return compile_expression(check(expression, environment), environment)

    def _environment(self, *, has_authorizer: bool) -> Environment:
        composed = self._composed if has_authorizer else self._silent
        return for_requests(self._given(has_authorizer=has_authorizer)) if composed is None else composed.environment

    def add_variable(self, name: str, expression: str) -> str:
        """Why the expression of a variable is refused, empty if it is not. Later expressions see the variable."""
        if self._composed is None or self._silent is None:
            raise ValueError("this policy has no variables")
        text, found = _problem(expression, self._composed.environment, [])
        self._composed.add(name, found)
        self._silent.add(name, found)
        return text


def _problem(expression: str, environment: Environment, wanted: list[Type]) -> tuple[str, Type]:
    """Why an expression is refused, and what it evaluates to."""
    checked = check(expression, environment)
    issues = checked.issues or _issues_of_literals(checked)
    if issues:
        return f"compilation failed: {display(expression, issues)}", ERROR
    if wanted and checked.type not in wanted:
        names = [one.run_time_name for one in wanted]
        goal = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
        return f"must evaluate to {goal} but got {checked.type.run_time_name}", checked.type
    try:
        compile_expression(checked, environment)
    except CompilationError as error:  # a constant that cannot be converted
        return str(error), ERROR
    return "", checked.type


def _issues_of_literals(checked: Checked) -> list[Issue]:
    return [*unreadable(checked.root), *validate(checked.root, checked.types)] if checked.root is not None else []
