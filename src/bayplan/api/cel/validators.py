"""What Kubernetes asks of expressions whose types fit: items of literals are of one type, and what `format` is given suits its text.

What is wrong with literals alone is found when a policy is written (`unreadable`). Sources: cel-go's validator for
homogeneous literals and the one of its string library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from bayplan.api.cel.functions import implementations
from bayplan.api.cel.functions.regular_expressions import compiled
from bayplan.api.cel.issues import Issue
from bayplan.api.cel.nodes import Call, ListLiteral, Literal, MapLiteral, Node
from bayplan.api.cel.types import STRING, Type, TypeKind, without_optional
from bayplan.api.cel.values import EvaluationError

_Types = Mapping[Node, Type]

_CLAUSE = re.compile(r"%(?:(?P<percent>%)|(?P<precision>\.\d*)?(?P<clause>.)?)", re.DOTALL)
_STRINGS = frozenset(
    (
        TypeKind.LIST,
        TypeKind.MAP,
        TypeKind.INT,
        TypeKind.UINT,
        TypeKind.DOUBLE,
        TypeKind.BOOL,
        TypeKind.STRING,
        TypeKind.TIMESTAMP,
        TypeKind.BYTES,
        TypeKind.DURATION,
        TypeKind.TYPE,
        TypeKind.NULL,
    )
)
_INTEGERS = frozenset((TypeKind.INT, TypeKind.UINT))
_FLOATS = frozenset((TypeKind.DOUBLE, TypeKind.STRING))
_HEX = frozenset((*_INTEGERS, TypeKind.STRING, TypeKind.BYTES))
_CLAUSES = {
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (_FLOATS, "fixed-point clause can only be used on doubles"),
    "e": (_FLOATS, "scientific clause can only be used on doubles"),
    "b": (_INTEGERS | {TypeKind.BOOL}, "only integers and bools can be formatted as binary"),
    "x": (_HEX, "only integers, byte buffers, and strings can be formatted as hex"),
    "X": (_HEX, "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
    "s": (
        _STRINGS,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    ),
}
"""What each clause takes, and what is said of anything else."""


def validate(root: Node, types: _Types) -> list[Issue]:
    """What is wrong with the literals of an expression without type errors."""
    return [*_mixed(root, types), *_unsuited(root, types)]


def unreadable(root: Node) -> Iterator[Issue]:
    """Literals that are no durations, timestamps or regular expressions although they are used as such."""
    if isinstance(root, Call) and root.function in _READERS and root.arguments:
        given = root.arguments[0]
        if isinstance(given, Literal) and not _is_readable(root.function, given.value):
            yield Issue(given.offset, f"invalid {root.function} argument")
    for part in parts(root):
        yield from unreadable(part)


_READERS = frozenset(("duration", "matches", "timestamp"))


def _is_readable(function: str, value: Any) -> bool:
    try:
        if function == "matches":
            compiled(value)
        else:
            implementations()[function, False].resolve(value)(value)
    except EvaluationError:
        return False
    return True


def parts(node: Node) -> Iterator[Node]:
    """The nodes right below a node."""
    for one in fields(node):
        value = getattr(node, one.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from value


def _mixed(node: Node, types: _Types) -> Iterator[Issue]:
    """Literals with items of several types, but not below calls of `format`, which takes such lists."""
    if isinstance(node, Call) and node.function == "format":
        return
    if isinstance(node, ListLiteral):
        yield from _mixed_list(node, types)
    elif isinstance(node, MapLiteral):
        yield from _mixed_map(node, types)
    for part in parts(node):
        yield from _mixed(part, types)


def _mixed_list(node: ListLiteral, types: _Types) -> Iterator[Issue]:
    first: Type | None = None
    for index, item in enumerate(node.items):
        found = _held(types[item], index in node.optional)
        if first is None:
            first = found
        elif found != first:
            yield _mismatch(item, first, found)
            return


def _mixed_map(node: MapLiteral, types: _Types) -> Iterator[Issue]:
    keys: Type | None = None
    values: Type | None = None
    for entry in node.entries:
        key, value = types[entry.key], _held(types[entry.value], entry.optional)
        if keys is None or values is None:
            keys, values = key, value
            continue
        if key != keys:
            yield _mismatch(entry.key, keys, key)
        if value != values:
            yield _mismatch(entry.value, values, value)


def _held(found: Type, optional: bool) -> Type:
    return without_optional(found)[0] if optional else found


def _mismatch(node: Node, wanted: Type, found: Type) -> Issue:
    return Issue(node.offset, f"expected type '{wanted}' but found '{found}'")


def _unsuited(node: Node, types: _Types) -> Iterator[Issue]:
    """Calls of `format` whose text and arguments are literals that do not suit each other."""
    if isinstance(node, Call) and node.function == "format" and isinstance(node.target, Literal):
        given = node.arguments[0]
        if node.target.type == STRING and isinstance(given, ListLiteral):
            found = _first_unsuited(node, node.target.text, given.items, types)
            if found is not None:
                yield found
    for part in parts(node):
        yield from _unsuited(part, types)


def _first_unsuited(call: Call, text: str, given: tuple[Node, ...], types: _Types) -> Issue | None:
    used = 0
    for match in _CLAUSE.finditer(text):
        if match["percent"]:
            continue
        if match.end() == match.start() + 1:
            return Issue(call.offset, "unexpected end of string")
        if used >= len(given):
            return Issue(call.offset, f"index {used} out of range")
        problem = _clause_problem(call, match, given[used], types)
        if problem is not None:
            return problem
        used += 1
    if len(given) > used:
        text = f"too many arguments supplied to string.format (expected {used}, got {len(given)})"
        return Issue(call.offset, text)
    return None


def _clause_problem(call: Call, match: re.Match[str], argument: Node, types: _Types) -> Issue | None:
    head = "could not parse formatting clause"
    precision, clause = match["precision"], match["clause"]
    if precision is not None and clause is None:
        text = "could not find end of precision specifier"
        return Issue(call.offset, f"{head}: error while parsing precision: {text}")
    if precision == ".":
        text = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
        return Issue(call.offset, f"{head}: error while parsing precision: {text}")
    if clause not in _CLAUSES:
        return Issue(call.offset, f'{head}: unrecognized formatting clause "{clause}"')
    kinds, text = _CLAUSES[clause]
    bad = _first_bad(argument, kinds, types, inside=clause == "s")
    if bad is None:
        return None
    return Issue(bad.offset, f"error during formatting: {text}, was given {types[bad].name}")


def _first_bad(node: Node, kinds: frozenset[TypeKind], types: _Types, *, inside: bool) -> Node | None:
    """The first part of an argument that a clause does not take; `s` looks inside literals."""
    if types[node].kind not in kinds and types[node].kind is not TypeKind.DYN:
        return node
    if not inside or not isinstance(node, (ListLiteral, MapLiteral)):
        return None
    parts = (
        node.items
        if isinstance(node, ListLiteral)
        else [part for entry in node.entries for part in (entry.key, entry.value)]
    )
    return next((bad for part in parts if (bad := _first_bad(part, kinds, types, inside=True)) is not None), None)
