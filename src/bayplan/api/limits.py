"""Limit ranges as pure functions: what they give to containers, and what is out of their bounds.

Source: `LimitRange` of the Kubernetes API; the wording of violations is that of the plugin `LimitRanger`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from bayplan.api.pods.resources import pod_total
from bayplan.api.quantity import Quantity
from bayplan.api.quota.amounts import ZERO, Amounts, parsed
from bayplan.api.types import core_v1
from bayplan.api.types.scalars import Quantity as WireQuantity

Wire = dict[str, WireQuantity]
"""A resource list as objects have it."""
_MILLI_LIMIT = (2**63 - 1) // 1000
"""Above this Kubernetes compares whole units, not thousandths."""


def default_resources(
    limit_range: core_v1.LimitRange,
) -> tuple[Wire, Wire]:
    """Requests and limits for containers that leave them out."""
    requests: Wire = {}
    limits: Wire = {}
    for item in limit_range.spec.limits:
        if item.type == "Container":
            requests.update(item.default_request)
            limits.update(item.default)
    return requests, limits


def fill_in(spec: core_v1.PodSpec, limit_range: core_v1.LimitRange) -> list[str]:
    """Give every container what it leaves out. Returns what was given, for people."""
    requests, limits = default_resources(limit_range)
    if not requests and not limits:
        return []
    told: list[str] = []
    for name in ("containers", "init_containers"):
        containers = getattr(spec, name)
        filled = tuple(
            _filled(container, name == "init_containers", requests, limits, told) for container in containers
        )
        setattr(spec, name, filled)
    return told


def _filled(
    container: core_v1.Container, init: bool, requests: Wire, limits: Wire, told: list[str]
) -> core_v1.Container:
    resources = container.resources
    more_requests = {name: amount for name, amount in requests.items() if name not in resources.requests}
    more_limits = {name: amount for name, amount in limits.items() if name not in resources.limits}
    if not more_requests and not more_limits:
        return container
    shown = f"init container {container.name}" if init else f"container {container.name}"
    for more, what in ((more_requests, "request"), (more_limits, "limit")):
        if more:
            told.append(f"{', '.join(sorted(more))} {what} for {shown}")
    resources = replace(
        resources, requests={**resources.requests, **more_requests}, limits={**resources.limits, **more_limits}
    )
    return replace(container, resources=resources)


def pod_violations(limit_range: core_v1.LimitRange, spec: core_v1.PodSpec) -> list[str]:
    """What is out of bounds in a pod; each finding is told once."""
    found: list[str] = []
    for item in limit_range.spec.limits:
        if item.type == "Container":
            for container in spec.containers + spec.init_containers:
                resources = container.resources
                found += _violations(item, parsed(resources.requests), parsed(resources.limits))
        elif item.type == "Pod":
            requests = pod_total(spec, "requests", overhead=False)
            found += _violations(item, requests, pod_total(spec, "limits", overhead=False))
    return list(dict.fromkeys(found))


def claim_violations(limit_range: core_v1.LimitRange, spec: core_v1.PersistentVolumeClaimSpec) -> list[str]:
    """What is out of bounds in a claim, which only requests count for."""
    found: list[str] = []
    requests = parsed(spec.resources.requests)
    for item in limit_range.spec.limits:
        if item.type == "PersistentVolumeClaim":
            found += _each(item.type, item.min, requests, {}, _below)
            found += _each(item.type, item.max, requests, {}, _request_above)
    return list(dict.fromkeys(found))


def _violations(item: core_v1.LimitRangeItem, requests: Amounts, limits: Amounts) -> list[str]:
    return [
        *_each(item.type, item.min, requests, limits, _below),
        *_each(item.type, item.max, requests, limits, _above),
        *_each(item.type, item.max_limit_request_ratio, requests, limits, _ratio_above),
    ]


class _What(NamedTuple):
    """What a bound is about."""

    resource: str
    type: str

    @property
    def usage(self) -> str:
        """As messages have it."""
        return f"{self.resource} usage per {self.type}"


Rule = Callable[[_What, Quantity, Quantity | None, Quantity | None], str]
"""From what it is about, the bound, the request and the limit to what is wrong, or ""."""


def _each(type_: str, bounds: dict[str, WireQuantity], requests: Amounts, limits: Amounts, rule: Rule) -> Iterable[str]:
    amounts = parsed(bounds)
    for name in sorted(amounts):
        problem = rule(_What(name, type_), amounts[name], requests.get(name), limits.get(name))
        if problem:
            yield problem


def _compared(*amounts: Quantity | None) -> list[int]:
    """Amounts at one precision; missing ones are zero."""
    given = [ZERO if amount is None else amount for amount in amounts]
    if all(amount.value() <= _MILLI_LIMIT for amount in given):
        return [amount.milli_value() for amount in given]
    return [amount.value() for amount in given]


def _below(what: _What, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    asked, allowed, least = _compared(request, limit, bound)
    text = f"minimum {what.usage} is {bound}"
    if request is None:
        return f"{text}.  No request is specified"
    if asked < least:
        return f"{text}, but request is {request}"
    if limit is not None and allowed < least:
        return f"{text}, but limit is {limit}"
    return ""


def _above(what: _What, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    asked, allowed, most = _compared(request, limit, bound)
    text = f"maximum {what.usage} is {bound}"
    if limit is None:
        return f"{text}.  No limit is specified"
    if allowed > most:
        return f"{text}, but limit is {limit}"
    if request is not None and asked > most:
        return f"{text}, but request is {request}"
    return ""


def _request_above(what: _What, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    asked, most = _compared(request, bound)
    text = f"maximum {what.usage} is {bound}"
    if request is None:
        return f"{text}.  No request is specified"
    return f"{text}, but request is {request}" if asked > most else ""


def _ratio_above(what: _What, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    asked, allowed = _compared(request, limit, bound)[:2]
    text = f"{what.resource} max limit to request ratio per {what.type} is {bound}"
    if not asked:
        return f"{text}, but no request is specified or request is 0"
    if not allowed:
        return f"{text}, but no limit is specified or limit is 0"
    ratio = allowed / asked
    if ratio * 1000 > bound.milli_value():
        return f"{text}, but provided ratio is {ratio:f}"
    return ""
