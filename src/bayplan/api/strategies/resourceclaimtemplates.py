"""Resource claim templates."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices import check_device_claim, default_device_claim
from bayplan.api.validation.fields import check_labels
from bayplan.api.validation.meta import check_annotations


class ResourceClaimTemplateStrategy(Strategy):
    """Rules of resource claim templates: the spec never changes."""

    returns_object_on_delete = True

    def default(self, obj: resource_v1.ResourceClaimTemplate) -> None:
        default_device_claim(obj.spec.spec.devices)

    def validate(self, obj: resource_v1.ResourceClaimTemplate) -> list[FieldError]:
        errors: list[FieldError] = []
        check_labels(errors, "spec.metadata.labels", obj.spec.metadata.labels)
        check_annotations(errors, "spec.metadata.annotations", obj.spec.metadata.annotations)
        check_device_claim(errors, "spec.spec.devices", obj.spec.spec.devices)
        return errors

    def validate_update(
        self, obj: resource_v1.ResourceClaimTemplate, old: resource_v1.ResourceClaimTemplate
    ) -> list[FieldError]:
        return [invalid("spec", obj.spec, "field is immutable")] if obj.spec != old.spec else []


STRATEGY = ResourceClaimTemplateStrategy()
