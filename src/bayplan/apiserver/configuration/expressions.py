"""Expressions of CEL in configuration files, which are compiled once and evaluated for each request. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.api.cel.checker import Environment, check
from bayplan.api.cel.evaluation import CompilationError, Program, compile_expression
from bayplan.api.cel.issues import display
from bayplan.api.cel.nodes import Call, Ident, Literal, Node, Select
from bayplan.api.cel.types import Type
from bayplan.api.cel.validators import parts, unreadable, validate


class ExpressionError(ValueError):
    """An expression has no value for a request."""


class Expression:
    """A compiled expression."""

    def __init__(
        self,
        text: str,
        environment: Environment,
        wanted: Type | None = None,
        message: str = "",
        *,
        says_what_it_is: bool = False,
    ) -> None:
        """wanted: what it must evaluate to; None for anything. message: what is said if it is false. says_what_it_is: whether an error tells what it evaluates
        to instead. Raises CompilationError."""
        checked = check(text, environment)
        issues = [*checked.issues]
        if not issues and checked.root is not None:
            issues = [*unreadable(checked.root), *validate(checked.root, checked.types)]
        if issues or checked.root is None:
            raise CompilationError(f"compilation failed: {display(text, issues)}")
        if wanted is not None and checked.type != wanted:
            found = f" but got {checked.type}" if says_what_it_is else ""
            raise CompilationError(f"must evaluate to {wanted}{found}")
        self.text = text
        self.message = message
        self._root: Node = checked.root
        self._program: Program = compile_expression(checked, environment)

    def selects(self, field: str, operand: str = "") -> bool:
        """Whether it looks at a field, also as `.?FIELD`. operand: of which variable; "" for any value."""
        return any(_selects(node, field, operand) for node in _all_nodes(self._root))

    def evaluate(self, **variables: Any) -> Any:
        """Its value. Raises ExpressionError."""
        outcome = self._program.evaluate(variables)
        if outcome.error is not None:
            raise ExpressionError(f"expression '{self.text}' resulted in error: {outcome.error.message}")
        return outcome.value


def _all_nodes(root: Node) -> Iterator[Node]:
    yield root
    for node in parts(root):
        yield from _all_nodes(node)


def _selects(node: Node, field: str, operand: str) -> bool:
    if isinstance(node, Select):
        return node.field == field and _is(node.operand, operand)
    if isinstance(node, Call) and node.target is None and node.function == "_?._" and len(node.arguments) == 2:
        held, name = node.arguments
        return _is(held, operand) and isinstance(name, Literal) and name.text == field
    return False


def _is(node: Node, variable: str) -> bool:
    return not variable or (isinstance(node, Ident) and node.name == variable)
