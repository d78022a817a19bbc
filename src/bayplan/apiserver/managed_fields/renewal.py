"""Managed fields of writes that renew: one writer, who is the only manager, gives fields that it owns other values. Leases are
written like that all day long. Only the writer's time changes then, which is told at a fraction of the cost of a comparison."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.managedfields.fieldset import has
from bayplan.api.managedfields.managers import Identity, parsed_fields
from bayplan.api.types.meta_v1 import ManagedFieldsEntry, ObjectMeta
from bayplan.apiserver.managed_fields.object_parts import METADATA, parts_of
from bayplan.support.memory.memo import memoized

Path = tuple[str, ...]
_VALUES = (str, int, float)


def renewed(
    entries: tuple[ManagedFieldsEntry, ...], old: Any, obj: Any, who: Identity, now: str
) -> tuple[ManagedFieldsEntry, ...] | None:
    """The managers after an update in the version in which they wrote; None if this is no renewal, or changes nothing."""
    if len(entries) != 1 or isinstance(obj, CustomObject):
        return None
    (entry,) = entries
    if (entry.manager, entry.operation, entry.api_version, entry.subresource) != who:
        return None
    changes: list[Path] = []
    metadata = obj.metadata
    if any(
        getattr(metadata, part.attribute) != getattr(old.metadata, part.attribute)
        for part in parts_of(ObjectMeta, METADATA)
    ) or not _gather(old, obj, (), changes):
        return None
    owned = bytes(entry.fields_v1)
    if not changes or not all(_owns(owned, path) for path in changes):
        return None
    return (msgspec.structs.replace(entry, time=now),)


def _gather(old: Any, new: Any, above: Path, changes: list[Path]) -> bool:
    """Append the paths of single values that became others; False if anything came, went, or is more than a single value."""
    for part in parts_of(new.__class__):
        was, now = getattr(old, part.attribute), getattr(new, part.attribute)
        if was is now or was == now:
            continue
        if was.__class__ is not now.__class__:
            return False
        path = (*above, part.key)
        if isinstance(now, msgspec.Struct):
            if not _gather(was, now, path, changes):
                return False
        elif isinstance(now, _VALUES) and was != part.empty and now != part.empty:
            changes.append(path)
        else:
            return False
    return True


@memoized(1024)
def _owns(fields: bytes, path: Path) -> bool:
    return has(parsed_fields(fields), path)


def keep_times(obj: Any, old: Any) -> None:
    """A write that changes nothing but times of managers changes nothing."""
    new_entries, old_entries = obj.metadata.managed_fields, old.metadata.managed_fields
    if new_entries is old_entries or len(new_entries) != len(old_entries):
        return
    if all(
        one == other or msgspec.structs.replace(one, time=other.time) == other
        for one, other in zip(new_entries, old_entries, strict=True)
    ):
        obj.metadata.managed_fields = old_entries
        if obj != old:
            obj.metadata.managed_fields = new_entries
