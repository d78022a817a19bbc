"""Resource slices."""

from __future__ import annotations

from bayplan.api.defaults.quantities import canonical
from bayplan.api.errors import FieldError, invalid, quoted
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices.device_slices import check_slice_devices, check_slice_places
from bayplan.api.validation.devices.devices import check_driver_name, check_pool_name
from bayplan.api.validation.fields import Errors, check_unchanged
from bayplan.support.timestamps import rfc3339


class ResourceSliceStrategy(Strategy):
    """Rules of resource slices: driver, pool and node never change."""

    changes_come_first = True
    counts_generation = True
    returns_object_on_delete = True
    selectable_field_names = frozenset(("spec.nodeName", "spec.driver"))

    def default(self, obj: resource_v1.ResourceSlice) -> None:
        for device in obj.spec.devices:
            for capacity in device.capacity.values():
                capacity.value = canonical(capacity.value)
                if capacity.request_policy is not None:
                    _default_policy(capacity.request_policy)
            for consumption in device.consumes_counters:
                for counter in consumption.counters.values():
                    counter.value = canonical(counter.value)
        for counter_set in obj.spec.shared_counters:
            for counter in counter_set.counters.values():
                counter.value = canonical(counter.value)

    def default_times(self, obj: resource_v1.ResourceSlice, now: float) -> None:
        for device in obj.spec.devices:
            for taint in device.taints:
                if taint.time_added is None:
                    taint.time_added = rfc3339(now)

    def warnings(self, obj: resource_v1.ResourceSlice, old: resource_v1.ResourceSlice | None) -> list[str]:
        driver = obj.spec.driver
        if driver == driver.lower():
            return []
        return [f"spec.driver: driver names should be lowercase; {quoted(driver)} contains uppercase characters"]

    def validate(self, obj: resource_v1.ResourceSlice) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_slice_places(errors, "spec", spec)
        check_slice_devices(errors, "spec", spec)
        return errors

    def validate_create(self, obj: resource_v1.ResourceSlice) -> list[FieldError]:
        errors: list[FieldError] = []
        check_driver_name(errors, "spec.driver", obj.spec.driver)
        _check_pool(errors, "spec.pool", obj.spec.pool)
        return errors

    def validate_update(self, obj: resource_v1.ResourceSlice, old: resource_v1.ResourceSlice) -> list[FieldError]:
        errors = self.validate_create(obj)
        check_unchanged(errors, "spec.pool.name", obj.spec.pool.name, old.spec.pool.name)
        check_unchanged(errors, "spec.driver", obj.spec.driver, old.spec.driver)
        check_unchanged(errors, "spec.nodeName", obj.spec.node_name, old.spec.node_name)
        return errors

    def selectable_fields(self, obj: resource_v1.ResourceSlice) -> dict[str, str]:
        return {"spec.nodeName": obj.spec.node_name or "", "spec.driver": obj.spec.driver}


def _default_policy(policy: resource_v1.CapacityRequestPolicy) -> None:
    """Amounts are kept in their canonical spelling."""
    policy.default = None if policy.default is None else canonical(policy.default)
    policy.valid_values = tuple(map(canonical, policy.valid_values))
    span = policy.valid_range
    if span is not None:
        span.min = None if span.min is None else canonical(span.min)
        span.max = None if span.max is None else canonical(span.max)
        span.step = None if span.step is None else canonical(span.step)


def _check_pool(errors: Errors, path: str, pool: resource_v1.ResourcePool) -> None:
    check_pool_name(errors, f"{path}.name", pool.name)
    if pool.resource_slice_count <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", pool.resource_slice_count, "must be greater than zero"))
    if pool.generation < 0:
        errors.append(invalid(f"{path}.generation", pool.generation, "must be greater than or equal to zero"))


STRATEGY = ResourceSliceStrategy()
