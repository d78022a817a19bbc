"""Device classes."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices.devices import check_opaque, check_selectors, within
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.resources import is_extended


class DeviceClassStrategy(Strategy):
    """Rules of device classes."""

    update_checks = UpdateChecks(whole=1)
    name_is_checked_as = "long-name"
    checks_generated_names = False
    counts_generation = True
    returns_object_on_delete = True

    def validate(self, obj: resource_v1.DeviceClass) -> list[FieldError]:
        errors: list[FieldError] = []
        check_selectors(errors, "spec.selectors", obj.spec.selectors)
        for index, config in enumerate(within(errors, "spec.config", obj.spec.config)):
            check_opaque(errors, f"spec.config[{index}]", config.opaque)
        name = obj.spec.extended_resource_name
        if name is not None and not is_extended(name):
            errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
        return errors


STRATEGY = DeviceClassStrategy()
