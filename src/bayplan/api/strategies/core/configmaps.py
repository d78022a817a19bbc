"""Config maps."""

from __future__ import annotations

from bayplan.api.errors import FieldError, forbidden, invalid, too_long
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.encoded import decoded_size

_LIMIT = 1024 * 1024


class ConfigMapStrategy(Strategy):
    """Rules of config maps: keys are file names, all values together have a limit, immutable ones stay as they are."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    changes_come_first = True

    def validate(self, obj: core_v1.ConfigMap) -> list[FieldError]:
        errors: list[FieldError] = []
        size = 0
        for key, value in obj.data.items():
            errors.extend(invalid(f"data[{key}]", key, message) for message in formats.config_map_key(key))
            if key in obj.binary_data:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
            size += formats.size(value)
        for key, value in obj.binary_data.items():
            errors.extend(invalid(f"binaryData[{key}]", key, message) for message in formats.config_map_key(key))
            size += decoded_size(value)
        if size > _LIMIT:
            errors.append(too_long("", _LIMIT))
        return errors

    def validate_update(self, obj: core_v1.ConfigMap, old: core_v1.ConfigMap) -> list[FieldError]:
        if not old.immutable:
            return []
        text = "field is immutable when `immutable` is set"
        errors = []
        if not obj.immutable:
            errors.append(forbidden("immutable", text))
        if obj.data != old.data:
            errors.append(forbidden("data", text))
        if obj.binary_data != old.binary_data:
            errors.append(forbidden("binaryData", text))
        return errors


STRATEGY = ConfigMapStrategy()
