"""What compiled expressions are made of: steps, which are functions of a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.api.cel.values import (
    ABSENT,
    NO_VALUE,
    EvaluationCancelled,
    EvaluationError,
    Map,
    Optional,
    UInt,
    is_list,
    text_of,
    type_name,
)


class Frame:
    """One evaluation."""

    __slots__ = ("cost", "limit", "values", "work", "work_limit")

    def __init__(self, values: list[Any], limit: int, work_limit: int) -> None:
        self.values = values
        """Variables by slot, those of loops too. An EvaluationError among them is raised when it is looked at."""
        self.cost = 0
        """As Kubernetes counts it."""
        self.limit = limit
        self.work = 0
        """CPU time that `cost` does not show, in microseconds on a usual machine: estimated from sizes, so that it is the same everywhere."""
        self.work_limit = work_limit

    def spend(self, work: int) -> None:
        """Count work before it is done. Raises EvaluationCancelled where it would be too much."""
        self.work += work
        if self.work > self.work_limit:
            raise EvaluationCancelled


Step = Callable[[Frame], Any]
"""Evaluates a part of an expression. Raises EvaluationError, and EvaluationCancelled if it costs too much."""


def check_cost(frame: Frame) -> None:
    """Stop an evaluation that has cost too much. Raises EvaluationCancelled."""
    if frame.cost > frame.limit:
        raise EvaluationCancelled


def reading(slot: int) -> Step:
    """The step that reads a variable. Raises EvaluationError if it is one."""

    def read(frame: Frame) -> Any:
        value = frame.values[slot]
        if type(value) is EvaluationError:
            raise value
        return value

    return read


def index_of(key: Any) -> int:
    """The index that a value means. Raises EvaluationError."""
    if type(key) is int:
        return key
    if type(key) is float:
        if key.is_integer():
            return int(key)
        raise EvaluationError(f"unsupported index value {text_of(key)} in list")
    if type(key) is UInt:
        return int(key)
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def find(holder: Any, key: Any) -> Any:
    """A field, entry or item; ABSENT if it is not there. Raises EvaluationError for a key that the holder cannot have."""
    if isinstance(holder, Map):
        return holder.find(key)
    if is_list(holder):
        index = index_of(key)
        return holder[index] if 0 <= index < len(holder) else ABSENT
    return ABSENT


def select(holder: Any, key: Any) -> Any:
    """A field, entry or item. Raises EvaluationError if it is not there."""
    found = holder.find(key) if isinstance(holder, Map) else find(holder, key)
    if found is not ABSENT:
        return found
    if is_list(holder):
        raise EvaluationError(f"index out of bounds: {text_of(key)}")
    raise EvaluationError(f"no such key: {text_of(key)}")


def select_if_present(frame: Frame, holder: Any, key: Any) -> Optional:
    """The same as an optional value, also of an optional holder; only what is there costs."""
    if type(holder) is Optional:
        if not holder.is_present:
            return NO_VALUE
        holder = holder.value
    found = find(holder, key)
    if found is ABSENT:
        return NO_VALUE
    frame.cost += 1
    return Optional(found)


def is_present(holder: Any, key: Any) -> bool:
    """Whether a field, entry or item is there. Raises EvaluationError."""
    if type(holder) is Optional:
        return holder.is_present and is_present(holder.value, key)
    return find(holder, key) is not ABSENT
