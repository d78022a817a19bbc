"""The values that an `enum` of a schema allows, prepared for being looked up: definitions have thousands of them, and objects thousands of items."""

from __future__ import annotations

from typing import Any, Final

from bayplan.api.custom_resources.correlation import identity
from bayplan.api.custom_resources.go_values import json_text
from bayplan.support.memory.memo import Memo

_BYTES_PER_VALUE: Final = 200


class EnumValues:
    """Allowed values. Numbers are converted to the type of the allowed one; null is none of any."""

    def __init__(self, allowed: list[Any]) -> None:
        self.allowed = allowed
        """The list itself: as long as it is kept here, no other has its identity."""
        self.names = tuple(one if isinstance(one, str) else json_text(one) for one in allowed)
        self._integers = {one for one in allowed if type(one) is int}
        self._floats = {one for one in allowed if type(one) is float}
        self._others = {identity(one) for one in allowed if type(one) not in (int, float)}

    def has(self, value: Any) -> bool:
        """Whether a value is allowed."""
        if value is None:
            return False
        if type(value) is int:
            return value in self._integers or float(value) in self._floats
        if type(value) is float:
            return value in self._floats or (value - value == 0 and int(value) in self._integers)
        return identity(value) in self._others


_prepared: Final[Memo[int, EnumValues]] = Memo("custom_resource_enums", most_bytes=16 << 20)
"""By identity of the list."""


def enum_values(allowed: list[Any]) -> EnumValues:
    """The values of an `enum`, prepared once as long as it is in use. The list does not change."""
    found = _prepared.get(id(allowed))
    if found is None:
        found = EnumValues(allowed)
        _prepared.put(id(allowed), found, _BYTES_PER_VALUE * len(allowed))
    return found
