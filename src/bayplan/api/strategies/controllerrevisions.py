"""Controller revisions: immutable snapshots of a template."""

from __future__ import annotations

from bayplan.api.errors import FieldError, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apps_v1
from bayplan.api.validation.fields import check_not_negative, check_unchanged


class ControllerRevisionStrategy(Strategy):
    """Rules of controller revisions."""

    def validate(self, obj: apps_v1.ControllerRevision) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.data is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(obj.data, dict):
            errors.append(required("data", "data must be a valid JSON object"))
        check_not_negative(errors, "revision", obj.revision)
        return errors

    def validate_update(self, obj: apps_v1.ControllerRevision, old: apps_v1.ControllerRevision) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "data", obj.data, old.data)
        return errors


STRATEGY = ControllerRevisionStrategy()
