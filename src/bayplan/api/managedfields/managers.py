"""The managers of an object, and what an update or an apply makes of them.

update   fields that a writer added or changed become its own and stop being anybody else's; removed ones belong to nobody
apply    the configuration is laid over the object; fields of others that it would change are conflicts (or are taken by force);
         what this manager applied before and leaves out now is removed, unless somebody else owns it as well
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from bayplan.api.managedfields.compare import Comparison, compare, field_set, same_types
from bayplan.api.managedfields.fieldset import (
    LEAF,
    FieldSet,
    difference,
    intersection,
    of_paths,
    path_text,
    paths,
    recursive_difference,
    union,
    union_of,
)
from bayplan.api.managedfields.merge import merge, remove, validate, validated_fields, with_named_fields
from bayplan.api.managedfields.typed import Type, TypedError
from bayplan.api.types.meta_v1 import ManagedFieldsEntry
from bayplan.support.memory.memo import memoized

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
_OLD_UPDATES = "ancient-changes"
_MAX_UPDATERS = 10

NEVER_OWNED = of_paths(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)
"""Fields that identify an object or are the system's: nobody owns them."""


class Identity(NamedTuple):
    """Who manages: one entry of `metadata.managedFields`."""

    manager: str
    operation: str
    api_version: str
    """Part of the identity of updaters; "" for appliers, whose version may change."""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """What one manager owns."""

    fields: FieldSet
    api_version: str
    time: str | None


Managers = Mapping[Identity, Owned]


class Conflict(Exception):
    """An apply would change fields of others."""

    def __init__(self, conflicts: list[tuple[Identity, str, tuple[str, ...]]]) -> None:
        super().__init__("apply conflict")
        self.conflicts = conflicts
        """Manager, version in which it owns the field, path."""


class ConversionError(Exception):
    """The object does not fit a version in which others manage it."""


class MalformedError(ValueError):
    """Entries of `metadata.managedFields` that cannot be read."""


@dataclass(frozen=True, slots=True)
class Versions:
    """How trees of one kind are read in the versions in which managers wrote."""

    type_of: Callable[[str], Type | None]
    """The type of the kind in a version; None if that version is gone."""
    convert: Callable[[Any, str, str], Any]
    """A tree from one version to another."""


def identity(manager: str, operation: str, api_version: str, subresource: str = "") -> Identity:
    """The identity under which a writer is recorded."""
    return Identity(manager or "unknown", operation, "" if operation == APPLY else api_version, subresource)


def read_entries(entries: Iterable[ManagedFieldsEntry]) -> dict[Identity, Owned]:
    """Managers from their stored form. Raises MalformedError."""
    found = {}
    for entry in entries:
        if entry.operation not in (APPLY, UPDATE):
            raise MalformedError("operation must be `Apply` or `Update`")
        if not entry.api_version:
            raise MalformedError("apiVersion must not be empty")
        if entry.fields_type != "FieldsV1":
            raise MalformedError(f"invalid fieldsType {entry.fields_type!r}")
        api_version = "" if entry.operation == APPLY else entry.api_version
        who = Identity(entry.manager, entry.operation, api_version, entry.subresource)
        found[who] = Owned(parsed_fields(bytes(entry.fields_v1)), entry.api_version, entry.time)
    return found


@memoized(1024)
def parsed_fields(data: bytes) -> FieldSet:
    """The set that some JSON holds. Objects of one origin have equal sets, so few differ."""
    try:
        fields = msgspec.json.decode(data or b"null", type=dict[str, dict[str, Any]] | None)
    except msgspec.DecodeError as error:
        raise MalformedError(f"error decoding set: {error}") from None
    return fields or {}


def write_entries(managers: Managers) -> tuple[ManagedFieldsEntry, ...]:
    """Managers in their stored form: appliers first, then by time and name."""
    return in_order([_entry(who, owned) for who, owned in managers.items()])


def in_order(entries: list[ManagedFieldsEntry]) -> tuple[ManagedFieldsEntry, ...]:
    """Entries as they are stored: appliers first, then by time and name. The list belongs to this call."""
    if len(entries) > 1:
        entries.sort(key=_place)
    return tuple(entries)


def _place(entry: ManagedFieldsEntry) -> tuple[str, ...]:
    return entry.operation, entry.time or "", entry.manager, entry.api_version, entry.subresource


def _entry(who: Identity, owned: Owned) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(
        manager=who.manager,
        operation=who.operation,
        api_version=owned.api_version,
        time=owned.time,
        fields_type="FieldsV1",
        fields_v1=msgspec.Raw(msgspec.json.encode(owned.fields)),
        subresource=who.subresource,
    )


Filter = Callable[[FieldSet], FieldSet]


def update(
    managers: Managers,
    changes: Comparison,
    *,
    who: Identity,
    api_version: str,
    now: str,
    changes_in: Callable[[str], Comparison | None] | None = None,
) -> dict[Identity, Owned]:
    """The managers after an update.

    changes: what the writer changed, in its version, as far as this way in may own it. changes_in: the same in another version, None if that is gone.
    now: RFC 3339.
    """
    if changes.is_same:
        return dict(managers)
    result = _yield_fields(managers, changes, api_version, changes_in, None)[0]
    taken = difference(union(changes.modified, changes.added), NEVER_OWNED)
    if taken:
        before = result.get(who)
        result[who] = Owned(union(before.fields, taken) if before is not None else taken, api_version, now)
    return _capped(result)


def _yield_fields(
    managers: Managers,
    changes: Comparison,
    api_version: str,
    changes_in: Callable[[str], Comparison | None] | None,
    excluded: Identity | None,
) -> tuple[dict[Identity, Owned], dict[Identity, FieldSet]]:
    """Everybody's fields without those that were changed or removed, and what was changed of whom."""
    result: dict[Identity, Owned] = {}
    conflicts: dict[Identity, FieldSet] = {}
    seen: Comparison | None = None
    written: FieldSet = {}
    for other, owned in managers.items():
        if other == excluded:
            result[other] = owned
            continue
        theirs: Comparison | None = changes
        if owned.api_version != api_version:
            theirs = changes_in(owned.api_version) if changes_in is not None else None
        if theirs is None:
            continue
        if theirs.is_same:
            result[other] = owned
            continue
        if theirs is not seen:  # thousands of managers may see the same
            seen, written = theirs, union(theirs.modified, theirs.added)
        lost = intersection(owned.fields, written)
        if lost:
            conflicts[other] = lost
        left = difference(difference(owned.fields, lost), theirs.removed)
        if left:
            result[other] = owned if left == owned.fields else Owned(left, owned.api_version, owned.time)
    return result, conflicts


def _capped(managers: dict[Identity, Owned]) -> dict[Identity, Owned]:
    """At most ten updaters: the oldest of each version are merged into one."""
    if len(managers) <= _MAX_UPDATERS:
        return managers
    updaters = [who for who in managers if who.operation == UPDATE]
    length = len(updaters)
    updaters.sort(key=lambda who: (managers[who].time or "", who))
    merged: dict[str, list[Identity]] = {}
    for who in updaters:
        if length <= _MAX_UPDATERS:
            break
        same = merged.setdefault(managers[who].api_version, [])
        length -= len(same) > 0
        same.append(who)
    for api_version, old in merged.items():
        if len(old) > 1:
            bucket = Identity(_OLD_UPDATES, UPDATE, api_version)
            owned = [managers.pop(who) for who in old]
            fields = [one.fields for one in owned]
            if bucket in managers:
                fields.append(managers[bucket].fields)
            managers[bucket] = Owned(union_of(fields), api_version, owned[-1].time)
    return managers


def apply(
    live: Any,
    applied: Any,
    managers: Managers,
    *,
    who: Identity,
    api_version: str,
    now: str,
    force: bool,
    keep: Filter,
    versions: Versions,
    live_fits: bool = False,
) -> tuple[Any | None, dict[Identity, Owned]]:
    """The live tree with a configuration applied (None if that changes nothing), and the managers after it.

    Both trees are of `api_version`. live_fits: whether the live tree is known to fit the schema. Raises Conflict, TypedError.
    """
    kind = versions.type_of(api_version)
    assert kind is not None
    fields = validated_fields(applied, kind)
    merged = merge(live, applied, kind, live_fits=live_fits)
    result = dict(managers)
    last = result.get(who)
    result[who] = Owned(keep(fields), api_version, last.time if last is not None else None)
    if last is not None and not _applies_all_of(last, result, result[who]):
        merged = _prune(merged, result, last, api_version, versions)
    unchanged = live == merged and (
        kind.is_definition or same_types(live, merged)
    )  # an order of items is no field of its own, but a change
    if not managers.keys() <= {who}:

        def changes_in(version: str) -> Comparison | None:
            other = versions.type_of(version)
            if other is None:
                return None
            old, new = versions.convert(live, api_version, version), versions.convert(merged, api_version, version)
            try:
                return compare(old, new, other).filtered(keep)
            except TypedError:
                raise _conversion_error(old, new, other) from None

        changes = compare(_kept(live, keep), _kept(merged, keep), kind).filtered(keep)
        result, conflicts = _yield_fields(result, changes, api_version, changes_in, who)
        if conflicts and not force:
            raise Conflict(
                [
                    (other, managers[other].api_version, path)
                    for other, lost in conflicts.items()
                    for path in paths(lost)
                ]
            )
    owned = result[who]
    fields = difference(owned.fields, NEVER_OWNED)
    if fields:
        result[who] = Owned(fields, api_version, owned.time if unchanged else now)
    else:
        del result[who]
    return (None if unchanged else merged), result


def _kept(tree: Any, keep: Filter) -> Any:
    """A tree without the fields at its top of which a filter keeps nothing: most of a large status that comes with a spec."""
    if not isinstance(tree, dict):
        return tree
    return {name: item for name, item in tree.items() if keep({f"f:{name}": LEAF})}


def _conversion_error(old: Any, new: Any, kind: Type) -> ConversionError:
    for which, tree in (("old", old), ("new", new)):
        try:
            validate(tree, kind)
        except TypedError as error:
            return ConversionError(f"failed to convert {which} object: {error}")
    return ConversionError("failed to compare objects")


def _applies_all_of(last: Owned, managers: Managers, now: Owned) -> bool:
    """Whether a manager leaves nothing out that it applied last time, so that there is nothing to prune.

    Only what can be told without conversions: all managers write in one version.
    """
    if not last.fields:
        return True
    if any(owned.api_version != last.api_version for owned in managers.values()):
        return False
    return not difference(last.fields, now.fields)


def _prune(merged: Any, managers: Managers, last: Owned, api_version: str, versions: Versions) -> Any:
    """The merged tree without what this manager applied last time, does not apply now, and nobody else owns."""
    version = last.api_version
    kind = versions.type_of(version)
    if kind is None:
        return merged
    tree = versions.convert(merged, api_version, version)
    pruned = remove(tree, with_named_fields(last.fields, kind), kind)
    owned_in: dict[str, FieldSet] = {}
    for owned in managers.values():
        owned_in[owned.api_version] = union(owned_in.get(owned.api_version, {}), owned.fields)
    at = version
    whole = tree
    for other in sorted(owned_in, key=lambda one: one != version):
        other_kind = versions.type_of(other)
        if other_kind is None:
            continue
        whole, pruned = versions.convert(whole, at, other), versions.convert(pruned, at, other)
        at = other
        kept = union(
            with_named_fields(field_set(pruned, other_kind), other_kind), with_named_fields(owned_in[other], other_kind)
        )
        pruned = remove(
            whole, difference(with_named_fields(field_set(whole, other_kind), other_kind), kept), other_kind
        )
    pruned = versions.convert(pruned, at, version)
    left = with_named_fields(field_set(pruned, kind), kind)
    gone = difference(with_named_fields(field_set(tree, kind), kind), left)
    pruned = remove(tree, intersection(gone, with_named_fields(last.fields, kind)), kind)
    return versions.convert(pruned, version, api_version)


def conflict_texts(conflict: Conflict) -> tuple[str, list[tuple[str, str]]]:
    """The message of a conflict, and (message, path) of each cause."""
    shown = [(_manager_text(who, version), path_text(path)) for who, version, path in conflict.conflicts]
    causes = [(f"conflict with {manager}", path) for manager, path in shown]
    if len(shown) == 1:
        return f"Apply failed with 1 conflict: {causes[0][0]}: {shown[0][1]}", causes
    lines = []
    for manager in sorted({manager for manager, _ in shown}):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {path}" for other, path in shown if other == manager]
    return f"Apply failed with {len(shown)} conflicts: " + "\n".join(lines), causes


def _manager_text(who: Identity, version: str) -> str:
    text = f'"{who.manager}"'
    if who.subresource:
        text += f' with subresource "{who.subresource}"'
    if who.operation == UPDATE:
        text += f" using {version}"
    return text


def without(fields: FieldSet) -> Filter:
    """A filter that takes out some fields and all below them."""
    return lambda found: recursive_difference(found, fields)
