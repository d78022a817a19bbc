"""Resource claims count for themselves and for the devices that they may get, per device class.

A request for all matching devices counts as the most devices that an allocation can hold; of alternatives, the most expensive counts per class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.quantity import Quantity
from bayplan.api.quota.amounts import Amounts, add, largest
from bayplan.api.quota.evaluators import CREATE, UPDATE, Evaluator
from bayplan.api.types import resource_v1

_DEVICES = ".deviceclass.resource.k8s.io/devices"
MOST_DEVICES = 32
"""Devices that one allocation can hold."""


class DeviceClaimEvaluator(Evaluator):
    """See the module."""

    def handles(self, operation: str, subresource: str) -> bool:
        return operation in (CREATE, UPDATE) and not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.names or name.endswith(_DEVICES)]

    def usage(self, obj: Any, now: float) -> Amounts:
        total = super().usage(obj, now)
        for request in obj.spec.devices.requests:
            total = add(total, _devices(request))
        return total


def _devices(request: resource_v1.DeviceRequest) -> Amounts:
    if request.exactly is not None:
        return _of(request.exactly.device_class_name, request.exactly.allocation_mode, request.exactly.count)
    most: Amounts = {}
    for choice in request.first_available:
        most = largest(most, _of(choice.device_class_name, choice.allocation_mode, choice.count))
    return most


def _of(device_class: str, mode: str, count: int) -> Amounts:
    return {device_class + _DEVICES: Quantity(MOST_DEVICES if mode == "All" else count)}
