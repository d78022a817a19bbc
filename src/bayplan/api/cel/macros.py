"""Calls that stand for something else: tests for fields, loops, and what is done with optional values.

What a macro makes stands where its call stands; arguments stay where they are. Sources: cel-go's standard macros, its two-variable comprehensions,
optional types and list library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

from bayplan.api.cel.issues import NOWHERE, SyntaxIssue
from bayplan.api.cel.nodes import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from bayplan.api.cel.types import BOOL, INT

_RESULT = "@result"
"""What a loop has gathered so far."""
_UNUSED = "#unused"
_COPIED_AT_MOST = 10_000
"""Nodes."""
_SORTED = "@__sortBy_input__"

_Arguments = tuple[Node, ...]
_Macro = Callable[[int, Node, _Arguments], Node]


def expand(offset: int, function: str, target: Node | None, arguments: _Arguments) -> Node:
    """A call, or what stands for it. Raises SyntaxIssue for arguments that no such macro takes."""
    if target is None:
        is_test = function == "has" and len(arguments) == 1
        return _has(offset, arguments[0]) if is_test else Call(offset, function, None, arguments)
    macro = _MACROS.get((function, len(arguments)))
    return Call(offset, function, target, arguments) if macro is None else macro(offset, target, arguments)


def _call(offset: int, function: str, *arguments: Node) -> Call:
    return Call(offset, function, None, arguments)


def _gathered(offset: int) -> Ident:
    return Ident(offset, _RESULT)


def _always(offset: int) -> Literal:
    return Literal(offset, BOOL, value=True)


def _has(offset: int, found: Node) -> Node:
    if not isinstance(found, Select):
        raise SyntaxIssue(found.offset, "invalid argument to has() macro")
    return Select(offset, found.operand, found.field, test_only=True)


_NO_NAME = "argument must be a simple name"


def _name(node: Node, otherwise: str = _NO_NAME) -> str:
    """The name of a loop's variable."""
    if not isinstance(node, Ident):
        raise SyntaxIssue(node.offset, otherwise)
    if node.name == "__result__":
        raise SyntaxIssue(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _names(arguments: _Arguments, count: int, otherwise: str = _NO_NAME) -> tuple[str, str]:
    """The names of a loop's variables; the second may be empty."""
    if count == 1:
        return _name(arguments[0], otherwise), ""
    first, second = _name(arguments[0]), _name(arguments[1])
    if first == second:
        raise SyntaxIssue(arguments[1].offset, f"duplicate variable name: {first}")
    return first, second


def _loop(
    offset: int, over: Node, names: tuple[str, str], start: Node, condition: Node, step: Node, result: Node
) -> Node:
    return Comprehension(offset, over, *names, _RESULT, start, condition, step, result)


def _quantifier(variables: int, function: str, offset: int, target: Node, arguments: _Arguments) -> Node:
    """`all` and `exists`."""
    names = _names(arguments, variables)
    gathered: Node = _gathered(offset)
    held = gathered if function == "_&&_" else _call(offset, "!_", gathered)
    condition = _call(offset, "@not_strictly_false", held)
    step = _call(offset, function, _gathered(offset), arguments[variables])
    start = Literal(offset, BOOL, value=function == "_&&_")
    return _loop(offset, target, names, start, condition, step, _gathered(offset))


def _exists_one(variables: int, offset: int, target: Node, arguments: _Arguments) -> Node:
    names = _names(arguments, variables)
    counted = _call(offset, "_+_", _gathered(offset), Literal(offset, INT, value=1))
    step = _call(offset, "_?_:_", arguments[variables], counted, _gathered(offset))
    result = _call(offset, "_==_", _gathered(offset), Literal(offset, INT, value=1))
    return _loop(offset, target, names, Literal(offset, INT, value=0), _always(offset), step, result)


def _if_chosen(offset: int, chosen: Node | None, step: Node) -> Node:
    """A step that is done only where a filter holds."""
    return step if chosen is None else _call(offset, "_?_:_", chosen, step, _gathered(offset))


def _map(variables: int, offset: int, target: Node, arguments: _Arguments) -> Node:
    """`map` and `transformList`, with or without a filter."""
    names = _names(arguments, variables, "argument is not an identifier")
    chosen = arguments[variables] if len(arguments) == variables + 2 else None
    added = _call(offset, "_+_", _gathered(offset), ListLiteral(offset, (arguments[-1],)))
    step = _if_chosen(offset, chosen, added)
    return _loop(offset, target, names, ListLiteral(offset), _always(offset), step, _gathered(offset))


def _filter(offset: int, target: Node, arguments: _Arguments) -> Node:
    names = _names(arguments, 1, "argument is not an identifier")
    added = _call(offset, "_+_", _gathered(offset), ListLiteral(offset, (arguments[0],)))
    step = _if_chosen(offset, arguments[1], added)
    return _loop(offset, target, names, ListLiteral(offset), _always(offset), step, _gathered(offset))


def _transform_map(by_entry: bool, offset: int, target: Node, arguments: _Arguments) -> Node:
    names = _names(arguments, 2)
    key = () if by_entry else (Ident(offset, names[0]),)
    step = _call(offset, "cel.@mapInsert", _gathered(offset), *key, arguments[-1])
    chosen = arguments[2] if len(arguments) == 4 else None
    made = _if_chosen(offset, chosen, step)
    return _loop(offset, target, names, MapLiteral(offset), _always(offset), made, _gathered(offset))


def _bind(offset: int, name: str, value: Node, body: Node) -> Node:
    """A value that has a name in an expression: a loop over nothing."""
    return Comprehension(
        offset,
        ListLiteral(offset),
        _UNUSED,
        "",
        name,
        value,
        Literal(offset, BOOL, value=False),
        Ident(offset, name),
        body,
    )


def is_binding(function: str, target: Node, arguments: _Arguments) -> bool:
    """Whether a call is `cel.bind(name, value, body)`, which not all environments have."""
    return function == "bind" and len(arguments) == 3 and isinstance(target, Ident) and target.name == "cel"


def bind(offset: int, name: Node, value: Node, body: Node) -> Node:
    """What stands for `cel.bind`. Raises SyntaxIssue."""
    if not isinstance(name, Ident):
        raise SyntaxIssue(name.offset, "cel.bind() variable names must be simple identifiers")
    return _bind(offset, name.name, value, body)


def _optional(flat: bool, offset: int, target: Node, arguments: _Arguments) -> Node:
    """`optMap` and `optFlatMap`."""
    if not isinstance(arguments[0], Ident):
        function = "optFlatMap" if flat else "optMap"
        raise SyntaxIssue(arguments[0].offset, f"{function}() variable name must be a simple identifier")
    value = Call(offset, "value", copied(target), ())
    bound = _bind(offset, arguments[0].name, value, arguments[1])
    present = bound if flat else _call(offset, "optional.of", bound)
    return _call(offset, "_?_:_", Call(offset, "hasValue", target, ()), present, _call(offset, "optional.none"))


def _sort_by(offset: int, target: Node, arguments: _Arguments) -> Node:
    if isinstance(target, (Literal, MapLiteral, StructLiteral)):
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise SyntaxIssue(target.offset, text)
    keys = _map(1, offset, Ident(offset, _SORTED), arguments)
    ordered = Call(offset, "@sortByAssociatedKeys", Ident(offset, _SORTED), (keys,))
    return _bind(offset, _SORTED, target, ordered)


def copied(node: Node) -> Node:
    """Nodes of their own at the same places. Raises SyntaxIssue for too many, as copies of copies become."""
    return _copied(node, iter(range(_COPIED_AT_MOST)))


def _copied(node: Node, left: Iterator[int]) -> Node:
    if next(left, None) is None:
        raise SyntaxIssue(NOWHERE, "expression is too large")
    changed: dict[str, Any] = {}
    for one in fields(node):
        value = getattr(node, one.name)
        if isinstance(value, Node):
            changed[one.name] = _copied(value, left)
        elif isinstance(value, tuple):
            changed[one.name] = tuple(_copied(part, left) for part in value)
    return replace(node, **changed)


_MACROS: dict[tuple[str, int], _Macro] = {
    ("filter", 2): _filter,
    ("map", 2): partial(_map, 1),
    ("map", 3): partial(_map, 1),
    ("optFlatMap", 2): partial(_optional, True),
    ("optMap", 2): partial(_optional, False),
    ("sortBy", 2): _sort_by,
    ("transformList", 3): partial(_map, 2),
    ("transformList", 4): partial(_map, 2),
    ("transformMap", 3): partial(_transform_map, False),
    ("transformMap", 4): partial(_transform_map, False),
    ("transformMapEntry", 3): partial(_transform_map, True),
    ("transformMapEntry", 4): partial(_transform_map, True),
}
for _variables in (1, 2):
    _MACROS["all", _variables + 1] = partial(_quantifier, _variables, "_&&_")
    _MACROS["exists", _variables + 1] = partial(_quantifier, _variables, "_||_")
    _MACROS["exists_one", _variables + 1] = partial(_exists_one, _variables)
    _MACROS["existsOne", _variables + 1] = partial(_exists_one, _variables)
"""By name and number of arguments; all are called on something."""
