"""Makes steps of calls and operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from bayplan.api.cel import costs
from bayplan.api.cel.building import Builder
from bayplan.api.cel.checker import qualified_name
from bayplan.api.cel.functions import implementations
from bayplan.api.cel.functions.arithmetic import ARITHMETIC, COMPARISONS, invert, negate
from bayplan.api.cel.functions.lists import ZEROS
from bayplan.api.cel.functions.registry import Function
from bayplan.api.cel.functions.regular_expressions import compiled
from bayplan.api.cel.nodes import Call, Node
from bayplan.api.cel.steps import Frame, Step, check_cost
from bayplan.api.cel.types import TypeKind
from bayplan.api.cel.values import (
    ABSENT,
    EvaluationError,
    Opaque,
    Optional,
    UInt,
    contains,
    equals,
    is_list,
    no_such_overload,
    type_name,
)

_SCALARS = frozenset((bool, int, float, UInt, type(None)))
_HASHED = frozenset((str, int, UInt, float))
_PATTERNS = frozenset(("find", "findAll", "matches"))
"""Functions whose second argument is a regular expression, which is refused early if it is constant."""


def build_call(builder: Builder, node: Call) -> Step:
    """The step of a call."""
    special = _SPECIAL.get(node.function)
    if special is not None and (node.target is None) is not (node.function in ("or", "orValue")):
        return special(builder, node)
    name, given, is_member = _resolved(builder, node)
    if name == "sum":
        return _sum(builder, node)
    return _function(builder, name, given, is_member=is_member)


def _resolved(builder: Builder, node: Call) -> tuple[str, tuple[Node, ...], bool]:
    """The function of a call, what it is given, and whether it is called on something: `optional.of` is not."""
    if node.target is None:
        return node.function.removeprefix("."), node.arguments, False
    prefix = qualified_name(node.target)
    name = f"{prefix}.{node.function}".removeprefix(".")
    if prefix is not None and name in builder.functions:
        return name, node.arguments, False
    return node.function, (node.target, *node.arguments), True


def _both(builder: Builder, node: Call) -> Step:
    return _logical(*map(builder.step, node.arguments), settled=False)


def _either(builder: Builder, node: Call) -> Step:
    return _logical(*map(builder.step, node.arguments), settled=True)


def _logical(one: Step, other: Step, *, settled: bool) -> Step:
    """`&&` (settled by false) or `||` (settled by true): an error counts only if the other side does not settle it."""
    open_value = not settled

    def logical(frame: Frame) -> Any:
        problem: EvaluationError | None = None
        try:
            found = one(frame)
            if found is settled:
                return settled
            if found is not open_value:
                problem = no_such_overload()
        except EvaluationError as error:
            problem = error
        try:
            found = other(frame)
        except EvaluationError as error:
            raise problem or error from None
        if found is settled:
            return settled
        if problem is not None:
            raise problem
        if found is not open_value:
            raise no_such_overload()
        return open_value

    return logical


def _after_error(frame: Frame, *rest: Step) -> None:
    """What still happens when an argument is an error: the others are looked at, and the call costs what it costs for nothing."""
    for one in rest:
        with contextlib.suppress(EvaluationError):
            one(frame)
    frame.cost += 1


def _pair(frame: Frame, one: Step, other: Step) -> tuple[Any, Any]:
    """The values of two arguments. Raises EvaluationError, the first if both are errors."""
    try:
        left = one(frame)
    except EvaluationError:
        _after_error(frame, other)
        raise
    try:
        return left, other(frame)
    except EvaluationError:
        _after_error(frame)
        raise


def _single(frame: Frame, argument: Step) -> Any:
    """The value of the only argument. Raises EvaluationError."""
    try:
        return argument(frame)
    except EvaluationError:
        _after_error(frame)
        raise


def _equality(builder: Builder, node: Call) -> Step:
    one, other = map(builder.step, node.arguments)
    wanted = node.function == "_==_"

    def compared(frame: Frame) -> bool:
        left, right = _pair(frame, one, other)
        if type(left) in _SCALARS or isinstance(left, Opaque):
            frame.cost += 1
        else:
            frame.cost += costs.equality(left, right)
            frame.spend(costs.comparison_work(left, right))
        try:
            return equals(left, right) is wanted
        except EvaluationError:
            if wanted:
                raise
            return True

    return compared


def _ordering(builder: Builder, node: Call) -> Step:
    one, other = map(builder.step, node.arguments)
    operator = COMPARISONS[node.function]
    by_length = any(costs.is_text(builder.type_of(argument)) for argument in node.arguments)
    quick = _QUICK[node.function]

    def compared(frame: Frame) -> bool:
        left, right = _pair(frame, one, other)
        if type(left) is int and type(right) is int:
            frame.cost += 1
            return quick(left, right)
        frame.cost += costs.equality(left, right) if by_length else 1
        return operator(left, right)

    return compared


_QUICK: dict[str, Callable[[int, int], bool]] = {
    "_<_": int.__lt__,
    "_<=_": int.__le__,
    "_>_": int.__gt__,
    "_>=_": int.__ge__,
}


def _arithmetic(builder: Builder, node: Call) -> Step:
    one, other = map(builder.step, node.arguments)
    operator = ARITHMETIC[node.function]
    is_text = any(costs.is_text(builder.type_of(argument)) for argument in node.arguments)
    by_length = node.function == "_+_" and is_text

    def computed(frame: Frame) -> Any:
        left, right = _pair(frame, one, other)
        frame.cost += costs.addition(left, right) if by_length else 1
        check_cost(frame)
        if is_list(left):
            frame.spend(costs.size(left) + costs.size(right))
        return operator(left, right)

    return computed


def _unary(builder: Builder, node: Call) -> Step:
    operand = builder.step(node.arguments[0])
    operator: Callable[[Any], Any] = negate if node.function == "-_" else invert

    def computed(frame: Frame) -> Any:
        value = _single(frame, operand)
        frame.cost += 1
        return operator(value)

    return computed


def _not_strictly_false(builder: Builder, node: Call) -> Step:
    """What loops go on by: an error is not false."""
    operand = builder.step(node.arguments[0])

    def computed(frame: Frame) -> bool:
        try:
            value = operand(frame)
        except EvaluationError:
            value = True
        frame.cost += 1
        return value if type(value) is bool else True

    return computed


def _membership(builder: Builder, node: Call) -> Step:
    value_node, holder_node = node.arguments
    value, held = builder.step(value_node), builder.constant(holder_node)
    in_list = builder.type_of(holder_node).kind is TypeKind.LIST
    if in_list and held is not ABSENT:
        if not held:
            return lambda frame: False
        if all(type(one) in _HASHED or type(one) is bool for one in held):
            return _in_constant(value, held)
    holder = builder.step(holder_node)

    def found(frame: Frame) -> bool:
        wanted, where = _pair(frame, value, holder)
        frame.cost += costs.size(where) if in_list else 1
        check_cost(frame)
        if is_list(where):
            frame.spend(len(where))
            frame.spend(costs.comparison_work(wanted, where))
        return contains(where, wanted)

    return found


def _in_constant(value: Step, held: list[Any]) -> Step:
    """Whether a value is one of a few; free of costs."""
    plain = frozenset(one for one in held if type(one) in _HASHED and one == one)
    truths = frozenset(one for one in held if type(one) is bool)

    def found(frame: Frame) -> bool:
        wanted = value(frame)
        kind = type(wanted)
        return wanted in plain if kind in _HASHED else kind is bool and wanted in truths

    return found


def _or(builder: Builder, node: Call) -> Step:
    """`or` and `orValue`, whose argument is looked at only if it is needed."""
    assert node.target is not None
    first, second, name = builder.step(node.target), builder.step(node.arguments[0]), node.function

    def chosen(frame: Frame) -> Any:
        found = first(frame)
        if type(found) is not Optional:
            raise EvaluationError(f"no such overload: {type_name(found)}.{name}(_)")
        if not found.is_present:
            return second(frame)
        return found if name == "or" else found.value

    return chosen


def _sum(builder: Builder, node: Call) -> Step:
    """A sum; that of an empty list is of the type of its items."""
    assert node.target is not None
    zero = ZEROS.get(builder.type_of(node).name, 0)
    if builder.type_of(node).kind is TypeKind.DURATION:
        zero = ZEROS["duration"]
    items, total = builder.step(node.target), implementations()["sum", True]

    def computed(frame: Frame) -> Any:
        found = _single(frame, items)
        work = costs.walk(found)
        frame.cost += work
        frame.spend(work)
        return zero if is_list(found) and not len(found) else total.resolve(found)(found)

    return computed


def _values(frame: Frame, arguments: list[Step]) -> list[Any]:
    """The values of arguments. Raises EvaluationError."""
    if len(arguments) == 1:
        return [_single(frame, arguments[0])]
    if len(arguments) == 2:
        return list(_pair(frame, *arguments))
    return [argument(frame) for argument in arguments]


def _function(builder: Builder, name: str, given: tuple[Node, ...], *, is_member: bool) -> Step:
    """A call of a function that takes values."""
    function = implementations().get((name, is_member))
    if function is None:
        raise no_such_overload(name)
    pattern = builder.constant(given[1]) if name in _PATTERNS else ABSENT
    if isinstance(pattern, str):
        compiled(pattern)
    cost = costs.of_call(name, [builder.type_of(one) for one in given], is_member=is_member)
    arguments = [builder.step(one) for one in given]
    if name in costs.AFTER and not isinstance(cost, int):
        return _costed_after(function, arguments, cost)
    if len(arguments) == 1 and isinstance(cost, int):
        return _of_one(function, arguments[0], cost)
    step = _of_many(function, arguments, cost, costs.call_work(name), is_walking=name in costs.WALKING)
    return _worked_after(step) if name == "findAll" else step


def _of_one(function: Function, argument: Step, cost: int) -> Step:
    known, resolve, work = function.found, function.resolve, costs.call_work(function.name)

    def called(frame: Frame) -> Any:
        value = _single(frame, argument)
        frame.cost += cost
        frame.spend(work)
        implementation = known.get(type(value)) or resolve(value)
        return implementation(value)

    return called


def _of_many(function: Function, arguments: list[Step], cost: int | costs.Cost, work: int, *, is_walking: bool) -> Step:
    known, resolve = function.found, function.resolve
    is_single = len(arguments) == 1

    def called(frame: Frame) -> Any:
        values = _values(frame, arguments)
        kinds: Any = type(values[0]) if is_single else tuple(map(type, values))
        implementation = known.get(kinds) or resolve(*values)
        spent = cost if isinstance(cost, int) else cost(values, None)
        frame.cost += spent
        check_cost(frame)
        frame.spend(work + spent if is_walking else work)
        return implementation(*values)

    return called


def _worked_after(step: Step) -> Step:
    """The same for a call that makes a list of many texts, each of which is work."""

    def called(frame: Frame) -> Any:
        found = step(frame)
        frame.spend(costs.MATCH * len(found))
        return found

    return called


def _costed_after(function: Function, arguments: list[Step], cost: costs.Cost) -> Step:
    """The same where the cost depends on the result."""

    def called(frame: Frame) -> Any:
        values = _values(frame, arguments)
        found = function.resolve(*values)(*values)
        frame.cost += cost(values, found)
        check_cost(frame)
        return found

    return called


_SPECIAL: dict[str, Callable[[Builder, Call], Step]] = {
    "!_": _unary,
    "-_": _unary,
    "@in": _membership,
    "@not_strictly_false": _not_strictly_false,
    "_!=_": _equality,
    "_&&_": _both,
    "_==_": _equality,
    "_||_": _either,
    "or": _or,
    "orValue": _or,
    **dict.fromkeys(COMPARISONS, _ordering),
    **dict.fromkeys(ARITHMETIC, _arithmetic),
}
"""Operators, and what does not need all that it is given; `or` and `orValue` are called on something."""
