"""Resource claims."""

from __future__ import annotations

import msgspec

from bayplan.api.errors import FieldError
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices.claim_status import allocated_devices, check_claim_status, shared_id
from bayplan.api.validation.devices.devices import check_device_claim, default_device_claim
from bayplan.api.validation.fields import check_unchanged
from bayplan.api.validation.meta import UpdateChecks


class ResourceClaimStrategy(Strategy):
    """Rules of resource claims: the spec never changes."""

    update_checks = UpdateChecks(whole=1)
    has_status = True
    returns_object_on_delete = True
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))

    def default(self, obj: resource_v1.ResourceClaim) -> None:
        default_device_claim(obj.spec.devices)

    def prepare_status_update(self, obj: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim) -> None:
        """What drivers say of devices goes with their allocation."""
        super().prepare_status_update(obj, old)
        freed = allocated_devices(old) - allocated_devices(obj)
        if freed and obj.status.devices:
            kept = tuple(one for one in obj.status.devices if shared_id(one) not in freed)
            obj.status = msgspec.structs.replace(obj.status, devices=kept)

    def validate_create(self, obj: resource_v1.ResourceClaim) -> list[FieldError]:
        errors: list[FieldError] = []
        check_device_claim(errors, "spec.devices", obj.spec.devices)
        return errors

    def validate_update(self, obj: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim) -> list[FieldError]:
        """Nothing else is looked at, because nothing else can be mended."""
        errors: list[FieldError] = []
        check_unchanged(errors, "spec", obj.spec, old.spec)
        return errors

    def validate_status_update(
        self, obj: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_claim_status(errors, obj, old)
        return errors


STRATEGY = ResourceClaimStrategy()
