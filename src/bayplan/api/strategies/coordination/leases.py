"""Leases."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import coordination_v1
from bayplan.api.validation.fields import check_not_negative


class LeaseStrategy(Strategy):
    """Rules of leases. Coordinated election is off by default in 1.36, so its fields are dropped."""

    knows_finalizers = False
    allow_unconditional_update = False
    allow_create_on_update = True
    times_are_free = True

    def prepare_create(self, obj: coordination_v1.Lease) -> None:
        obj.spec.strategy = obj.spec.preferred_holder = None

    def prepare_update(self, obj: coordination_v1.Lease, old: coordination_v1.Lease) -> None:
        if old.spec.strategy is None:
            obj.spec.strategy = None
        if old.spec.preferred_holder is None:
            obj.spec.preferred_holder = None

    def validate(self, obj: coordination_v1.Lease) -> list[FieldError]:
        errors: list[FieldError] = []
        duration = obj.spec.lease_duration_seconds
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        check_not_negative(errors, "spec.leaseTransitions", obj.spec.lease_transitions)
        return errors


STRATEGY = LeaseStrategy()
