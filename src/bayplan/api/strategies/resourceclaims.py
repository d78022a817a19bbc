"""Resource claims."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, required, too_many
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices import check_device_claim, default_device_claim

_MAX_CONSUMERS = 256


class ResourceClaimStrategy(Strategy):
    """Rules of resource claims: the spec never changes."""

    has_status = True
    returns_object_on_delete = True
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))

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
        _check_consumers(errors, "status.reservedFor", new.reserved_for)
        if new.reserved_for and new.allocation is None:
            text = "may not be specified when `allocated` is not set"
            errors.append(forbidden("status.reservedFor", text))
        elif obj.metadata.deletion_timestamp is not None and any(
            one not in before.reserved_for for one in new.reserved_for
        ):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.append(forbidden("status.reservedFor", text))
        if before.allocation is not None and new.allocation is not None and new.allocation != before.allocation:
            errors.append(invalid("status.allocation", new.allocation, "field is immutable"))
        return errors


def _check_consumers(
    errors: list[FieldError], path: str, consumers: Sequence[resource_v1.ResourceClaimConsumerReference]
) -> None:
    """Who uses a claim: each once, by its unique identifier."""
    if len(consumers) > _MAX_CONSUMERS:
        errors.append(too_many(path, len(consumers), _MAX_CONSUMERS))
        return
    for index, consumer in enumerate(consumers):
        given = {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
        errors.extend(required(f"{path}[{index}].{name}") for name, value in given.items() if not value)
    seen: set[str] = set()
    for index, consumer in enumerate(consumers):
        if consumer.uid in seen:
            errors.append(duplicate(f"{path}[{index}]", consumer.uid))
        seen.add(consumer.uid)


STRATEGY = ResourceClaimStrategy()
