"""`metadata.managedFields` of creates and updates: who made them, and what changed. Server-side apply is in `applying`.

The rules are in `bayplan.api.managedfields`; here requests and typed objects (`managed_fields_diff`) meet them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.conversions.kinds import convert
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.kinds import Kind
from bayplan.api.managedfields.bounds import exceeds
from bayplan.api.managedfields.compare import Comparison
from bayplan.api.managedfields.fieldset import LEAF, union
from bayplan.api.managedfields.managers import (
    UPDATE,
    Identity,
    MalformedError,
    Owned,
    identity,
    read_entries,
    update,
    write_entries,
)
from bayplan.api.managedfields.typed import TypedError
from bayplan.api.strategies.base import clone
from bayplan.api.types.meta_v1 import ManagedFieldsEntry
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.diff import compare_objects, fields_of, type_of
from bayplan.apiserver.managed_fields.memo import entries_after
from bayplan.apiserver.managed_fields.object_parts import parts_of
from bayplan.apiserver.managed_fields.renewal import renewed
from bayplan.apiserver.objects import too_large
from bayplan.apiserver.writes.emptied_lists import emptied, with_emptied
from bayplan.support.memory.memo import memoized
from bayplan.support.timestamps import rfc3339

SERVER = "kube-apiserver"
"""The manager of what the server itself writes while it serves somebody."""
_MANAGER_LENGTH = 128
_SMALL = 128 * 1024
"""Bytes of a configuration whose managed fields can be made without a look at what they will take."""


def manager_name(call: Call) -> str:
    """The name under which the writer is recorded: `fieldManager`, or else the first part of the User-Agent header."""
    given = call.request.query.get("fieldManager")
    return given or _from_user_agent(call.request.user_agent)


@memoized(512)
def _from_user_agent(user_agent: str) -> str:
    printable = "".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())
    return printable.encode()[:_MANAGER_LENGTH].decode(errors="ignore")


def now_of(call: Call) -> str:
    """The time that entries get, in seconds."""
    return rfc3339(call.context.clock.now())


def given_managers(entries: tuple[ManagedFieldsEntry, ...]) -> dict[Identity, Owned]:
    """Managers as somebody sent them; nobody if they are malformed."""
    try:
        return read_entries(entries)
    except MalformedError:
        return {}


def _is_reset(entries: tuple[ManagedFieldsEntry, ...]) -> bool:
    """Whether somebody sent one empty entry, which stands for `forget all managers`."""
    return len(entries) == 1 and entries[0] == ManagedFieldsEntry()


def check_size(call: Call, sent: Any, kind: Kind, subresource: str) -> None:
    """Raises ApiError (500) if the managed fields of what a writer sends would be larger than an object may be, or twice as large with those that are dropped
    later: to make and compare them takes seconds."""
    if len(call.request.body) <= _SMALL:
        return
    tree = sent if isinstance(sent, dict) else _members(sent)
    owned = {name: item for name, item in tree.items() if call.strategy.ownable(subresource, {f"f:{name}": LEAF})}
    most, whole = call.context.objects.max_object_bytes, type_of(kind.type)
    if exceeds(owned, whole, most) or exceeds(tree, whole, 2 * most):
        raise too_large()


def _members(obj: Any) -> dict[str, Any]:
    """The fields of an object by their names in JSON."""
    if isinstance(obj, CustomObject):
        return obj.tree()
    return {part.wire: getattr(obj, part.attribute) for part in parts_of(obj.__class__, every=True)}


def track_create(call: Call, obj: Any, api_version: str = "", subresource: str = "") -> None:
    """Record who makes a new object. `obj` is in the stored version, defaulted, not yet admitted.

    api_version, subresource: of an object that is posted to a subresource and not kept.
    """
    metadata = obj.metadata
    given = metadata.managed_fields
    served = call.strategy.shown(obj if call.kind is call.stored else convert(clone(obj), call.stored, call.kind))
    check_size(call, served, call.kind, "")
    try:
        below, fields = fields_of(served)
    except TypedError:
        metadata.managed_fields = ()
        return  # a list item without its keys: validation will say so, or ownership cannot be told
    version = api_version or call.kind.api_version
    who = identity(manager_name(call), UPDATE, version, subresource)
    empty = emptied(call.kind, call.request.body, type(obj).__name__ if subresource else "")
    if given or empty or not call.strategy.reset_by_update.keys().isdisjoint(fields):
        nodes = {key: known.node for key, known in fields.items()}
        if below:
            nodes["f:metadata"] = {key: known.node for key, known in below.items()}
            nodes = dict(sorted(nodes.items()))
        changes = Comparison({}, {}, call.strategy.ownable("", union(nodes, empty)))
        metadata.managed_fields = write_entries(
            update(given_managers(given), changes, who=who, api_version=version, now=now_of(call))
        )
        return
    parts = [known.stored for known in fields.values()]
    if below:
        parts.append(b'"f:metadata":{%b}' % b",".join([known.stored for known in below.values()]))
        parts.sort()
    metadata.managed_fields = (
        (
            ManagedFieldsEntry(
                manager=who.manager,
                operation=UPDATE,
                api_version=version,
                time=now_of(call),
                fields_type="FieldsV1",
                fields_v1=msgspec.Raw(b"{%b}" % b",".join(parts)),
                subresource=subresource,
            ),
        )
        if parts
        else ()
    )


def track_update(
    call: Call,
    obj: Any,
    old: Any,
    subresource: str,
    given: tuple[ManagedFieldsEntry, ...],
    *,
    reset: bool = False,
    manager: str = "",
) -> None:
    """Record who changes an object. `obj` is as the writer wants it, before any rule is applied.

    given: managed fields that the writer sent. reset: the writer sent an empty list of them. manager: who writes, if that is not who sent the
    request.
    """
    metadata = obj.metadata
    entries = old.metadata.managed_fields
    if not subresource:
        if reset or _is_reset(given):
            metadata.managed_fields = ()
            return
        if given and given != entries and given_managers(given):
            entries = given
    metadata.managed_fields = entries
    if not entries:
        return  # nobody is known to have made it; that does not begin with an update
    version = call.kind.api_version
    who = identity(manager or manager_name(call), UPDATE, version, subresource)
    if entries is not given and call.kind is call.stored:
        renewal = renewed(entries, old, obj, who, now_of(call))
        if renewal is not None:
            metadata.managed_fields = renewal
            return
    try:
        changes = with_emptied(_all_changes(call, old, obj, call.kind), call.kind, call.request.body)
    except TypedError:
        metadata.managed_fields = ()
        return  # as for a new object
    ownable = functools.partial(call.strategy.ownable, subresource)
    if entries is not given:
        known = entries_after(
            entries,
            changes,
            who=who,
            api_version=version,
            now=now_of(call),
            way_in=(call.strategy, subresource),
            ownable=ownable,
        )
        if known is not None:
            metadata.managed_fields = known
            return
    changes = changes.filtered(ownable)
    if not changes.is_same:
        changes_in = _changes_in(call, old, obj, subresource)
        metadata.managed_fields = _updated(call, entries, changes, who, changes_in)
    elif entries is given:
        metadata.managed_fields = write_entries(given_managers(entries))


def _updated(
    call: Call,
    entries: tuple[ManagedFieldsEntry, ...],
    changes: Comparison,
    who: Identity,
    changes_in: Callable[[str], Comparison | None],
) -> tuple[ManagedFieldsEntry, ...]:
    """The managers after changes; changes_in: what they are in other versions."""
    managers, version = given_managers(entries), call.kind.api_version
    try:
        found = update(managers, changes, who=who, api_version=version, now=now_of(call), changes_in=changes_in)
    except TypedError:
        return ()  # the object does not fit a version in which others manage it
    return write_entries(found)


def _all_changes(call: Call, old: Any, obj: Any, kind: Kind) -> Comparison:
    """What a write changes, in a version of the kind."""
    if kind is not call.stored:
        old, obj = call.convert(old, call.stored, kind), call.convert(obj, call.stored, kind)
    return compare_objects(call.strategy.shown(old), call.strategy.shown(obj))


def _changes(call: Call, old: Any, obj: Any, subresource: str, kind: Kind) -> Comparison:
    """What a write changes, in a version of the kind, as far as this way in can own it."""
    return _all_changes(call, old, obj, kind).filtered(functools.partial(call.strategy.ownable, subresource))


def _changes_in(call: Call, old: Any, obj: Any, subresource: str) -> Callable[[str], Comparison | None]:
    def changes_in(version: str) -> Comparison | None:
        kind = call.context.kinds.of_kind(version, call.kind.kind)
        if kind is None or kind.type is None or kind.storage_prefix != call.stored.storage_prefix:
            return None
        return _changes(call, old, obj, subresource, kind)

    return changes_in
