"""Controller revisions: immutable snapshots of a template."""

from __future__ import annotations

import msgspec

from bayplan.api.codec import encode
from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apps_v1
from bayplan.api.validation.fields import check_not_negative
from bayplan.api.validation.meta import UpdateChecks


class ControllerRevisionStrategy(Strategy):
    """Rules of controller revisions."""

    update_checks = UpdateChecks(whole=1, change_first=True)

    def validate(self, obj: apps_v1.ControllerRevision) -> list[FieldError]:
        errors: list[FieldError] = []
        check_not_negative(errors, "revision", obj.revision)
        return errors

    def validate_create(self, obj: apps_v1.ControllerRevision) -> list[FieldError]:
        if obj.data is None:
            return [required("data", "data is mandatory")]
        return [] if isinstance(obj.data, dict) else [required("data", "data must be a valid JSON object")]

    def validate_update(self, obj: apps_v1.ControllerRevision, old: apps_v1.ControllerRevision) -> list[FieldError]:
        written = encode(obj.data)  # Kubernetes compares what was written, in its order
        return [] if written == encode(old.data) else [invalid("data", msgspec.Raw(written), "field is immutable")]


STRATEGY = ControllerRevisionStrategy()
