"""Expressions of CEL over the claims of a token, and over the user that they have become. Pure.

Source: `k8s.io/apiserver/pkg/authentication/cel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from bayplan.api.cel.checker import Environment, check
from bayplan.api.cel.evaluation import CompilationError, Program, compile_expression
from bayplan.api.cel.issues import display
from bayplan.api.cel.nodes import Call, Ident, Literal, Node, Select
from bayplan.api.cel.schema_types import unescaped
from bayplan.api.cel.types import BOOL, DYN, STRING, Type, list_of, map_of, struct
from bayplan.api.cel.validators import parts, unreadable, validate
from bayplan.api.cel.values import ABSENT, Map
from bayplan.apiserver.requests import User

CLAIMS: Final = Environment({"claims": map_of(STRING, DYN)})
_USER_INFO: Final = "kubernetes.UserInfo"
USER: Final = Environment(
    {"user": struct(_USER_INFO)},
    {
        _USER_INFO: {
            "username": STRING,
            "uid": STRING,
            "groups": list_of(STRING),
            "extra": map_of(STRING, list_of(STRING)),
        }
    },
)


class Expression:
    """A compiled expression."""

    def __init__(self, text: str, environment: Environment, wanted: Type | None = None, message: str = "") -> None:
        """wanted: what it must evaluate to; None for anything. message: what is said if it is false. Raises CompilationError."""
        checked = check(text, environment)
        issues = [*checked.issues]
        if not issues and checked.root is not None:
            issues = [*unreadable(checked.root), *validate(checked.root, checked.types)]
        if issues or checked.root is None:
            raise CompilationError(f"compilation failed: {display(text, issues)}")
        if wanted is not None and checked.type != wanted:
            raise CompilationError(f"must evaluate to {wanted}")
        self.text = text
        self.message = message
        self._root: Node = checked.root
        self._program: Program = compile_expression(checked, environment)

    def selects(self, name: str) -> bool:
        """Whether it looks at `claims.NAME`, also as `claims.?NAME`."""
        return any(_selects(node, name) for node in _all_nodes(self._root))

    def evaluate(self, **variables: Any) -> Any:
        """Its value. Raises ExpressionError."""
        outcome = self._program.evaluate(variables)
        if outcome.error is not None:
            raise ExpressionError(f"expression '{self.text}' resulted in error: {outcome.error.message}")
        return outcome.value


class ExpressionError(ValueError):
    """An expression has no value for these claims."""


def condition(text: str, environment: Environment, message: str) -> Expression:
    """An expression that must be true. Raises CompilationError."""
    return Expression(text, environment, BOOL, message)


def _all_nodes(root: Node) -> Iterator[Node]:
    yield root
    for node in parts(root):
        yield from _all_nodes(node)


def _selects(node: Node, name: str) -> bool:
    if isinstance(node, Select):
        return node.field == name and isinstance(node.operand, Ident) and node.operand.name == "claims"
    if isinstance(node, Call) and node.target is None and node.function == "_?._" and len(node.arguments) == 2:
        operand, field = node.arguments
        is_claims = isinstance(operand, Ident) and operand.name == "claims"
        return is_claims and isinstance(field, Literal) and field.text == name
    return False


class _Fields(Map):
    """An object whose fields are also found by the names that expressions escape (`a__dot__b`)."""

    __slots__ = ("_fields", "_found", "type_name")

    def __init__(self, fields: Mapping[str, Any], type_name: str) -> None:
        self._fields = fields
        self._found: dict[str, Any] = {}
        self.type_name = type_name

    def __len__(self) -> int:
        return len(self._fields)

    def find(self, key: Any) -> Any:
        """The value of a key, ABSENT if there is none."""
        if type(key) is not str:
            return ABSENT
        name = unescaped(key) or key
        if name not in self._found:
            self._found[name] = _value(self._fields[name]) if name in self._fields else ABSENT
        return self._found[name]

    def keys(self) -> Iterable[Any]:
        """All keys."""
        return self._fields.keys()

    def members(self) -> Iterable[Any]:
        """See Map."""
        return map(_value, self._fields.values())


def _value(found: Any) -> Any:
    """A value of decoded JSON: all numbers are doubles, as Go decodes them."""
    if isinstance(found, Mapping):
        return _Fields(found, "map")
    if isinstance(found, list | tuple):
        return [_value(one) for one in found]
    return float(found) if type(found) is int else found


def claims_value(claims: Mapping[str, Any]) -> Map:
    """`claims` as expressions see it."""
    return _Fields(claims, "kubernetes.claims")


def user_value(user: User) -> Map:
    """`user` as expressions see it."""
    fields = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}
    return _Fields(fields, _USER_INFO)
