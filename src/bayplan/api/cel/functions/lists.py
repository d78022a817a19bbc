"""Functions on lists: order, sums, places, parts; and on sets of items.

Sources: `k8s.io/apiserver/pkg/cel/library/lists.go`, cel-go's `ext/lists.go` and `ext/sets.go`.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from bayplan.api.cel.functions.arithmetic import add
from bayplan.api.cel.functions.registry import ANY, INT, LIST, MAP, Table
from bayplan.api.cel.values import (
    Duration,
    EvaluationError,
    MapValue,
    TypeValue,
    UInt,
    compare,
    contains,
    equals,
    is_list,
    type_name,
)

TABLE = Table()
_MOST = 10_000_000
"""Items that a list may be made to have."""


@TABLE.member("isSorted", LIST)
def _is_sorted(items: Any) -> bool:
    found = list(items)
    return all(compare(one, other) <= 0 for one, other in itertools.pairwise(found))


@TABLE.member("max", LIST)
def _max(items: Any) -> Any:
    return _extreme("max", items, -1)


@TABLE.member("min", LIST)
def _min(items: Any) -> Any:
    return _extreme("min", items, 1)


def _extreme(name: str, items: Any, worse: int) -> Any:
    found: Any = None
    for index, item in enumerate(items):
        if index == 0 or compare(found, item) == worse:
            found = item
    if not len(items):
        raise EvaluationError(f"{name} called on empty list")
    return found


ZEROS: dict[str, Any] = {"double": 0.0, "duration": Duration(0), "int": 0, "uint": UInt(0)}
"""What empty lists of a type sum up to."""


@TABLE.member("sum", LIST)
def _sum(items: Any) -> Any:
    """Of an empty list an integer: where another type is known, the sum is not asked for (`ZEROS`)."""
    found = list(items)
    return functools.reduce(add, found) if found else 0


@TABLE.member("indexOf", LIST, ANY)
def _index_of(items: Any, wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if _same(item, wanted)), -1)


@TABLE.member("lastIndexOf", LIST, ANY)
def _last_index_of(items: Any, wanted: Any) -> int:
    return next((index for index in reversed(range(len(items))) if _same(items[index], wanted)), -1)


def _same(one: Any, other: Any) -> bool:
    try:
        return equals(one, other)
    except EvaluationError:
        return False


@TABLE.member("slice", LIST, INT, INT)
def _slice(items: Any, start: int, end: int) -> list[Any]:
    head = f"cannot slice({start}, {end}),"
    if start < 0 or end < 0:
        raise EvaluationError(f"{head} negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{head} start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"{head} list is length {len(items)}")
    return [items[index] for index in range(start, end)]


@TABLE.member("flatten", LIST)
def _flatten(items: Any) -> list[Any]:
    return _flatten_some(items, 1)


@TABLE.member("flatten", LIST, INT)
def _flatten_some(items: Any, depth: int) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Any] = []
    for item in items:
        if is_list(item) and depth:
            found.extend(_flatten_some(item, depth - 1))
        else:
            found.append(item)
    return found


@TABLE.function("lists.range", INT)
def _range(count: int) -> list[int]:
    if count > _MOST:
        raise EvaluationError(f"lists.range: more than {_MOST} items")
    return list(range(count))


@TABLE.member("reverse", LIST)
def _reverse(items: Any) -> list[Any]:
    return list(items)[::-1]


_HASHABLE = frozenset((str, bytes, int, UInt))


@TABLE.member("distinct", LIST)
def _distinct(items: Any) -> list[Any]:
    found: list[Any] = []
    seen: set[Any] = set()
    others: list[Any] = []
    for item in items:
        if type(item) in _HASHABLE:
            if item in seen or any(_same(item, one) for one in others):
                continue
            seen.add(item)
        elif any(_same(item, one) for one in found):
            continue
        else:
            others.append(item)
        found.append(item)
    return found


@TABLE.member("sort", LIST)
def _sort(items: Any) -> Any:
    return _sort_by(items, items)


@TABLE.member("@sortByAssociatedKeys", LIST, LIST)
def _sort_by(items: Any, keys: Any) -> Any:
    if len(items) != len(keys):
        text = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
        raise EvaluationError(f"{text} {len(items)} and {len(keys)} elements respectively")
    if not len(items):
        return items
    known = list(keys)
    first = known[0]
    if is_list(first) or isinstance(first, MapValue) or first is None or isinstance(first, TypeValue):
        raise EvaluationError("list elements must be comparable")
    if any(type_name(key) != type_name(first) for key in known):
        raise EvaluationError("list elements must have the same type")

    def order(one: int, other: int) -> int:
        return compare(known[one], known[other])

    return [items[index] for index in sorted(range(len(known)), key=functools.cmp_to_key(order))]


@TABLE.function("sets.contains", LIST, LIST)
def _contains_all(items: Any, wanted: Any) -> bool:
    return all(contains(items, one) for one in wanted)


@TABLE.function("sets.equivalent", LIST, LIST)
def _equivalent(items: Any, others: Any) -> bool:
    return _contains_all(items, others) and _contains_all(others, items)


@TABLE.function("sets.intersects", LIST, LIST)
def _intersects(items: Any, others: Any) -> bool:
    return any(_holds(others, one) for one in items)


def _holds(items: Any, wanted: Any) -> bool:
    try:
        return contains(items, wanted)
    except EvaluationError:
        return False


@TABLE.function("cel.@mapInsert", MAP, ANY, ANY)
def _insert(held: Any, key: Any, value: Any) -> MapValue:
    made = _copied(held)
    made.insert(key, value)
    return made


@TABLE.function("cel.@mapInsert", MAP, MAP)
def _insert_all(held: Any, more: Any) -> MapValue:
    made = _copied(held)
    for key in more.keys():  # noqa: SIM118  # maps of the language are not Python's
        made.insert(key, more.find(key))
    return made


def _copied(held: Any) -> MapValue:
    return held.copy() if isinstance(held, MapValue) else MapValue((key, held.find(key)) for key in held.keys())  # noqa: SIM118
