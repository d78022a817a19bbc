"""Makes steps of loops.

A loop that gathers a list or map adds to the one it has: it made it, and nobody sees it before the loop ends. What a name is bound to is worked out when it is first
looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.api.cel.building import Builder
from bayplan.api.cel.nodes import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node
from bayplan.api.cel.steps import Frame, Step, check_cost, reading
from bayplan.api.cel.values import (
    ABSENT,
    EvaluationCancelled,
    EvaluationError,
    Map,
    MapValue,
    is_list,
    type_name,
)

_UNUSED = "#unused"
_GO_TYPES = {
    "bool": "types.Bool",
    "bytes": "types.Bytes",
    "double": "types.Double",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "int": "types.Int",
    "null_type": "types.Null",
    "optional_type": "*types.Optional",
    "string": "types.String",
    "type": "*types.Type",
    "uint": "types.Uint",
}
"""What messages call the types of what cannot be looped over."""


def build_loop(builder: Builder, node: Comprehension) -> Step:
    """The step of a loop."""
    if node.variable == _UNUSED:
        return _bound(builder, node)
    start, over = _start(builder, node.start), builder.step(node.range)
    gathered, first = builder.new_slot(), builder.new_slot()
    second = builder.new_slot() if node.second_variable else -1
    with builder.scope({node.accumulator: reading(gathered)}):
        result = builder.step(node.result)
        names = {node.variable: reading(first)}
        if node.second_variable:
            names[node.second_variable] = reading(second)
        with builder.scope(names):
            condition = None if _is_true(node.condition) else builder.step(node.condition)
            step = _adding(builder, node, gathered) or builder.step(node.step)
    items = _items if second < 0 else _pairs

    def loop(frame: Frame) -> Any:
        found = items(over(frame))
        values = frame.values
        values[gathered] = start(frame)
        for one, other in found:
            values[first] = one
            if second >= 0:
                values[second] = other
            if condition is not None and not _goes_on(condition, frame):
                break
            try:
                values[gathered] = step(frame)
            except EvaluationError as error:
                values[gathered] = error
            if frame.cost > frame.limit:
                raise EvaluationCancelled
        return result(frame)

    return loop


def _goes_on(condition: Step, frame: Frame) -> bool:
    try:
        return condition(frame) is not False
    except EvaluationError:
        return True


def _is_true(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is True


def _start(builder: Builder, node: Node) -> Step:
    """What a loop begins with; lists and maps are made anew each time."""
    if isinstance(node, ListLiteral) and not node.items:
        return lambda frame: []
    if isinstance(node, MapLiteral) and not node.entries:
        return lambda frame: MapValue()
    return builder.step(node)


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    """Items of a list or keys of a map. Raises EvaluationError for anything else."""
    if isinstance(value, Map):
        return ((key, None) for key in value.keys())  # noqa: SIM118  # maps of the language are not Python's
    if is_list(value):
        return ((item, None) for item in value)
    raise EvaluationError(f"got '{_go_type(value)}', expected iterable type")


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    """Indexes and items of a list, or keys and values of a map. Raises EvaluationError for anything else."""
    if isinstance(value, Map):
        return ((key, value.find(key)) for key in value.keys())  # noqa: SIM118
    if is_list(value):
        return enumerate(value)
    raise EvaluationError(f"unsupported comprehension range type: {_go_type(value)}")


def _go_type(value: Any) -> str:
    name = type_name(value)
    return _GO_TYPES.get(name, name)


def _adding(builder: Builder, node: Comprehension, slot: int) -> Step | None:
    """The step of loops that add to a list or a map, with or without a filter; None for others."""
    step, chosen = node.step, None
    if isinstance(step, Call) and step.function == "_?_:_":
        chosen, step = builder.step(step.arguments[0]), step.arguments[1]
    add = _addition(builder, node, step, slot)
    if add is None or chosen is None:
        return add
    condition: Step = chosen
    gathered = reading(slot)

    def added_if(frame: Frame) -> Any:
        found = condition(frame)
        if found is True:
            return add(frame)
        if found is False:
            return gathered(frame)
        raise EvaluationError("no such overload")

    return added_if


def _addition(builder: Builder, node: Comprehension, step: Node, slot: int) -> Step | None:
    if not isinstance(step, Call) or not _is_gathered(step, node.accumulator):
        return None
    if step.function == "_+_" and isinstance(node.start, ListLiteral) and not node.start.items:
        more, gathered = builder.step(step.arguments[1]), reading(slot)

        def extended(frame: Frame) -> Any:
            frame.cost += 2
            try:
                added = more(frame)
            except EvaluationError:
                gathered(frame)
                raise
            held = gathered(frame)
            held.extend(added)
            return held

        return extended
    if step.function == "cel.@mapInsert" and isinstance(node.start, MapLiteral) and not node.start.entries:
        return _insertion([builder.step(one) for one in step.arguments[1:]], slot)
    return None


def _is_gathered(step: Call, accumulator: str) -> bool:
    """Whether a call is about what a loop has gathered."""
    if not step.arguments or accumulator != "@result":
        return False
    first = step.arguments[0]
    return isinstance(first, Ident) and first.name == accumulator


def _insertion(arguments: list[Step], slot: int) -> Step:
    gathered = reading(slot)

    def inserted(frame: Frame) -> Any:
        frame.cost += 1
        held = gathered(frame)
        given = [argument(frame) for argument in arguments]
        frame.cost += 1
        if len(given) == 2:
            held.insert(*given)
        else:
            for key in given[0].keys():  # noqa: SIM118  # maps of the language are not Python's
                held.insert(key, given[0].find(key))
        return held

    return inserted


def _bound(builder: Builder, node: Comprehension) -> Step:
    """A name for a value: worked out when it is first looked at, and not again."""
    value, slot = builder.step(node.start), builder.new_slot()
    get = reading(slot)

    def read(frame: Frame) -> Any:
        if frame.values[slot] is ABSENT:
            try:
                frame.values[slot] = value(frame)
            except EvaluationError as error:
                frame.values[slot] = error
        return get(frame)

    with builder.scope({node.accumulator: read}):
        body = builder.step(node.result)

    def bound(frame: Frame) -> Any:
        frame.values[slot] = ABSENT
        found = body(frame)
        check_cost(frame)
        return found

    return bound
