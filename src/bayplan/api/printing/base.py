"""What a printer is, and the cells that many kinds share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayplan.support.timestamps import parse_rfc3339


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, as the API describes it."""

    name: str
    description: str = ""
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, 1 with `-o wide`."""


@dataclass(frozen=True, slots=True)
class Printer:
    """Columns of a kind and how to fill them."""

    columns: tuple[Column, ...]
    cells: Callable[[Any, float], list[Any]]
    """(object, now in unix seconds) -> one value per column."""


NAME = Column("Name", "Name must be unique within a namespace.", format="name")
AGE = Column("Age", "CreationTimestamp is a timestamp representing the server time when this object was created.")


def age(timestamp: str | None, now: float) -> str:
    """How long ago, in kubectl's short form; `<unknown>` without a timestamp."""
    if not timestamp:
        return "<unknown>"
    return human_duration(now - parse_rfc3339(timestamp))


def human_duration(seconds: float) -> str:
    """A duration with two digits of meaning at most: `45s`, `3m10s`, `25m`, `5h12m`, `3d4h`, `99d`, `2y35d` (apimachinery's HumanDuration)."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return f"{days // 365}y{days % 365}d" if days % 365 else f"{days // 365}y"
    return f"{days // 365}y"


def _name_and_age(obj: Any, now: float) -> list[Any]:
    if isinstance(obj, dict):
        return [obj["metadata"]["name"], age(obj["metadata"].get("creationTimestamp"), now)]
    return [obj.metadata.name, age(obj.metadata.creation_timestamp, now)]


DEFAULT_PRINTER = Printer(
    (NAME, Column("Created At", AGE.description, type="date")),
    lambda obj, now: [obj.metadata.name, obj.metadata.creation_timestamp],
)
NAME_AND_AGE = Printer((NAME, AGE), _name_and_age)
