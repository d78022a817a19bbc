"""Device taint rules: one taint for all devices that a selector matches."""

from __future__ import annotations

from bayplan.api.errors import FieldError, too_many
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1alpha3
from bayplan.api.validation.devices.device_slices import check_taint
from bayplan.api.validation.devices.devices import check_driver_name, check_pool_name
from bayplan.api.validation.fields import Errors, check_conditions, check_format
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats
from bayplan.support.timestamps import rfc3339

DeviceTaintRule = resource_v1alpha3.DeviceTaintRule
_MOST_CONDITIONS = 8


class DeviceTaintRuleStrategy(Strategy):
    """Rules of device taint rules."""

    counts_generation = True
    has_status = True
    returns_object_on_delete = True
    reset_by_status = of_paths(("f:metadata",), ("f:spec",))
    update_checks = status_checks = UpdateChecks(whole=1)

    def default_times(self, obj: DeviceTaintRule, now: float) -> None:
        if obj.spec.taint.time_added is None:
            obj.spec.taint.time_added = rfc3339(now)

    def renew_times(self, obj: DeviceTaintRule, old: DeviceTaintRule, now: float) -> None:
        taint, before = obj.spec.taint, old.spec.taint
        if taint.effect != before.effect and taint.time_added == before.time_added:
            taint.time_added = rfc3339(now)

    def validate(self, obj: DeviceTaintRule) -> list[FieldError]:
        errors: list[FieldError] = []
        selector = obj.spec.device_selector
        if selector is not None:
            _check_selector(errors, "spec.deviceSelector", selector)
        check_taint(errors, "spec.taint", obj.spec.taint)
        return errors

    def validate_status_update(self, obj: DeviceTaintRule, old: DeviceTaintRule) -> list[FieldError]:
        errors: list[FieldError] = []
        conditions = obj.status.conditions
        check_conditions(errors, "status.conditions", conditions)
        if len(conditions) > _MOST_CONDITIONS:
            errors.append(too_many("status.conditions", len(conditions), _MOST_CONDITIONS))
        return errors


def _check_selector(errors: Errors, path: str, selector: resource_v1alpha3.DeviceTaintSelector) -> None:
    if selector.driver is not None:
        check_driver_name(errors, f"{path}.driver", selector.driver)
    if selector.pool is not None:
        check_pool_name(errors, f"{path}.pool", selector.pool)
    if selector.device is not None:
        check_format(errors, f"{path}.device", selector.device, formats.dns_label)


STRATEGY = DeviceTaintRuleStrategy()
