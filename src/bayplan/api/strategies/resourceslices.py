"""Resource slices."""

from __future__ import annotations

from bayplan.api.defaults.quantities import canonical
from bayplan.api.errors import FieldError, duplicate, invalid, required, too_many, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation import formats
from bayplan.api.validation.devices import check_driver_name, check_qualified_attribute
from bayplan.api.validation.fields import Errors, check_format, check_key_format, check_unchanged
from bayplan.api.validation.scheduling import check_node_selector

_MAX_DEVICES = 128
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_PLACES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


class ResourceSliceStrategy(Strategy):
    """Rules of resource slices: driver, pool and node never change."""

    counts_generation = True
    returns_object_on_delete = True
    selectable_field_names = frozenset(("spec.nodeName", "spec.driver"))

    def default(self, obj: resource_v1.ResourceSlice) -> None:
        for device in obj.spec.devices:
            for capacity in device.capacity.values():
                capacity.value = canonical(capacity.value)
            for consumption in device.consumes_counters:
                for counter in consumption.counters.values():
                    counter.value = canonical(counter.value)
        for counter_set in obj.spec.shared_counters:
            for counter in counter_set.counters.values():
                counter.value = canonical(counter.value)

    def prepare_create(self, obj: resource_v1.ResourceSlice) -> None:
        for device in obj.spec.devices:
            for taint in device.taints:
                if taint.time_added is None:
                    taint.time_added = obj.metadata.creation_timestamp

    def validate(self, obj: resource_v1.ResourceSlice) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_driver_name(errors, "spec.driver", spec.driver)
        _check_pool(errors, "spec.pool", spec.pool)
        places = sum(
            (
                spec.node_name is not None,
                spec.node_selector is not None,
                bool(spec.all_nodes),
                bool(spec.per_device_node_selection),
            )
        )
        if spec.node_name is not None:
            check_format(errors, "spec.nodeName", spec.node_name, formats.dns_subdomain)
        if spec.node_selector is not None:
            check_node_selector(errors, "spec.nodeSelector", spec.node_selector)
        if not places:
            errors.append(required("spec", _PLACES))
        elif places > 1:
            errors.append(invalid("spec", None, f"{_PLACES}, but multiple fields are set"))
        if len(spec.devices) > _MAX_DEVICES:
            errors.append(too_many("spec.devices", len(spec.devices), _MAX_DEVICES))
        names: set[str] = set()
        for index, device in enumerate(spec.devices):
            where = f"spec.devices[{index}]"
            _check_device(errors, where, device)
            if device.name in names:
                errors.append(duplicate(where, device.name))
            names.add(device.name)
        return errors

    def validate_update(self, obj: resource_v1.ResourceSlice, old: resource_v1.ResourceSlice) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.driver", obj.spec.driver, old.spec.driver)
        check_unchanged(errors, "spec.pool.name", obj.spec.pool.name, old.spec.pool.name)
        check_unchanged(errors, "spec.nodeName", obj.spec.node_name, old.spec.node_name)
        return errors

    def selectable_fields(self, obj: resource_v1.ResourceSlice) -> dict[str, str]:
        return {"spec.nodeName": obj.spec.node_name or "", "spec.driver": obj.spec.driver}


def _check_pool(errors: Errors, path: str, pool: resource_v1.ResourcePool) -> None:
    if not pool.name:
        errors.append(required(f"{path}.name"))
    else:
        for part in pool.name.split("/"):
            check_format(errors, f"{path}.name", part, formats.dns_subdomain)
    if pool.resource_slice_count <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", pool.resource_slice_count, "must be greater than zero"))
    if pool.generation < 0:
        errors.append(invalid(f"{path}.generation", pool.generation, "must be greater than or equal to zero"))


def _check_device(errors: Errors, path: str, device: resource_v1.Device) -> None:
    check_format(errors, f"{path}.name", device.name, formats.dns_label)
    for key, attribute in device.attributes.items():
        where = f"{path}.attributes[{key}]"
        check_qualified_attribute(errors, where, key, needs_domain=False)
        values = (attribute.int_, attribute.bool_, attribute.string, attribute.version)
        lists = (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
        count = sum(value is not None for value in values) + sum(bool(one) for one in lists)
        if count != 1:
            errors.append(invalid(where, "" if not count else attribute, "exactly one value must be specified"))
    for key in device.capacity:
        check_qualified_attribute(errors, f"{path}.capacity[{key}]", key, needs_domain=False)
    for index, taint in enumerate(device.taints):
        where = f"{path}.taints[{index}]"
        check_key_format(errors, f"{where}.key", taint.key)
        check_format(errors, f"{where}.value", taint.value, formats.label_value)
        if not taint.effect:
            errors.append(required(f"{where}.effect"))
        elif taint.effect not in _EFFECTS:
            errors.append(unsupported(f"{where}.effect", taint.effect, _EFFECTS))


STRATEGY = ResourceSliceStrategy()
