"""What the containers of a simulated pod use, as the pod's annotations say.

    bayplan.dev/cpu-usage: 300m              of the whole pod, shared by its containers as they request, evenly if they do not
    bayplan.dev/cpu-usage: 50%               of what each container requests
    bayplan.dev/memory-usage: 100Mi..300Mi   anything between; also with percentages
    bayplan.dev/cpu-usage: 50m@0s 400m@2m    changing over time, counted from the start of the container, straight between the points
    bayplan.dev/cpu-usage: wave(50m,400m,1h) up and down, once in that time
    bayplan.dev/cpu-usage.NAME: 20m          of one container

Nothing uses more CPU than its limit. Without an annotation a container uses a tenth of what it requests. A value that cannot be read counts as no annotation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from bayplan.api.quantity import Format, Quantity, parse
from bayplan.api.types import core_v1
from bayplan.support.timestamps import parse_rfc3339

ANNOTATIONS = {"cpu": "bayplan.dev/cpu-usage", "memory": "bayplan.dev/memory-usage"}
_MOMENT = 0.001
"""Seconds, less than what lies between two points of a usage."""
_WAVE = re.compile(r"wave\(([^,]+),([^,]+),([^,]+)\)")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS = {"cpu": (9, Format.DECIMAL_SI), "memory": (0, Format.BINARY_SI)}
"""Digits behind the point (nanocores, bytes) and how a quantity of the resource is written."""


class _Value(NamedTuple):
    """What an annotation says."""

    of_request: bool
    """Whether the amount is a part of what is requested."""
    amount: Fraction


_IDLE = _Value(True, Fraction(1, 10))


def container_usage(pod: core_v1.Pod, chance: Callable[[], float], now: float = 0.0) -> dict[str, dict[str, Quantity]]:
    """Container -> resource -> usage, of containers that run. `chance` gives numbers in [0, 1), asked for only where a range stands; `now`: unix seconds."""
    sidecars = tuple(one for one in pod.spec.init_containers if one.restart_policy == "Always")
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    ages = {one.name: _age(one.state.running, now) for one in statuses if one.state.running is not None}
    containers = [one for one in (*pod.spec.containers, *sidecars) if one.name in ages]
    found: dict[str, dict[str, Quantity]] = {one.name: {} for one in containers}
    for resource in ANNOTATIONS:
        for name, amount in _usage_of(pod, containers, resource, chance, ages).items():
            found[name][resource] = rounded(amount, resource)
    for one in containers:
        if limit := one.resources.limits.get("cpu"):  # throttled; more memory than the limit kills instead
            usage, most = found[one.name], rounded(_amount(str(limit)), "cpu")
            usage["cpu"] = min(usage["cpu"], most)
    return found


def total_usage(containers: dict[str, dict[str, Quantity]]) -> dict[str, Quantity]:
    """What the containers use together."""
    total = {resource: rounded(Fraction(0), resource) for resource in ANNOTATIONS}
    for usage in containers.values():
        total = {resource: amount.add(usage[resource]) for resource, amount in total.items()}
    return total


def _usage_of(
    pod: core_v1.Pod,
    containers: Sequence[core_v1.Container],
    resource: str,
    chance: Callable[[], float],
    ages: Mapping[str, float],
) -> dict[str, Fraction]:
    annotations, key = pod.metadata.annotations, ANNOTATIONS[resource]
    requests = {one.name: _amount(str(one.resources.requests.get(resource, "0"))) for one in containers}
    wholes: dict[float, _Value] = {}
    """Age -> what the pod uses; containers of one age share one draw."""
    total = sum(requests.values(), Fraction(0))
    found = {}
    for name, request in requests.items():
        age = ages[name]
        own = _value(annotations.get(f"{key}.{name}", ""), chance, age)
        if own is None and age not in wholes:
            wholes[age] = _value(annotations.get(key, ""), chance, age) or _IDLE
        whole = wholes.get(age, _IDLE)
        if own is not None:
            found[name] = own.amount * request if own.of_request else own.amount
        elif whole.of_request:
            found[name] = whole.amount * request
        else:
            found[name] = whole.amount * (request / total if total else Fraction(1, len(requests)))
    return found


def _age(running: core_v1.ContainerStateRunning, now: float) -> float:
    """Seconds since a container was started."""
    return max(now - parse_rfc3339(running.started_at), 0.0) if running.started_at else 0.0


def breakpoints(pod: core_v1.Pod, resource: str, container: str) -> list[float]:
    """Ages (seconds) at which the usage of a container bends, in order; nothing if it does not change over time."""
    annotations, key = pod.metadata.annotations, ANNOTATIONS[resource]
    text = annotations.get(f"{key}.{container}", annotations.get(key, ""))
    try:
        if match := _WAVE.fullmatch(text.strip()):
            return [0.0, _time(match[3]) / 2]
        return sorted(_point(one)[0] for one in text.split()) if "@" in text else []
    except ValueError:
        return []


def readable(text: str) -> bool:
    """Whether an annotation's value can be read at every age."""
    try:
        ages = [0.0, *(_point(one)[0] + _MOMENT for one in text.split())] if "@" in text else [0.0]
    except ValueError:
        return False
    return all(_value(text, lambda: 0.5, age) is not None for age in ages)


def _value(text: str, chance: Callable[[], float], age: float) -> _Value | None:
    """What an annotation says at an age of the pod (seconds); None if it says nothing, or mixes a part of the request with an amount."""
    try:
        if match := _WAVE.fullmatch(text.strip()):
            part = (1 - math.cos(2 * math.pi * age / _time(match[3]))) / 2
            return _between(_bound(match[1]), _bound(match[2]), part)
        if "@" in text:
            return _at([_point(one) for one in text.split()], age)
        low, between, high = text.partition("..")
        return _between(_bound(low), _bound(high), chance()) if between else _bound(low)
    except (ValueError, ZeroDivisionError):
        return None


def _between(first: _Value, second: _Value, part: float) -> _Value:
    """Raises ValueError."""
    if first.of_request != second.of_request:
        raise ValueError("a part of the request and an amount have nothing between")
    return _Value(first.of_request, first.amount + (second.amount - first.amount) * Fraction(part))


def _at(points: list[tuple[float, _Value]], age: float) -> _Value:
    """The value at an age: that of the first point before it, of the last one after it. Raises ValueError."""
    before = points[0]
    for point in points:
        if point[0] > age:
            span = point[0] - before[0]
            return (
                _between(before[1], point[1], (age - before[0]) / span) if span > 0 and age > before[0] else before[1]
            )
        before = point
    return before[1]


def _point(text: str) -> tuple[float, _Value]:
    """Raises ValueError."""
    value, _, moment = text.partition("@")
    return _time(moment), _bound(value)


def _time(text: str) -> float:
    """Seconds. Raises ValueError."""
    parts = _TIME.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(f"{text!r} is no time such as 30s or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _bound(text: str) -> _Value:
    """Raises ValueError."""
    text = text.strip()
    if text.endswith("%"):
        return _Value(True, _amount(text[:-1]) / 100)
    return _Value(False, _amount(text))


def _amount(text: str) -> Fraction:
    """Raises ValueError."""
    found = parse(text)
    if found.sign() < 0:
        raise ValueError(f"{text} is negative")
    return Fraction(found.unscaled, 10**found.scale)


def rounded(amount: Fraction, resource: str) -> Quantity:
    """An amount of `cpu` or `memory` as metrics show it: nanocores, bytes."""
    scale, form = _UNITS[resource]
    return Quantity(int(amount * 10**scale), scale, form)
