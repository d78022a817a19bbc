"""What a ValidatingAdmissionPolicy says of a request: its expressions, compiled once, over what is given. Pure.

Source: `k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.evaluation import OBJECT_BUDGET
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.apiserver.policies.expressions import OVER_BUDGET, OutOfBudget, PolicyExpressions, Round, compiled

_LONGEST_MESSAGE = 5 * 1024
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a policy does not want a request."""

    message: str
    reason: str = ""
    """For the status; empty if the policy could not be evaluated."""
    always_denies: bool = False
    """Whether this refuses the request whatever the binding's actions are."""
    index: int = 0
    """Of the expression."""


class CompiledPolicy(PolicyExpressions):
    """The expressions of a policy."""

    def __init__(self, spec: types.ValidatingAdmissionPolicySpec) -> None:
        super().__init__(spec)
        self._spec = spec
        self._validations = [compiled(self.compiler, one.expression) for one in spec.validations]
        self._messages = [
            compiled(self.compiler, one.message_expression, has_authorizer=False) if one.message_expression else None
            for one in spec.validations
        ]
        self._annotations = [
            compiled(self.compiler, one.value_expression, has_authorizer=False) for one in spec.audit_annotations
        ]

    def judge(
        self, bindings: Mapping[str, Any], notes: dict[str, str] | None = None, ignored: list[str] | None = None
    ) -> list[Denial]:
        """What the policy has against a request; bindings: `object`, `request` and the others that expressions may look at.

        notes: takes the policy's annotations for the audit log. ignored: takes what could not be evaluated, if the policy ignores that.
        """
        passed_over = [] if ignored is None else ignored
        applies, problem = self.applies(bindings)
        if problem:
            return self._failed(problem, passed_over)
        if not applies:
            return []
        try:
            found = self._violations(bindings, passed_over)
            return found + self._annotate(bindings, {} if notes is None else notes)
        except OutOfBudget:
            return self._failed(OVER_BUDGET, passed_over)

    def _failed(self, problem: str, ignored: list[str], index: int = 0) -> list[Denial]:
        """What follows when something cannot be evaluated."""
        if self.ignores_failures:
            ignored.append(problem)
            return []
        return [Denial(problem, index=index)]

    def _violations(self, bindings: Mapping[str, Any], ignored: list[str]) -> list[Denial]:
        steps = Round(self, bindings, OBJECT_BUDGET)
        results = [steps.evaluate(one) for one in self._validations]
        messages, over = self._made_messages(bindings, steps.budget)
        found: list[Denial] = []
        given = zip(self._spec.validations, messages, results, strict=True)
        for index, (validation, message, (value, problem)) in enumerate(given):
            failure = problem or (f"failed messageExpression: {over}" if over else "")
            if failure:
                found += self._failed(failure, ignored, index)
            elif value is not True:
                text = message or validation.message.strip() or f"failed expression: {validation.expression.strip()}"
                found.append(Denial(text, validation.reason or "Invalid", index=index))
        return found

    def _made_messages(self, bindings: Mapping[str, Any], budget: int) -> tuple[list[str], str]:
        """Messages that expressions make (empty where there is none that can be used), and whether they cost too much."""
        steps = Round(self, _without_authorizer(bindings), budget)
        try:
            values = [None if one is None else steps.evaluate(one)[0] for one in self._messages]
        except OutOfBudget:
            return [""] * len(self._messages), OVER_BUDGET
        texts = [value.strip() if isinstance(value, str) else "" for value in values]
        return ["" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text for text in texts], ""

    def _annotate(self, bindings: Mapping[str, Any], notes: dict[str, str]) -> list[Denial]:
        """Make the annotations for the audit log; those that cannot be made are denials."""
        steps = Round(self, _without_authorizer(bindings), OBJECT_BUDGET)
        problems: list[str] = []
        for annotation, expression in zip(self._spec.audit_annotations, self._annotations, strict=True):
            value, problem = steps.evaluate(expression)
            if problem:
                problems.append(problem)
            elif isinstance(value, str) and value.strip():
                notes[annotation.key] = value.strip()
        return [] if self.ignores_failures else [Denial(one, always_denies=True) for one in problems]


def _without_authorizer(bindings: Mapping[str, Any]) -> dict[str, Any]:
    """What messages and annotations may look at."""
    return {name: value for name, value in bindings.items() if not name.startswith("authorizer")}
