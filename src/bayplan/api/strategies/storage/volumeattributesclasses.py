"""Volume attributes classes."""

from __future__ import annotations

from bayplan.api.errors import FieldError, forbidden
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import storage_v1
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.storage import check_parameters, check_provisioner


class VolumeAttributesClassStrategy(Strategy):
    """Rules of volume attributes classes: driver and parameters never change."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    changes_come_first = True

    def validate(self, obj: storage_v1.VolumeAttributesClass) -> list[FieldError]:
        errors: list[FieldError] = []
        check_provisioner(errors, "driverName", obj.driver_name)
        check_parameters(errors, obj.parameters, needed=True)
        return errors

    def validate_update(
        self, obj: storage_v1.VolumeAttributesClass, old: storage_v1.VolumeAttributesClass
    ) -> list[FieldError]:
        errors = []
        if obj.driver_name != old.driver_name:
            errors.append(forbidden("driverName", "updates to driverName are forbidden."))
        if obj.parameters != old.parameters:
            errors.append(forbidden("parameters", "updates to parameters are forbidden."))
        return errors


STRATEGY = VolumeAttributesClassStrategy()
