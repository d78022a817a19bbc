"""Resource claim templates."""

from __future__ import annotations

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices.devices import check_device_claim, default_device_claim
from bayplan.api.validation.fields import check_unchanged
from bayplan.api.validation.meta import UpdateChecks, check_template_object_meta


class ResourceClaimTemplateStrategy(Strategy):
    """Rules of resource claim templates: the spec never changes."""

    update_checks = UpdateChecks(whole=1)
    returns_object_on_delete = True

    def default(self, obj: resource_v1.ResourceClaimTemplate) -> None:
        default_device_claim(obj.spec.spec.devices)

    def validate(self, obj: resource_v1.ResourceClaimTemplate) -> list[FieldError]:
        errors: list[FieldError] = []
        check_template_object_meta(errors, "spec.metadata", obj.spec.metadata)
        check_device_claim(errors, "spec.spec.devices", obj.spec.spec.devices)
        return errors

    def validate_update(
        self, obj: resource_v1.ResourceClaimTemplate, old: resource_v1.ResourceClaimTemplate
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec", obj.spec, old.spec)
        return errors


STRATEGY = ResourceClaimTemplateStrategy()
