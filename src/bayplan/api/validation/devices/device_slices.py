"""Rules for the devices of resource slices: where they are, what they are described by, which counters they use and
how much of their capacity may be asked for.

Limits and wording are those of `pkg/apis/resource/validation` of Kubernetes. A list over its limit is reported as such
and not looked into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bayplan.api.errors import duplicate, forbidden, invalid, required, too_long, too_many, unsupported
from bayplan.api.quantity import parse
from bayplan.api.types import core_v1, resource_v1, resource_v1alpha3
from bayplan.api.validation.devices.capacity_policies import check_request_policy
from bayplan.api.validation.devices.devices import check_qualified_attribute
from bayplan.api.validation.fields import (
    Errors,
    check_format,
    check_key_format,
    repeats,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.pods.scheduling import check_node_selector
from bayplan.api.validation.values import formats

_MAX_DEVICES = 128
_MAX_ADVANCED_DEVICES = 64
_MAX_COUNTER_SETS = 8
_MAX_COUNTERS = 32
_MAX_CONSUMPTIONS = 2
_MAX_PROPERTIES = 32
_MAX_ATTRIBUTE_VALUES = 48
_MAX_TAINTS = 16
_MAX_VALUE_LENGTH = 64
_MAX_CONDITIONS = 4
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_PLACES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_PLACES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_DEVICE_PLACES = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
_NUMBER = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMANTIC_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def check_slice_places(errors: Errors, path: str, spec: resource_v1.ResourceSliceSpec) -> None:
    """Where the devices of a slice are: exactly one way to say it."""
    places: list[str] = []
    _check_node_name(
        errors, f"{path}.nodeName", spec.node_name, places, "must be either unset or set to a non-empty string"
    )
    if spec.node_selector is not None:
        _check_selector(errors, f"{path}.nodeSelector", spec.node_selector, places)
        terms = spec.node_selector.node_selector_terms
        if len(terms) != 1:
            where = f"{path}.nodeSelector.nodeSelectorTerms"
            errors.append(invalid(where, go_struct(terms), "must have exactly one node selector term"))
    _check_flag(errors, f"{path}.allNodes", spec.all_nodes, places)
    _check_flag(errors, f"{path}.perDeviceNodeSelection", spec.per_device_node_selection, places)
    if not places:
        errors.append(required(path, _PLACES))
    elif len(places) > 1:
        errors.append(invalid(path, _braced(places), f"{_PLACES}, but multiple fields are set"))


def check_slice_devices(errors: Errors, path: str, spec: resource_v1.ResourceSliceSpec) -> None:
    """The devices of a slice, or the counters which devices of other slices share."""
    if spec.shared_counters and spec.devices:
        errors.append(invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
    limit = _MAX_ADVANCED_DEVICES if any(map(_is_advanced, spec.devices)) else _MAX_DEVICES
    if len(spec.devices) > limit:
        errors.append(too_many(f"{path}.devices", len(spec.devices), limit))
    else:
        for index, device in enumerate(spec.devices):
            check_device(errors, f"{path}.devices[{index}]", device, per_device=bool(spec.per_device_node_selection))
        _check_distinct(errors, f"{path}.devices", (device.name for device in spec.devices))
    where = f"{path}.sharedCounters"
    if len(spec.shared_counters) > _MAX_COUNTER_SETS:
        errors.append(too_many(where, len(spec.shared_counters), _MAX_COUNTER_SETS))
        return
    for index, counters in enumerate(spec.shared_counters):
        _check_counter_name(errors, f"{where}[{index}].name", counters.name)
        _check_counters(errors, f"{where}[{index}].counters", counters.counters)
    _check_distinct(errors, where, (counters.name for counters in spec.shared_counters))


def check_device(errors: Errors, path: str, device: resource_v1.Device, *, per_device: bool) -> None:
    """One device; `per_device` when the slice leaves it to its devices to say where they are."""
    check_format(errors, f"{path}.name", device.name, formats.dns_label)
    properties = len(device.attributes) + len(device.capacity)
    if properties > _MAX_PROPERTIES:
        text = f"the total number of attributes and capacities must not exceed {_MAX_PROPERTIES}"
        errors.append(invalid(path, properties, text))
    values = sum(max(1, _list_length(attribute)) for attribute in device.attributes.values())
    if values > _MAX_ATTRIBUTE_VALUES:
        text = f"the total number of attribute values must not exceed {_MAX_ATTRIBUTE_VALUES}"
        errors.append(invalid(path, values, text))
    for key, attribute in device.attributes.items():
        check_qualified_attribute(errors, f"{path}.attributes", key, needs_domain=False)
        _check_attribute(errors, f"{path}.attributes[{key}]", attribute)
    for key, capacity in device.capacity.items():
        where = f"{path}.capacity[{key}]"
        check_qualified_attribute(errors, f"{path}.capacity", key, needs_domain=False)
        if capacity.request_policy is not None:
            if device.allow_multiple_allocations:
                check_request_policy(errors, f"{where}.requestPolicy", parse(capacity.value), capacity.request_policy)
            else:
                errors.append(forbidden(f"{where}.requestPolicy", "allowMultipleAllocations must be true"))
    _check_taints(errors, f"{path}.taints", device.taints)
    _check_consumption(errors, f"{path}.consumesCounters", device.consumes_counters)
    _check_device_places(errors, path, device, per_device=per_device)
    check_binding_conditions(errors, path, device.binding_conditions, device.binding_failure_conditions)


def check_binding_conditions(errors: Errors, path: str, bindings: Sequence[str], failures: Sequence[str]) -> None:
    """The conditions a scheduler waits for before it binds a pod: those of success and those of failure go together
    and share no type."""
    for name, types in (("bindingConditions", bindings), ("bindingFailureConditions", failures)):
        where = f"{path}.{name}"
        if len(types) > _MAX_CONDITIONS:
            errors.append(too_many(where, len(types), _MAX_CONDITIONS))
            continue
        for index, one in enumerate(types):
            check_key_format(errors, f"{where}[{index}]", one)
    for name, types in (("bindingConditions", bindings), ("bindingFailureConditions", failures)):
        again = repeats(types)
        for index, one in enumerate(types):
            where = f"{path}.{name}[{index}]"
            if index in again:
                errors.append(duplicate(where, one))
            if types is failures and one in bindings:
                text = "bindingFailureConditions must not overlap with bindingConditions"
                errors.append(invalid(where, one, text))
    if failures and not bindings:
        text = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(f"{path}.bindingConditions", None, text))
    if bindings and not failures:
        text = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(f"{path}.bindingFailureConditions", None, text))


def _check_node_name(errors: Errors, path: str, name: str | None, places: list[str], empty: str) -> None:
    if name:
        places.append("`nodeName`")
        check_format(errors, path, name, formats.dns_subdomain)
    elif name is not None:
        errors.append(invalid(path, name, empty))


def _check_selector(errors: Errors, path: str, selector: core_v1.NodeSelector, places: list[str]) -> None:
    places.append("`nodeSelector`")
    check_node_selector(errors, path, selector)


def _check_flag(errors: Errors, path: str, flag: bool | None, places: list[str]) -> None:
    if flag:
        places.append(f"`{path.rpartition('.')[2]}`")
    elif flag is not None:
        errors.append(invalid(path, flag, "must be either unset or set to true"))


def _check_device_places(errors: Errors, path: str, device: resource_v1.Device, *, per_device: bool) -> None:
    if not per_device:
        if device.node_name is not None or device.node_selector is not None or device.all_nodes is not None:
            errors.append(invalid(path, None, _NO_DEVICE_PLACES))
        return
    places: list[str] = []
    _check_node_name(errors, f"{path}.nodeName", device.node_name, places, "must not be empty")
    if device.node_selector is not None:
        _check_selector(errors, f"{path}.nodeSelector", device.node_selector, places)
    _check_flag(errors, f"{path}.allNodes", device.all_nodes, places)
    if not places:
        errors.append(required(path, _DEVICE_PLACES))
    elif len(places) > 1:
        errors.append(invalid(path, _braced(places), _DEVICE_PLACES))


def _check_attribute(errors: Errors, path: str, attribute: resource_v1.DeviceAttribute) -> None:
    values = (attribute.int_, attribute.bool_, attribute.string, attribute.version)
    lists = (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    if attribute.string is not None:
        _check_length(errors, f"{path}.string", attribute.string)
    if attribute.version is not None:
        _check_version(errors, f"{path}.version", attribute.version)
    for index, text in enumerate(attribute.strings):
        _check_length(errors, f"{path}.strings[{index}]", text)
    for index, text in enumerate(attribute.versions):
        _check_version(errors, f"{path}.versions[{index}]", text)
    count = sum(value is not None for value in values) + sum(bool(one) for one in lists)
    if count != 1:
        errors.append(invalid(path, "" if not count else go_struct(attribute), "exactly one value must be specified"))


def _check_length(errors: Errors, path: str, value: str) -> None:
    if len(value.encode()) > _MAX_VALUE_LENGTH:
        errors.append(too_long(path, _MAX_VALUE_LENGTH))


def _check_version(errors: Errors, path: str, value: str) -> None:
    if not _SEMANTIC_VERSION.fullmatch(value):
        errors.append(invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
    _check_length(errors, path, value)


def _check_taints(errors: Errors, path: str, taints: Sequence[resource_v1.DeviceTaint]) -> None:
    if len(taints) > _MAX_TAINTS:
        errors.append(too_many(path, len(taints), _MAX_TAINTS))
        return
    for index, taint in enumerate(taints):
        check_taint(errors, f"{path}[{index}]", taint)


def check_taint(errors: Errors, path: str, taint: resource_v1.DeviceTaint | resource_v1alpha3.DeviceTaint) -> None:
    """A taint of a device, in a slice or a rule."""
    check_key_format(errors, f"{path}.key", taint.key)
    check_format(errors, f"{path}.value", taint.value, formats.label_value)
    if not taint.effect:
        errors.append(required(f"{path}.effect"))
    elif taint.effect not in _EFFECTS:
        errors.append(unsupported(f"{path}.effect", taint.effect, _EFFECTS))


def _check_consumption(errors: Errors, path: str, uses: Sequence[resource_v1.DeviceCounterConsumption]) -> None:
    if len(uses) > _MAX_CONSUMPTIONS:
        errors.append(too_many(path, len(uses), _MAX_CONSUMPTIONS))
        return
    for index, use in enumerate(uses):
        _check_counter_name(errors, f"{path}[{index}].counterSet", use.counter_set)
        _check_counters(errors, f"{path}[{index}].counters", use.counters)
    _check_distinct(errors, path, (use.counter_set for use in uses))


def _check_counter_name(errors: Errors, path: str, name: str) -> None:
    if not name:
        errors.append(required(path))
    else:
        check_format(errors, path, name, formats.dns_label)


def _check_counters(errors: Errors, path: str, counters: Mapping[str, resource_v1.Counter]) -> None:
    if not counters:
        errors.append(required(path))
    elif len(counters) > _MAX_COUNTERS:
        errors.append(too_many(path, len(counters), _MAX_COUNTERS))
    else:
        for name in counters:
            check_format(errors, path, name, formats.dns_label)


def _check_distinct(errors: Errors, path: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def _is_advanced(device: resource_v1.Device) -> bool:
    if device.taints or device.consumes_counters:
        return True
    return any(map(_list_length, device.attributes.values()))


def _list_length(attribute: resource_v1.DeviceAttribute) -> int:
    return len(attribute.ints) + len(attribute.bools) + len(attribute.strings) + len(attribute.versions)


def _braced(places: Sequence[str]) -> str:
    return f"{{{', '.join(places)}}}"
