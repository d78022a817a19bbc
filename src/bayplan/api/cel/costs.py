"""What calls cost while an expression is evaluated, in cel-go's units: one is about the look at a field.

Sources: cel-go's `interpreter/runtimecost.go`, `ext/lists.go` and `ext/sets.go`; `k8s.io/apiserver/pkg/cel/library/cost.go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bayplan.api.cel.functions.named_formats import NamedFormat
from bayplan.api.cel.types import Type, TypeKind
from bayplan.api.cel.values import ListValue, Map, Opaque, Optional, is_list

SELECT, LIST, MAP, STRUCT = 1, 10, 30, 40
"""Of looking at a variable or field, and of making a list, a map, an object."""
_TRAVERSAL, _PATTERN = 0.1, 0.25
"""Per character of a text, and of a regular expression."""
_CHECK = 350_000
"""Of a question about permissions: an expression can ask two."""

Cost = Callable[[Sequence[Any], Any], int]
"""Of the values that a function is given and its result, which is None before it is known."""


def size(value: Any) -> int:
    """What a value counts for: characters of a text, items of a list; one for most."""
    kind = type(value)
    if kind is str or kind is bytes or kind is list or isinstance(value, ListValue | Map):
        return len(value)
    if isinstance(value, Opaque):
        return value.size()
    return 1


def _size_of_present(value: Any) -> int:
    while isinstance(value, Optional) and value.is_present:
        value = value.value
    return size(value)


def _traversed(*values: Any, factor: float = _TRAVERSAL) -> int:
    return math.ceil(sum(map(size, values)) * factor)


def equality(one: Any, other: Any) -> int:
    """Of a comparison with `==` or `!=`."""
    return math.ceil(min(_size_of_present(one), _size_of_present(other)) * _TRAVERSAL)


def addition(one: Any, other: Any) -> int:
    """Of texts that are put together."""
    return _traversed(one, other)


def walk(value: Any) -> int:
    """Of looking at everything in a value."""
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if is_list(value):
        return sum(map(walk, value))
    if isinstance(value, Map):
        return sum(walk(key) + walk(value.find(key)) for key in value.keys())  # noqa: SIM118
    return 1


def comparison_work(one: Any, other: Any) -> int:
    """Of a comparison, which ends at the first difference but may find none: in microseconds. Texts and numbers are compared at once."""
    if is_list(one) or isinstance(one, Map):
        return _COMPARISON * min(volume(one), volume(other))
    return 0


def volume(value: Any) -> int:
    """How many values there are in a value, at any depth."""
    count, left = 0, [value]
    while left:
        one = left.pop()
        count += 1
        if isinstance(one, Optional):
            left.append(one.value)
        elif isinstance(one, Map | ListValue):
            left += one.members()
        elif type(one) is list:
            left += one
        elif type(one) is dict:
            left += one.values()
    return count


def call_work(function: str) -> int:
    """Of a call, besides what follows from its cost, in microseconds."""
    return _SEARCH if function in _SEARCHES else _CALL


def _one_text(given: Sequence[Any], result: Any) -> int:
    return _traversed(given[0])


def _twice(given: Sequence[Any], result: Any) -> int:
    return _traversed(given[0], factor=2 * _TRAVERSAL)


def _joined(given: Sequence[Any], result: Any) -> int:
    return _traversed(result, factor=2 * _TRAVERSAL)


def _walked(given: Sequence[Any], result: Any) -> int:
    return walk(given[0])


def _searched(given: Sequence[Any], result: Any) -> int:
    return _pattern_cost(size(given[0]), size(given[1]))


def _pattern_cost(text: int, pattern: int) -> int:
    return math.ceil((1.0 + text) * _TRAVERSAL) * math.ceil(pattern * _PATTERN)


def _contained(given: Sequence[Any], result: Any) -> int:
    return _traversed(given[0]) * _traversed(given[1])


def _in_network(given: Sequence[Any], result: Any) -> int:
    text = _traversed(given[1]) if isinstance(given[1], str) else 0
    return _traversed(given[0], given[0]) + text


def _network_in_network(given: Sequence[Any], result: Any) -> int:
    return _in_network(given, result) + _traversed(given[0]) + 1


def _validated(given: Sequence[Any], result: Any) -> int:
    return _pattern_cost(size(given[1]), given[0].pattern_size) if isinstance(given[0], NamedFormat) else 1


def _selected(given: Sequence[Any], result: Any) -> int:
    """Of a selector of labels or fields: it is taken apart."""
    length = size(given[1])
    return LIST + math.ceil(length * _TRAVERSAL) + math.ceil(math.ceil(length * 0.5) * (LIST + STRUCT))


def _made(items: float) -> int:
    return int(items) + 1 + LIST


def _sliced(given: Sequence[Any], result: Any) -> int:
    return _made(given[2] - given[1] if given[2] > given[1] else 0)


def _flattened(given: Sequence[Any], result: Any) -> int:
    return _made(size(given[0]) * (given[1] if len(given) == 2 else 1.0))


def _counted(given: Sequence[Any], result: Any) -> int:
    return _made(max(given[0], 0))


def _reversed(given: Sequence[Any], result: Any) -> int:
    return _made(size(given[0]))


def _compared_with_itself(items: Any) -> int:
    count = size(items)
    factor = 2.0 + _TRAVERSAL if count and isinstance(items[0], str | bytes) else 2.0
    return _made(count * count * factor)


def _ordered(given: Sequence[Any], result: Any) -> int:
    return _compared_with_itself(given[-1])


def _sets(factor: int) -> Cost:
    return lambda given, result: 1 + size(given[0]) * size(given[1]) * factor


_COSTS: dict[str, int | Cost] = {
    "@sortByAssociatedKeys": _ordered,
    "check": _CHECK,
    "cidr": _one_text,
    "containsCIDR": _network_in_network,
    "containsIP": _in_network,
    "contains": _contained,
    "distinct": _ordered,
    "endsWith": _one_text,
    "fieldSelector": _selected,
    "find": _searched,
    "findAll": _searched,
    "flatten": _flattened,
    "format": _one_text,
    "indexOf": _walked,
    "ip.isCanonical": _twice,
    "isCIDR": _one_text,
    "isIP": _one_text,
    "isQuantity": _one_text,
    "isSemver": _one_text,
    "isSorted": _walked,
    "join": _joined,
    "jsonpatch.escapeKey": _one_text,
    "labelSelector": _selected,
    "lastIndexOf": _walked,
    "lists.range": _counted,
    "lowerAscii": _one_text,
    "max": _walked,
    "min": _walked,
    "quantity": _one_text,
    "replace": _twice,
    "reverse": _reversed,
    "semver": _one_text,
    "sets.contains": _sets(1),
    "sets.equivalent": _sets(2),
    "sets.intersects": _sets(1),
    "slice": _sliced,
    "sort": _ordered,
    "split": _twice,
    "startsWith": _one_text,
    "strings.quote": _one_text,
    "substring": _one_text,
    "sum": _walked,
    "trim": _one_text,
    "upperAscii": _one_text,
    "url": _one_text,
    "validate": _validated,
}
"""Of calls by function; all others cost one."""
AFTER = frozenset(("join",))
"""Functions whose cost depends on their result."""
WALKING = frozenset(("indexOf", "isSorted", "lastIndexOf", "max", "min", "sum"))
"""Functions whose work is a microsecond per unit of cost."""
_CALL, _SEARCH = 2, 8
"""Microseconds of a call, and of one that looks for a regular expression."""
MATCH = 2
"""Microseconds per match of `findAll`."""
_SEARCHES = frozenset(("find", "findAll", "matches"))
_COMPARISON = 2
"""Microseconds per value of a comparison of lists or maps."""
_TEXT = frozenset((TypeKind.STRING, TypeKind.BYTES))


def is_text(found: Type) -> bool:
    """Whether values of a type cost by their length."""
    return found.kind in _TEXT


def of_call(function: str, given: Sequence[Type], *, is_member: bool) -> int | Cost:
    """What a call costs, as far as the types of what it is given tell."""
    kinds = [one.kind for one in given]
    if function == "matches":
        return _searched if is_member else 1
    if function == "ip":
        return 1 if is_member else _one_text
    if function == "bytes":
        return _one_text if kinds == [TypeKind.STRING] else 1
    if function == "string":
        return _one_text if kinds == [TypeKind.BYTES] else 1
    return _COSTS.get(function, 1)
