"""What values were before a change: which old value stands for one of now.

Source of the behaviour: `k8s.io/apiserver/pkg/cel/common` (`CorrelatedObject`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bayplan.api.custom_resources.pruning import child
from bayplan.api.schema import Schema


@dataclass(frozen=True, slots=True)
class Before:
    """The old value that stands for one of now."""

    value: Any
    """None if there was none."""
    now: Any
    schema: Schema
    """Of both. Alternatives (`anyOf`, ...) do not count: only it says which lists have keys."""
    _by_keys: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    """The first old item of each key; filled when an item is first asked for."""

    def field(self, name: str) -> Before | None:
        """That of a field of now; None if the schema does not know it, or it was not there."""
        below = child(self.schema, name)
        if below is None or not isinstance(self.value, dict) or not isinstance(self.now, dict):
            return None
        if name not in self.value or name not in self.now:
            return None
        return Before(self.value[name], self.now[name], below)

    def item(self, index: int) -> Before | None:
        """That of an item of now: the first with the same keys. None for lists without keys, whose items cannot be told apart."""
        keys = self.schema.get("x-kubernetes-list-map-keys", ())
        items = self.schema.get("items")
        if self.schema.get("x-kubernetes-list-type") != "map" or items is None or not isinstance(self.value, list):
            return None
        wanted = key_of(self.now[index], keys)
        if wanted is None:
            return None
        if not self._by_keys:
            for one in self.value:
                if (key := key_of(one, keys)) is not None:
                    self._by_keys.setdefault(key, one)
        found = self._by_keys.get(wanted)
        return None if found is None else Before(found, self.now[index], items)


def key_of(item: Any, names: Sequence[str]) -> tuple[Any, ...] | None:
    """The values of an item's keys with their types, as 1 is not true; None if one is missing or no scalar."""
    if not isinstance(item, dict) or any(not isinstance(item.get(name), bool | int | float | str) for name in names):
        return None
    return tuple((type(item[name]), item[name]) for name in names)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, their types included: 1 is neither 1.0 nor true."""
    return bool(one == other) and _encoder(one) == _encoder(other)


def identity(value: Any) -> bytes:
    """What two JSON values have in common if and only if they are the same."""
    return _encoder(value)


_encoder = msgspec.json.Encoder(order="deterministic").encode
