"""When a pod has to leave because a device that it uses is tainted. Pure functions.

Source of the behaviour: Kubernetes' `pkg/controller/devicetainteviction` (KEP-5055).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bayplan.api.device_taints import Rule, selects
from bayplan.api.pods.tolerations import tolerates
from bayplan.api.types import meta_v1, resource_v1
from bayplan.support.timestamps import parse_rfc3339

NO_EXECUTE, NO_EFFECT = "NoExecute", "None"
EVICTION = "EvictionInProgress"
"""The condition of a DeviceTaintRule."""
DeviceId = tuple[str, str, str]
"""Driver, pool and device."""


def tainted_devices(slices: Iterable[resource_v1.ResourceSlice]) -> dict[DeviceId, tuple[resource_v1.DeviceTaint, ...]]:
    """The taints with the effect NoExecute by device; of each pool those slices count that have its highest generation."""
    newest: dict[tuple[str, str], int] = {}
    listed = list(slices)
    for one in listed:
        pool = (one.spec.driver, one.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), one.spec.pool.generation)
    found = {}
    for one in listed:
        pool = (one.spec.driver, one.spec.pool.name)
        if one.spec.pool.generation < newest[pool]:
            continue
        for device in one.spec.devices:
            taints = tuple(taint for taint in device.taints if taint.effect == NO_EXECUTE)
            if taints:
                found[*pool, device.name] = taints
    return found


def would_leave(claim: resource_v1.ResourceClaim, rule: Rule) -> bool:
    """Whether the pods that use a claim have to leave some time because of a rule, if its effect is NoExecute or were that."""
    taint = rule.spec.taint
    if taint.effect not in (NO_EXECUTE, NO_EFFECT):
        return False
    seen = resource_v1.DeviceTaint(key=taint.key, value=taint.value, effect=NO_EXECUTE, time_added=taint.time_added)
    allocation = claim.status.allocation
    tainted = {
        (one.driver, one.pool, one.device): (seen,)
        for one in (allocation.devices.results if allocation is not None else ())
        if selects(rule, one.driver, one.pool, one.device)
    }
    return bool(tainted) and eviction_time(claim, tainted, 0.0) is not None


def selected_devices(
    rule: Rule, slices: Iterable[resource_v1.ResourceSlice], claims: Iterable[resource_v1.ResourceClaim]
) -> tuple[int, int]:
    """How many devices a rule selects: of those that are offered, and of those that are allocated."""
    offered = {(one.spec.driver, one.spec.pool.name, device.name) for one in slices for device in one.spec.devices}
    allocated = {
        (one.driver, one.pool, one.device)
        for claim in claims
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
    }
    return sum(selects(rule, *one) for one in offered), sum(selects(rule, *one) for one in allocated)


def rule_condition(
    rule: Rule, *, pending: Mapping[str, str], evicted: int, devices: tuple[int, int]
) -> meta_v1.Condition:
    """What becomes of a rule, without the time. pending: pods that have to leave, or would, with their namespaces. devices: see `selected_devices`."""
    effect, is_pending = rule.spec.taint.effect, False
    if effect == NO_EXECUTE:
        is_pending = bool(pending)
        reason = "PodsPendingEviction" if pending else "Completed" if evicted else "NotStarted"
        verb = "needs" if len(pending) == 1 else "need"
        text = f"{_counted(len(pending), 'pod')} {verb} to be evicted in {_namespaces(pending)}." if pending else ""
    elif effect == NO_EFFECT:
        reason = "NoEffect"
        text = (
            f"{_counted(devices[0], 'published device')} selected. {_counted(devices[1], 'allocated device')} selected. "
            f"{_counted(len(pending), 'pod')} would be evicted in {_namespaces(pending)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    else:
        reason, text = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if evicted:
        text += f"{' ' if text else ''}{_counted(evicted, 'pod')} evicted since starting the controller."
    return meta_v1.Condition(
        type=EVICTION,
        status="True" if is_pending else "False",
        reason=reason,
        message=text,
        observed_generation=rule.metadata.generation,
    )


def is_same(told: meta_v1.Condition, wanted: meta_v1.Condition) -> bool:
    """Whether a condition says the same as another, at whatever time."""
    return msgspec.structs.replace(told, last_transition_time=wanted.last_transition_time) == wanted


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _namespaces(pending: Mapping[str, str]) -> str:
    count = len(set(pending.values()))
    return "1 namespace" if count == 1 else f"{count} different namespaces"


def eviction_time(
    claim: resource_v1.ResourceClaim, tainted: Mapping[DeviceId, tuple[resource_v1.DeviceTaint, ...]], now: float
) -> float | None:
    """From when on (unix seconds) the pods that use a claim have to leave; None if they may stay. A taint without a time counts from `now`."""
    allocation: Any = claim.status.allocation
    times = []
    for result in allocation.devices.results if allocation is not None else ():
        for taint in tainted.get((result.driver, result.pool, result.device), ()):
            since = parse_rfc3339(taint.time_added) if taint.time_added else now
            matching = [one for one in result.tolerations if tolerates(one, taint)]
            if not matching:
                times.append(since)
                continue
            limits = [one.toleration_seconds for one in matching if one.toleration_seconds is not None]
            if limits:
                times.append(since + max(min(limits), 0))
    return min(times, default=None)
