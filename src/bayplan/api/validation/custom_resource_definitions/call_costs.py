"""What calls in rules cost at most, in units of CEL: the arguments themselves are counted elsewhere.

Sources: cel-go's `checker/cost.go`, `ext/sets.go` and `ext/lists.go`; `k8s.io/apiserver/pkg/cel/library/cost.go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.types import Type, TypeKind
from bayplan.api.validation.custom_resource_definitions.sizes import MOST, UNKNOWN, Size, exactly

_STEP = 0.1
"""Of one character that is looked at."""
_PATTERN_STEP = 0.25
"""Of one character of a regular expression."""
_NEW_LIST = 10
_LONGEST_NAME_PATTERN = 128
_LONGEST_FORMAT = 64
_ADDRESS = Size(4, 16)
_TEXTS = (TypeKind.STRING, TypeKind.BYTES)
_TEXTS_OR_ANYTHING = (*_TEXTS, TypeKind.DYN)
_STRUCT_COMPARISONS = {
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
}
"""Types whose values are compared at once."""


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of the target or an argument of a call."""

    type: Type
    size: Size
    item_size: Size = UNKNOWN
    """Of what is in a list."""
    literal: Any = None
    """The value of a constant."""

    @property
    def could_be_anything(self) -> bool:
        """Whether nothing is known of the type."""
        return self.type.kind is TypeKind.DYN


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call costs, and how large its result is if that follows from it."""

    most: int
    size: Size | None = None


def scaled(number: int, factor: float) -> int:
    """A number times a factor, rounded up, and no more than can be counted."""
    found = float(number) * factor
    return MOST if found >= float(MOST) else math.ceil(found)


_ONE = CallCost(1)
_Rule = Callable[[Value | None, Sequence[Value]], CallCost | None]


def call_cost(function: str, target: Value | None, arguments: Sequence[Value]) -> CallCost:
    """What a call costs besides its arguments; several ways to call a function cost what the dearest does."""
    rule = _RULES.get(function)
    found = None if rule is None else rule(target, arguments)
    return _ONE if found is None else found


def _walked(factor: float, position: int = -1, *, has_size: bool = False) -> _Rule:
    """Looks at all of a text: the target (-1), or an argument."""

    def rule(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
        if position >= len(arguments):
            return None
        one = target if position < 0 else arguments[position]
        if one is None:
            return None
        return CallCost(scaled(one.size.most, factor), one.size if has_size else None)

    return rule


def _items(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    """Looks at all items of a list, or characters of a text."""
    if target is None:
        return None
    if not target.type.parameters:
        return CallCost(scaled(target.size.most, _STEP))
    each = 1
    if target.type.parameters[0].kind in _TEXTS:
        each += scaled(target.item_size.most, _STEP)
    return CallCost(min(target.size.most * each, MOST))


def _replace(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None or len(arguments) < 2:
        return None
    size, old, new = target.size, arguments[0].size, arguments[1].size
    count, kept = _replaced(size.most, old.least, is_outgrown=new.most > old.least)
    fewest, spared = _replaced(size.least, old.most, is_outgrown=new.least < old.most)
    result = Size(fewest, count).times(new).plus(Size(spared, kept))
    return CallCost(scaled(size.most, 2 * _STEP), result)


def _replaced(length: int, old: int, *, is_outgrown: bool) -> tuple[int, int]:
    """How often something is replaced in the case that counts, and how much of the text then stays.

    is_outgrown: whether replacing is that case, and not leaving everything as it is.
    """
    if old == 0:
        return min(length + 1, MOST), length
    return (math.ceil(length / old), 0) if is_outgrown else (0, length)


def _split(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None:
        return None
    limit = arguments[1].literal if len(arguments) > 1 else None
    most = limit if isinstance(limit, int) and limit >= 0 else target.size.most
    return CallCost(scaled(target.size.most, 2 * _STEP), Size(0, most))


def _join(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None:
        return None
    size = target.size.times(target.item_size) if target.type.parameters else Size(0, 0)
    if arguments:
        between = Size(max(target.size.least - 1, 0), max(target.size.most - 1, 0))
        size = size.plus(arguments[0].size.times(between))
    return CallCost(scaled(size.most, _STEP), size)


def _find(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    found = _matches(target, arguments)
    return None if found is None or target is None else CallCost(found.most, Size(0, target.size.most))


def _matches(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None or not arguments:
        return None
    text = scaled(min(target.size.most + 1, MOST), _STEP)
    return CallCost(min(text * scaled(arguments[0].size.most, _PATTERN_STEP), MOST))


def _contains(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None or len(arguments) != 1:
        return None
    return CallCost(min(scaled(target.size.most, _STEP) * scaled(arguments[0].size.most, _STEP), MOST))


def _ip(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    return CallCost(scaled(arguments[0].size.most, _STEP)) if arguments else _ONE


def _contains_address(compared: int) -> _Rule:
    """A network contains an address or another network; a text is read first."""

    def rule(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
        if not arguments:
            return None
        cost = scaled(_ADDRESS.most * 2, _STEP) + compared
        is_text = arguments[0].type.kind is TypeKind.STRING or arguments[0].could_be_anything
        return CallCost(min(cost + (scaled(arguments[0].size.most, _STEP) if is_text else 0), MOST))

    return rule


def _validate(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if not arguments:
        return None
    return CallCost(scaled(scaled(arguments[0].size.most, _STEP), _LONGEST_NAME_PATTERN * _PATTERN_STEP))


def _selector(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    """Labels or fields: the text is read, and every second character may be a requirement."""
    if len(arguments) != 1:
        return None
    length = arguments[0].size.most
    requirements = scaled(scaled(length, 0.5), _NEW_LIST + 40)
    return CallCost(min(_NEW_LIST + scaled(length, _STEP) + requirements, MOST))


def _equal(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    """Values are compared as far as the smaller one goes."""
    left, right = arguments
    if left.type == right.type:
        if left.type.name in ("net.IP", "net.CIDR") or left.type.name in _STRUCT_COMPARISONS:
            return _ONE
        if left.type.name == "kubernetes.NamedFormat":
            return CallCost(scaled(_LONGEST_FORMAT, _STEP))
        if left.type.name == "kubernetes.URL":
            return CallCost(scaled(1 if right.size == UNKNOWN else right.size.most, _STEP))
    return _compare(target, arguments)


def _compare(target: Value | None, arguments: Sequence[Value]) -> CallCost:
    return CallCost(scaled(min(one.size.most for one in arguments), _STEP))


def _ordered(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    """Texts are compared as far as the smaller one goes, numbers at once."""
    known = [one.type.kind for one in arguments if not one.could_be_anything]
    if known and known[0] not in _TEXTS:
        return None
    found = _compare(target, arguments)
    return found if known else CallCost(max(found.most, 1))


def _add(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    known = [one.type.kind for one in arguments if not one.could_be_anything]
    kind = known[0] if known else TypeKind.DYN
    if kind not in (*_TEXTS, TypeKind.LIST, TypeKind.DYN):
        return None
    size = arguments[0].size.plus(arguments[1].size)
    cost = 1 if kind is TypeKind.LIST else max(scaled(size.most, _STEP), kind is TypeKind.DYN)
    return CallCost(cost, size)


def _in(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    """Every item of a list is looked at; of a map the right one is found."""
    among = arguments[1]
    if among.type.kind is TypeKind.LIST:
        return CallCost(among.size.most)
    return CallCost(max(among.size.most, 1)) if among.could_be_anything else None


def _converted(from_kind: TypeKind, least: Callable[[int], int], most: Callable[[int], int]) -> _Rule:
    """Text made of bytes, or bytes made of text."""

    def rule(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
        if len(arguments) != 1 or not (arguments[0].type.kind is from_kind or arguments[0].could_be_anything):
            return None
        size = arguments[0].size
        cost = scaled(size.most, _STEP)
        return CallCost(
            cost if arguments[0].type.kind is from_kind else max(cost, 1), Size(least(size.least), most(size.most))
        )

    return rule


def _sets(factor: float) -> _Rule:
    def rule(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
        if len(arguments) != 2:
            return None
        return CallCost(min(scaled(arguments[0].size.times(arguments[1].size).most, factor) + 1, MOST))

    return rule


def _new_list(factor: float, size: Size, work: Size | None = None) -> CallCost:
    cost = scaled((size if work is None else work).most, factor) + 1 + _NEW_LIST
    return CallCost(min(cost, MOST), size if work is None else work)


def _number(value: Value, otherwise: int) -> int:
    found = value.literal
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else otherwise


def _slice(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None or len(arguments) != 2:
        return None
    first, last = _number(arguments[0], 0), _number(arguments[1], target.size.most)
    return _new_list(1, exactly((last - first) % (MOST + 1)))


def _range(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    return _new_list(1, exactly(_number(arguments[0], MOST))) if len(arguments) == 1 else None


def _flatten(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    return None if target is None else _new_list(_number(arguments[0], MOST) if arguments else 1, target.size)


def _squared(factor: float, position: int = -1, *, texts_cost_more: bool = False) -> _Rule:
    """Compares every item of a list with every other."""

    def rule(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
        one = target if position < 0 else arguments[position]
        if one is None:
            return None
        is_text = texts_cost_more and bool(one.type.parameters) and one.type.parameters[0].kind in _TEXTS_OR_ANYTHING
        return _new_list(factor + (_STEP if is_text else 0), one.size, one.size.times(one.size))

    return rule


def _reverse(target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    return None if target is None else _new_list(1, target.size)


_RULES: dict[str, _Rule] = {
    "check": lambda target, arguments: CallCost(350_000),
    "fieldSelector": _selector,
    "labelSelector": _selector,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _items),
    "url": _walked(_STEP, 0, has_size=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _walked(_STEP, has_size=True)),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _walked(_STEP, 0)),
    "ip": _ip,
    "ip.isCanonical": _walked(2 * _STEP, 0),
    "containsIP": _contains_address(0),
    "containsCIDR": _contains_address(scaled(_ADDRESS.most, _STEP) + 1),
    "validate": _validate,
    "_==_": _equal,
    "_!=_": _compare,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ordered),
    "_+_": _add,
    "@in": _in,
    "format": _walked(_STEP),
    "strings.quote": lambda target, arguments: CallCost(
        scaled(arguments[0].size.most, _STEP), arguments[0].size.times(Size(1, 2)).plus(exactly(2))
    ),
    "startsWith": _walked(_STEP, 0),
    "endsWith": _walked(_STEP, 0),
    "contains": _contains,
    "matches": _matches,
    "string": _converted(TypeKind.BYTES, lambda least: least // 4, lambda most: most),
    "bytes": _converted(TypeKind.STRING, lambda least: least, lambda most: min(most * 4, MOST)),
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "slice": _slice,
    "lists.range": _range,
    "flatten": _flatten,
    "reverse": _reverse,
    "distinct": _squared(2),
    "sort": _squared(2, texts_cost_more=True),
    "@sortByAssociatedKeys": _squared(2, 0, texts_cost_more=True),
}
"""Functions that cost something else than 1, by name; those of a namespace with it."""
