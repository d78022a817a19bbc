"""Devices as the values that expressions see (see `device_expressions`, which loads this when it is needed)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayplan.api.cel.functions.quantities import QuantityValue
from bayplan.api.cel.functions.versions import parse_version
from bayplan.api.cel.values import ABSENT, EvaluationError, Map, MapValue
from bayplan.api.quantity import parse
from bayplan.scheduler.snapshot.device_expressions import split_name

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import Device, DeviceAttribute


class _Domains(MapValue):
    """Domain -> what the device has of it, which for unknown domains is nothing."""

    __slots__ = ()

    def find(self, key: Any) -> Any:
        found = super().find(key)
        return MapValue() if found is ABSENT else found


def describe(driver: str, device: Device) -> Map:
    """A device as expressions see it. Names without a domain belong to the driver's. Raises EvaluationError."""
    attributes: dict[str, list[tuple[str, Any]]] = {}
    for name, attribute in device.attributes.items():
        domain, plain = split_name(name, driver)
        attributes.setdefault(domain, []).append((plain, _attribute_value(name, attribute)))
    capacity: dict[str, list[tuple[str, Any]]] = {}
    for name, amount in device.capacity.items():
        domain, plain = split_name(name, driver)
        capacity.setdefault(domain, []).append((plain, QuantityValue(parse(amount.value))))
    return MapValue(
        (
            ("driver", driver),
            ("attributes", _Domains((domain, MapValue(items)) for domain, items in attributes.items())),
            ("capacity", _Domains((domain, MapValue(items)) for domain, items in capacity.items())),
            ("allowMultipleAllocations", bool(device.allow_multiple_allocations)),
        )
    )


def _attribute_value(name: str, attribute: DeviceAttribute) -> Any:
    """The value of an attribute; lists are beyond expressions. Raises EvaluationError."""
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is None:
        raise EvaluationError(f"attribute {name}: unsupported attribute value")
    try:
        return parse_version(attribute.version)
    except EvaluationError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error.message}") from error
