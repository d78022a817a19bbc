"""Resource claims."""

from __future__ import annotations

from bayplan.api.errors import FieldError, forbidden, invalid
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices import check_device_claim, default_device_claim


class ResourceClaimStrategy(Strategy):
    """Rules of resource claims: the spec never changes."""

    has_status = True
    returns_object_on_delete = True

    def default(self, obj: resource_v1.ResourceClaim) -> None:
        default_device_claim(obj.spec.devices)

    def validate(self, obj: resource_v1.ResourceClaim) -> list[FieldError]:
        errors: list[FieldError] = []
        check_device_claim(errors, "spec.devices", obj.spec.devices)
        return errors

    def validate_update(self, obj: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim) -> list[FieldError]:
        return [invalid("spec", obj.spec, "field is immutable")] if obj.spec != old.spec else []

    def validate_status_update(
        self, obj: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        new, before = obj.status, old.status
        if before.allocation is not None and new.allocation is not None and new.allocation != before.allocation:
            errors.append(invalid("status.allocation", new.allocation, "field is immutable"))
        if new.reserved_for and new.allocation is None:
            text = "may not be specified when `allocated` is not set"
            errors.append(forbidden("status.reservedFor", text))
        return errors


STRATEGY = ResourceClaimStrategy()
