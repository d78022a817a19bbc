"""`x-kubernetes-validations`: rules of a schema in the Common Expression Language, checked against custom resources.

Fields are looked at in order of name, where Kubernetes looks at them in any order. Source: `apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.cel.evaluation import OBJECT_BUDGET, OBJECT_WORK, Outcome, Program
from bayplan.api.cel.values import NO_VALUE, EvaluationCancelled, Optional
from bayplan.api.custom_resources.correlation import Before, key_of, same
from bayplan.api.custom_resources.rule_compilation import Node, Rule
from bayplan.api.custom_resources.rule_values import typed
from bayplan.api.errors import OMITTED, FieldError, duplicate, forbidden, invalid, quoted, required
from bayplan.api.schema import Schema

_LONGEST_MESSAGE = 5 * 1024
"""Bytes of a text that a rule makes."""
_OVER_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_OVER_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
_ROOT = "<nil>"
"""The field of errors that concern an object as a whole."""


@dataclass(slots=True)
class Findings:
    """What rules say of an object."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Errors of parts that did not change, which may stay as they are."""
    cost: int = 0
    """Of all evaluations together."""


def check_rules(node: Node, tree: Any, before: Before | None = None, budget: int = OBJECT_BUDGET) -> Findings:
    """What the rules say of an object; before: what it was before a change. The budget is what all evaluations may cost together."""
    walk = _Walk(budget)
    try:
        old = None if before is None else before.value
        walk.visit(node, "", tree, old, _Ratchet(before) if before is not None else _Ratchet())
    except _Ended:
        pass
    return walk.findings


def rule_errors(node: Node, path: str, value: Any, old: Any) -> list[FieldError]:
    """What rules say of a value at a path that is no part of an object; old: what it was before, None if it is new."""
    walk = _Walk(OBJECT_BUDGET)
    with contextlib.suppress(_Ended):
        walk.visit(node, path, value, old, _Ratchet())
    return walk.findings.errors


class _Ended(Exception):
    """No more rules are looked at."""


@dataclass(frozen=True, slots=True)
class _Ratchet:
    """What a part was before, and what the nearest part around it was of which that is known."""

    current: Before | None = None
    parent: Before | None = None

    def field(self, name: str) -> _Ratchet:
        """That of a field."""
        if self.current is None:
            return self
        if self.parent is None and name in ("apiVersion", "kind"):
            return _Ratchet()
        return _Ratchet(self.current.field(name), self.current)

    def item(self, index: int) -> _Ratchet:
        """That of an item."""
        return self if self.current is None else _Ratchet(self.current.item(index), self.current)

    def holds(self) -> bool:
        """Whether nothing changed, so that what is wrong may stay so."""
        known = self.current or self.parent
        return known is not None and _is_unchanged(known)


def _is_unchanged(part: Before) -> bool:
    old, now = part.value, part.now
    if old is None or now is None:
        return old is None and now is None
    if isinstance(old, dict) and isinstance(now, dict):
        if old.keys() != now.keys():
            return False
        return all((below := part.field(name)) is not None and _is_unchanged(below) for name in now)
    if isinstance(old, list) and isinstance(now, list):
        if len(old) != len(now):
            return False
        if part.schema.get("x-kubernetes-list-type") != "map":
            return same(old, now)
        return all((below := part.item(index)) is not None and _is_unchanged(below) for index in range(len(now)))
    return same(old, now)


class _Walk:
    """One look at an object."""

    def __init__(self, budget: int) -> None:
        self.findings = Findings()
        self._budget = budget
        self._work = OBJECT_WORK

    def visit(self, node: Node, path: str, value: Any, old: Any, ratchet: _Ratchet) -> None:
        """Check a part and all below it. Raises _Ended."""
        if value is None:
            return
        if node.rules or node.problem:
            self._check(node, path, value, old, ratchet)
        for one in node.alternatives:
            self.visit(one, path, value, old, _Ratchet(None, ratchet.parent))
        if isinstance(value, list) and node.items is not None:
            find = _old_items(node.schema, old)
            for index, item in enumerate(value):
                self.visit(node.items, f"{path}[{index}]", item, find(item), ratchet.item(index))
        elif isinstance(value, dict):
            self._fields(node, path, value, old, ratchet)

    def _fields(self, node: Node, path: str, value: dict[str, Any], old: Any, ratchet: _Ratchet) -> None:
        known: dict[str, Any] = old if isinstance(old, dict) else {}
        if node.additional is not None:
            for name in sorted(value):
                self.visit(node.additional, f"{path}[{name}]", value[name], known.get(name), ratchet.field(name))
        for name in sorted(node.properties.keys() & value.keys()):
            below = f"{path}.{name}" if path else name
            self.visit(node.properties[name], below, value[name], known.get(name), ratchet.field(name))

    def _spend(self, outcome: Outcome) -> None:
        self._budget -= outcome.cost
        self._work -= outcome.work
        self.findings.cost += outcome.cost

    def _refuse(self, node: Node, path: str, detail: str) -> None:
        """Note that a rule could not be checked."""
        self.findings.errors.append(invalid(path or _ROOT, node.type, detail))

    def _check(self, node: Node, path: str, value: Any, old: Any, ratchet: _Ratchet) -> None:
        if node.problem:
            self._refuse(node, path, f"rule compiler initialization error: {node.problem}")
            return
        if self._budget <= 0 or self._work <= 0:
            self._refuse(node, path, _OVER_BUDGET)
            raise _Ended
        for rule in node.rules:
            if rule.problem:
                self._refuse(node, path, f"rule compile error: {rule.problem}")
            elif rule.program is not None and (old is not None or not rule.uses_old or rule.old_is_optional):
                self._apply(rule, rule.program, node, path, (value, old), ratchet)

    def _apply(
        self, rule: Rule, program: Program, node: Node, path: str, values: tuple[Any, Any], ratchet: _Ratchet
    ) -> None:
        value, old = values
        variables = _Variables(node.schema, value, old, old_is_optional=rule.old_is_optional)
        outcome = program.evaluate(variables, work_limit=self._work)
        if outcome.cost > self._budget or outcome.work > self._work:
            self._refuse(node, path, _OVER_BUDGET)
            raise _Ended
        self._spend(outcome)
        if outcome.error is not None:
            self._refuse_failed(rule, node, path, outcome)
            return
        if outcome.value is True:
            return
        detail = self._made_message(rule, node, path, values, ratchet) or rule.message.strip()
        detail = detail or f"failed rule: {rule.shown}"
        shown = OMITTED if node.type in ("object", "array") else value
        self._add(_error(rule, _joined(path, rule.field_path), shown, detail), rule, ratchet)

    def _refuse_failed(self, rule: Rule, node: Node, path: str, outcome: Outcome) -> None:
        error = outcome.error
        assert error is not None
        if isinstance(error, EvaluationCancelled):
            what = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._refuse(node, path, f"'{error.message}': {what}: {rule.shown}")
            raise _Ended
        if error.message.startswith("no such overload"):
            what = "call arguments did not match a supported operator, function or macro signature for rule"
            self._refuse(node, path, f"'{error.message}': {what}: {rule.shown}")
        else:
            self._refuse(node, path, f"{error.message} evaluating rule: {rule.shown}")

    def _add(self, error: FieldError, rule: Rule, ratchet: _Ratchet) -> None:
        if not rule.uses_old and ratchet.holds():
            self.findings.warnings.append(str(error))
        else:
            self.findings.errors.append(error)

    def _made_message(self, rule: Rule, node: Node, path: str, values: tuple[Any, Any], ratchet: _Ratchet) -> str:
        """The message that an expression makes; empty if there is none, or it cannot be used.

        It sees `oldSelf` only if a rule beside it does, and never as an optional value; so does Kubernetes.
        """
        if rule.message_program is None:
            return ""
        value, old = values
        variables = _Variables(node.schema, value, old if node.uses_old else None, old_is_optional=False)
        outcome = rule.message_program.evaluate(variables, work_limit=self._work)
        is_over = outcome.cost > self._budget or outcome.work > self._work
        problem = _MESSAGE_OVER_BUDGET if is_over else ""
        if not problem and isinstance(outcome.error, EvaluationCancelled):
            what = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            problem = f"{what}: {quoted(rule.message_text)}"
        if problem:
            self._add(invalid(_joined(path, rule.field_path), node.type, problem), rule, ratchet)
            raise _Ended
        self._spend(outcome)
        text = outcome.value.strip() if isinstance(outcome.value, str) else ""
        return "" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text


def _joined(path: str, below: str) -> str:
    return f"{path}.{below}" if path and below else path or below or _ROOT


def _error(rule: Rule, path: str, value: Any, detail: str) -> FieldError:
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return duplicate(path, value)
    return invalid(path, value, detail)


class _Variables(Mapping[str, Any]):
    """`self` and `oldSelf`, converted when a rule looks at them."""

    def __init__(self, schema: Schema, value: Any, old: Any, *, old_is_optional: bool) -> None:
        self._schema, self._value, self._old = schema, value, old
        self._old_is_optional = old_is_optional

    def __getitem__(self, name: str) -> Any:
        if name == "self":
            return typed(self._value, self._schema)
        if name != "oldSelf" or (self._old is None and not self._old_is_optional):
            raise KeyError(name)
        if self._old is None:
            return NO_VALUE
        old = typed(self._old, self._schema)
        return Optional(old) if self._old_is_optional else old

    def __iter__(self) -> Iterator[str]:
        return iter(("self", "oldSelf"))

    def __len__(self) -> int:
        return 2


def _old_items(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """A function that finds the old item for one of now: by its keys, in lists that have keys; else there is none."""
    names = schema.get("x-kubernetes-list-map-keys", ())
    if schema.get("x-kubernetes-list-type") != "map" or not names or not isinstance(old, list):
        return lambda item: None
    by_key: dict[Any, Any] = {}
    for one in old:
        key = key_of(one, names)
        if key is not None:
            by_key.setdefault(key, one)
    return lambda item: by_key.get(key_of(item, names))
