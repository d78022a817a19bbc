"""The fields of typed objects that somebody can own, as managed fields name them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec

METADATA = (
    "annotations",
    "deletion_grace_period_seconds",
    "deletion_timestamp",
    "finalizers",
    "generate_name",
    "labels",
    "owner_references",
)
"""The parts of metadata that somebody can own."""


class Part(NamedTuple):
    """One field of a struct that can be owned."""

    attribute: str
    wire: str
    key: str
    """Path element."""
    empty: Any
    """The value of a new object."""
    is_written_empty: bool
    """Whether the field is there even if it is empty."""


@functools.cache
def parts_of(cls: Any, only: tuple[str, ...] = (), *, every: bool = False) -> tuple[Part, ...]:
    """The parts of a struct class, by their names on the wire. `only`: attributes, if not all.

    every: also those that are not looked at in objects themselves: kind, apiVersion and metadata.
    """
    found = []
    for one in msgspec.structs.fields(cls):
        if (not every and one.name in ("kind", "api_version", "metadata")) or (only and one.name not in only):
            continue
        made = one.default_factory is not msgspec.NODEFAULT
        factory: Any = one.default_factory
        empty = factory() if made else one.default
        found.append(
            Part(one.name, one.encode_name, "f:" + one.encode_name, empty, made and factory not in (dict, list))
        )
    return tuple(sorted(found, key=lambda part: part.wire))
