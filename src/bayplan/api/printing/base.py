"""What a printer is, and the cells that many kinds share.

The columns themselves (names, types, priorities and the long descriptions that Kubernetes gives) are data: `columns.json`, one entry
`group's first label/Kind` each with rows of name, type, format, priority and description; `@name` stands for a text of the entry "".
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api import quantity
from bayplan.api.selectors.labels import SelectorError, compile_selector
from bayplan.api.types import meta_v1
from bayplan.support.timestamps import parse_rfc3339

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"

Cells = Callable[[Any, float], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, as the API describes it."""

    name: str
    description: str = ""
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, 1 with `-o wide`."""


def _no_conditions(obj: Any) -> list[dict[str, str]]:
    return []


@dataclass(frozen=True, slots=True)
class Printer:
    """Columns of a kind and how to fill them."""

    columns: tuple[Column, ...]
    cells: Cells
    """(object, now in unix seconds) -> one value per column."""
    conditions: Callable[[Any], list[dict[str, str]]] = _no_conditions
    """What the row of an object says about it beside the cells: that it is of the past."""
    order: Callable[[Any], Any] | None = None
    """What objects of a list are sorted by; None if they come as they are listed."""


@functools.cache
def _column_data() -> tuple[dict[str, str], dict[str, list[tuple[str, str, str, int, str]]]]:
    """Shared descriptions, and the rows of every entry."""
    data = importlib.resources.files(__package__).joinpath("columns.json").read_bytes()
    entries = msgspec.json.decode(data)
    return entries.pop(""), entries


def columns(entry: str) -> tuple[Column, ...]:
    """The columns of an entry such as `core/Pod`. Raises KeyError if there is none."""
    shared, entries = _column_data()
    return tuple(
        Column(name, shared[text[1:]] if text.startswith("@") else text, kind, form, priority)
        for name, kind, form, priority, text in entries[entry]
    )


def printers(group: str, cells: Mapping[str, Cells]) -> dict[str, Printer]:
    """Printers of the kinds of a group, by kind name."""
    return {kind: Printer(columns(f"{group}/{kind}"), function) for kind, function in cells.items()}


def age(timestamp: str | None, now: float) -> str:
    """How long ago, in kubectl's short form; `<unknown>` without a timestamp."""
    if not timestamp:
        return UNKNOWN
    return human_duration(now - parse_rfc3339(timestamp))


def object_age(obj: Any, now: float) -> str:
    """The age of an object."""
    return age(obj.metadata.creation_timestamp, now)


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
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def label_text(labels: Mapping[str, str]) -> str:
    """`a=b,c=d` in order of the keys; `<none>` for no labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def selector_text(selector: meta_v1.LabelSelector | None, nothing: str = NONE) -> str:
    """A label selector as kubectl would take it; `nothing` if it is empty, `<error>` if it is invalid."""
    try:
        return str(compile_selector(selector)) if selector is not None and not _is_empty(selector) else nothing
    except SelectorError:
        return "<error>"


def _is_empty(selector: meta_v1.LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def container_texts(pod_spec: Any) -> list[str]:
    """Names and images of the containers of a template."""
    return [
        ",".join(container.name for container in pod_spec.containers),
        ",".join(container.image for container in pod_spec.containers),
    ]


def at_most(items: Iterable[str], limit: int, nothing: str = "") -> str:
    """The first items, and how many more there are: `a,b,c + 2 more...`."""
    found = list(items)
    text = ",".join(found[:limit])
    return f"{text} + {len(found) - limit} more..." if len(found) > limit else text or nothing


def quantity_text(value: str | int | float | None) -> str:
    """A quantity in canonical form; `0` if it is missing."""
    return "0" if value is None else quantity.canonical(value)


def load_balancer_addresses(status: Any) -> str:
    """Addresses and names of a load balancer in order of the alphabet."""
    return ",".join(sorted({point.ip or point.hostname for point in status.load_balancer.ingress} - {""}))


def name_and_age(obj: Any, now: float) -> list[Any]:
    """Cells of kinds that show nothing else."""
    return [obj.metadata.name, object_age(obj, now)]


def _name_and_creation(obj: Any, now: float) -> list[Any]:
    if isinstance(obj, dict):
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]
    return [obj.metadata.name, obj.metadata.creation_timestamp]


@functools.cache
def default_printer() -> Printer:
    """Name and time of creation: kinds without a printer of their own."""
    return Printer(columns("default"), _name_and_creation)
