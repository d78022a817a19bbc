"""When a pod has to leave because a device that it uses is tainted. Pure functions.

Source of the behaviour: Kubernetes' `pkg/controller/devicetainteviction` (KEP-5055).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.api.tolerations import tolerates
from bayplan.api.types import resource_v1
from bayplan.support.timestamps import parse_rfc3339

NO_EXECUTE = "NoExecute"
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
