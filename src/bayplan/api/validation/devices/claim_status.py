"""Rules for the status of a resource claim: what was allocated, who uses it, and what drivers say of the devices.

Source: Kubernetes' `pkg/apis/resource/validation`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

import msgspec

from bayplan.api.errors import duplicate, forbidden, invalid, required, too_long, too_many, unsupported
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices.device_slices import check_binding_conditions
from bayplan.api.validation.devices.devices import (
    check_driver_name,
    check_opaque,
    check_pool_name,
    check_request_names,
    request_names,
    within,
)
from bayplan.api.validation.fields import (
    Errors,
    check_conditions,
    check_format,
    parse_cidr,
    parse_ip,
    repeats,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.pods.scheduling import check_node_selector
from bayplan.api.validation.values import formats

_MAX_CONSUMERS = 256
_MAX_CONFIGURATIONS = 64
_MAX_CONDITIONS = 8
_MAX_DATA = 10 * 1024
"""Bytes of JSON."""
_MAX_ADDRESSES = 16
_LONGEST_INTERFACE = 256
_LONGEST_HARDWARE_ADDRESS = 128
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NORMAL_UUID = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"


def check_claim_status(errors: Errors, obj: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim) -> None:
    """A new status of a claim."""
    new, before = obj.status, old.status
    _check_consumers(errors, "status.reservedFor", new.reserved_for)
    _check_devices(errors, "status.devices", new.devices, allocated_devices(obj))
    if new.reserved_for and new.allocation is None:
        errors.append(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
    elif obj.metadata.deletion_timestamp is not None and any(
        one not in before.reserved_for for one in new.reserved_for
    ):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden("status.reservedFor", text))
    if new.allocation is None:
        return
    if before.allocation is None:
        _check_allocation(errors, "status.allocation", new.allocation, request_names(obj.spec.devices))
    elif new.allocation != before.allocation:
        errors.append(invalid("status.allocation", go_struct(new.allocation), "field is immutable"))


def _check_consumers(
    errors: Errors, path: str, consumers: Sequence[resource_v1.ResourceClaimConsumerReference]
) -> None:
    """Who uses a claim: each once, by its unique identifier."""
    if len(consumers) > _MAX_CONSUMERS:
        errors.append(too_many(path, len(consumers), _MAX_CONSUMERS))
        return
    for index, consumer in enumerate(consumers):
        given = {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
        errors.extend(required(f"{path}[{index}].{name}") for name, value in given.items() if not value)
    seen: set[str] = set()
    for index, consumer in enumerate(consumers):
        if consumer.uid in seen:
            errors.append(duplicate(f"{path}[{index}]", consumer.uid))
        seen.add(consumer.uid)


_Device = resource_v1.AllocatedDeviceStatus | resource_v1.DeviceRequestAllocationResult
_NAMES = ("Driver", "Pool", "Device", "ShareID")


def allocated_devices(claim: resource_v1.ResourceClaim) -> set[tuple[str, ...]]:
    """The devices, or shares of them, that a claim has."""
    allocation = claim.status.allocation
    return set(map(shared_id, allocation.devices.results)) if allocation is not None else set()


def shared_id(device: _Device) -> tuple[str, ...]:
    """What tells a device, or a share of one, from others."""
    return (device.driver, device.pool, device.device, device.share_id or "")


def _check_devices(
    errors: Errors,
    path: str,
    devices: Sequence[resource_v1.AllocatedDeviceStatus],
    allocated: set[tuple[str, ...]],
) -> None:
    keys = [shared_id(device) for device in devices]
    shown = [msgspec.Raw(msgspec.json.encode(dict(zip(_NAMES, key, strict=True)))) for key in keys]
    for index, device in enumerate(devices):
        where = f"{path}[{index}]"
        _check_device_names(errors, where, device)
        if keys[index] not in allocated:
            errors.append(invalid(where, shown[index], "must be an allocated device in the claim"))
        if len(device.conditions) > _MAX_CONDITIONS:
            errors.append(too_many(f"{where}.conditions", len(device.conditions), _MAX_CONDITIONS))
        check_conditions(errors, f"{where}.conditions", device.conditions)
        if device.data is not None:
            _check_data(errors, f"{where}.data", device.data)
        if device.network_data is not None:
            _check_network(errors, f"{where}.networkData", device.network_data)
    errors.extend(duplicate(f"{path}[{index}]", shown[index]) for index in sorted(repeats(keys)))


def _check_device_names(errors: Errors, path: str, device: _Device) -> None:
    check_driver_name(errors, f"{path}.driver", device.driver)
    check_pool_name(errors, f"{path}.pool", device.pool)
    check_format(errors, f"{path}.device", device.device, formats.dns_label)
    if device.share_id is not None:
        _check_share(errors, f"{path}.shareID", device.share_id)


def _check_share(errors: Errors, path: str, uid: str) -> None:
    if _UUID.fullmatch(uid):
        return
    if _UUID.fullmatch(uid.lower()):
        errors.append(invalid(path, uid, _NORMAL_UUID))
    elif len(uid) != len("00000000-0000-0000-0000-000000000000"):
        errors.append(invalid(path, uid, f"error validating uid: invalid UUID length: {len(uid)}"))
    else:
        errors.append(invalid(path, uid, "error validating uid: invalid UUID format"))


def _check_data(errors: Errors, path: str, data: object) -> None:
    if len(msgspec.json.encode(data)) > _MAX_DATA:
        errors.append(too_long(path, _MAX_DATA))
    elif not isinstance(data, dict):
        errors.append(invalid(path, "<value omitted>", "must be a valid JSON object"))


def _check_network(errors: Errors, path: str, network: resource_v1.NetworkDeviceData) -> None:
    if len(network.interface_name.encode()) > _LONGEST_INTERFACE:
        errors.append(too_long(f"{path}.interfaceName", _LONGEST_INTERFACE))
    if len(network.hardware_address.encode()) > _LONGEST_HARDWARE_ADDRESS:
        errors.append(too_long(f"{path}.hardwareAddress", _LONGEST_HARDWARE_ADDRESS))
    where = f"{path}.ips"
    addresses = within(errors, where, network.ips, _MAX_ADDRESSES)
    for index, address in enumerate(addresses):
        _check_interface_address(errors, f"{where}[{index}]", address)
    again = repeats(addresses)
    for index, address in enumerate(addresses):
        if index in again:
            errors.append(duplicate(f"{where}[{index}]", address))


def _check_interface_address(errors: Errors, path: str, value: str) -> None:
    """An address with the length of its network, in canonical spelling."""
    network, address = parse_cidr(value), parse_ip(value.partition("/")[0])
    if network is None or address is None:
        text = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        errors.append(invalid(path, value, text))
        return
    length = network.prefixlen
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped is not None and length > 32:
        length -= 96
    canonical = f"{mapped or address}/{length}"
    if value != canonical:
        errors.append(invalid(path, value, f'must be in canonical form ("{canonical}")'))


def _check_allocation(errors: Errors, path: str, allocation: resource_v1.AllocationResult, known: set[str]) -> None:
    """What a claim gets for the first time; it does not change afterwards. `known`: the names of its requests."""
    where = f"{path}.devices.results"
    for index, result in enumerate(within(errors, where, allocation.devices.results)):
        at = f"{where}[{index}]"
        check_request_names(errors, f"{at}.request", (result.request,), known, indexed=False)
        _check_device_names(errors, at, result)
        check_binding_conditions(errors, at, result.binding_conditions, result.binding_failure_conditions)
    where = f"{path}.devices.config"
    for index, config in enumerate(within(errors, where, allocation.devices.config, _MAX_CONFIGURATIONS)):
        at = f"{where}[{index}]"
        if not config.source:
            errors.append(required(f"{at}.source"))
        elif config.source not in ("FromClaim", "FromClass"):
            errors.append(unsupported(f"{at}.source", config.source, ("FromClaim", "FromClass")))
        check_request_names(errors, f"{at}.requests", config.requests, known)
        check_opaque(errors, at, config.opaque)
    if allocation.node_selector is not None:
        check_node_selector(errors, f"{path}.nodeSelector", allocation.node_selector)
