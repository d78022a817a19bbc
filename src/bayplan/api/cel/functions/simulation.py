"""What expressions of kwok call besides: the moment, chance, ages and quantities, all numbers with a point.

    Quantity("1Mi") * (pod.SinceSecond() / 60.0)

Those that depend on the moment get it from `situation`, which whoever evaluates them sets. Source: kwok's `pkg/utils/cel`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from fractions import Fraction
from typing import NamedTuple, Protocol

from bayplan.api import quantity
from bayplan.api.cel.functions.registry import DOUBLE, MAP, STRING, TIMESTAMP, Table
from bayplan.api.cel.moments import SECOND, parse_timestamp, timestamp
from bayplan.api.cel.values import ABSENT, EvaluationError, Map, Timestamp

TABLE = Table()
SIGNATURES = (
    "Now() -> timestamp",
    "Rand() -> double",
    "SinceSecond(dyn) -> double",
    "(dyn).SinceSecond() -> double",
    "UnixSecond(timestamp) -> double",
    "(timestamp).UnixSecond() -> double",
    "Quantity(dyn) -> double",
    "(string).Quantity() -> double",
)
"""The functions, as the library writes theirs."""
METRIC_SIGNATURES = (
    *(f"{name}(dyn, string) -> double" for name in ("Usage", "CumulativeUsage")),
    *(f"(dyn).{name}(string) -> double" for name in ("Usage", "CumulativeUsage")),
    *(f"{name}(dyn, string, string) -> double" for name in ("Usage", "CumulativeUsage")),
    *(f"(dyn).{name}(string, string) -> double" for name in ("Usage", "CumulativeUsage")),
    "StartedContainersTotal(dyn) -> double",
    "(dyn).StartedContainersTotal() -> double",
)
"""What only metrics may call."""


class Figures(Protocol):
    """What is known of a node and its pods."""

    def usage(self, pod: tuple[str, str] | None, container: str, resource: str) -> float:
        """What is used now. pod: its namespace and name, None for the node; container: "" for all of them."""

    def cumulative_usage(self, pod: tuple[str, str] | None, container: str, resource: str) -> float:
        """What has been used since somebody first asked, in units times seconds."""

    def started_containers(self) -> float:
        """How many containers the node has started."""


class _Situation(NamedTuple):
    now: float
    chance: Callable[[], float]
    figures: Figures | None


_SITUATION: ContextVar[_Situation] = ContextVar("situation of an evaluation")


@contextlib.contextmanager
def situation(now: float, chance: Callable[[], float], figures: Figures | None = None) -> Iterator[None]:
    """Evaluate at a moment (unix seconds), with numbers in [0, 1) where an expression wants chance. figures: for expressions of metrics."""
    token = _SITUATION.set(_Situation(now, chance, figures))
    try:
        yield
    finally:
        _SITUATION.reset(token)


@TABLE.function("Now")
def _now() -> Timestamp:
    return timestamp(int(_SITUATION.get().now * SECOND))


@TABLE.function("Rand")
def _rand() -> float:
    return _SITUATION.get().chance()


@TABLE.function("SinceSecond", MAP)
@TABLE.member("SinceSecond", MAP)
def _since_second(thing: Map) -> float:
    metadata = thing.find("metadata")
    created = metadata.find("creationTimestamp") if isinstance(metadata, Map) else ABSENT
    return _SITUATION.get().now - _unix_second_of_text(created if isinstance(created, str) else "")


@TABLE.function("UnixSecond", TIMESTAMP)
@TABLE.member("UnixSecond", TIMESTAMP)
def _unix_second(moment: Timestamp) -> float:
    return moment.nanoseconds / SECOND


@TABLE.function("UnixSecond", STRING)
@TABLE.member("UnixSecond", STRING)
def _unix_second_of_text(text: str) -> float:
    """Objects have their times as text."""
    found = parse_timestamp(text)
    if found is None:
        raise EvaluationError(f"{text!r} is no time")
    return _unix_second(found)


@TABLE.function("Quantity", STRING)
@TABLE.member("Quantity", STRING)
def _quantity(text: str) -> float:
    try:
        found = quantity.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from error
    return float(Fraction(found.unscaled) / Fraction(10) ** found.scale)


@TABLE.function("Quantity", DOUBLE)
def _number(value: float) -> float:
    """Resources of objects are numbers already."""
    return value


@TABLE.function("Usage", MAP, STRING)
@TABLE.member("Usage", MAP, STRING)
def _usage(thing: Map, resource: str) -> float:
    return _figures().usage(_pod_of(thing), "", resource)


@TABLE.function("Usage", MAP, STRING, STRING)
@TABLE.member("Usage", MAP, STRING, STRING)
def _container_usage(thing: Map, resource: str, container: str) -> float:
    return _figures().usage(_pod_of(thing), container, resource)


@TABLE.function("CumulativeUsage", MAP, STRING)
@TABLE.member("CumulativeUsage", MAP, STRING)
def _cumulative_usage(thing: Map, resource: str) -> float:
    return _figures().cumulative_usage(_pod_of(thing), "", resource)


@TABLE.function("CumulativeUsage", MAP, STRING, STRING)
@TABLE.member("CumulativeUsage", MAP, STRING, STRING)
def _container_cumulative_usage(thing: Map, resource: str, container: str) -> float:
    return _figures().cumulative_usage(_pod_of(thing), container, resource)


@TABLE.function("StartedContainersTotal", MAP)
@TABLE.member("StartedContainersTotal", MAP)
@TABLE.function("StartedContainersTotal", STRING)
@TABLE.member("StartedContainersTotal", STRING)
def _started_containers(_node: Map | str) -> float:
    return _figures().started_containers()


def _figures() -> Figures:
    found = _SITUATION.get().figures
    assert found is not None, "only expressions of metrics may call this"
    return found


def _pod_of(thing: Map) -> tuple[str, str] | None:
    """Namespace and name of a pod; None for a node, which has no namespace."""
    metadata = thing.find("metadata")
    if not isinstance(metadata, Map):
        raise EvaluationError("neither a pod nor a node")
    namespace, name = metadata.find("namespace"), metadata.find("name")
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else None
