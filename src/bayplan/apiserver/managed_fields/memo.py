"""What updates make of managed fields, remembered: kubelets and controllers make the same kind of change to one object after the other, with other values.

The outcome depends on who owned what and which fields changed, not on values and times, so it is worked out once per such case. Nor does it depend on
addresses, by which items of lists are told apart (a pod's, of which each has its own): cases that differ in nothing else count as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from bayplan.api.managedfields.compare import Comparison
from bayplan.api.managedfields.fieldset import FieldSet
from bayplan.api.managedfields.managers import (
    APPLY,
    Identity,
    MalformedError,
    in_order,
    read_entries,
    update,
    write_entries,
)
from bayplan.api.types.meta_v1 import ManagedFieldsEntry
from bayplan.support.memory.memo import Memo

_MOST_OWNERS = 8
"""More are rare, and from ten on their times decide who is merged with whom."""
_LONGEST_CASE = 16384
_NOW = "now"

_encode = msgspec.json.Encoder().encode


class _Outcome(NamedTuple):
    """What an update leaves to whom."""

    is_same: bool
    """Whether no field changed that this way in can own."""
    fields: dict[Identity, bytes]
    """Of everybody who still owns something, with stand-ins for addresses."""
    is_written: bool
    """Whether the writer owns something that it has written now."""


_kept: Final[Memo[tuple[object, ...], _Outcome]] = Memo("managed_fields_updates", most_bytes=16 << 20)


def entries_after(
    entries: tuple[ManagedFieldsEntry, ...],
    changes: Comparison,
    *,
    who: Identity,
    api_version: str,
    now: str,
    way_in: tuple[object, str],
    ownable: Callable[[FieldSet], FieldSet],
) -> tuple[ManagedFieldsEntry, ...] | None:
    """The managers after an update; the very entries if nothing changed. None for what is not worth remembering.

    changes: all that differs, in `api_version`. ownable: the part of a set that this way in can own, the same for equal `way_in` (strategy, subresource).
    """
    if len(entries) > _MOST_OWNERS:
        return None
    owners: dict[Identity, bytes] = {}
    size = 0
    for entry in entries:
        if entry.api_version != api_version or entry.fields_type != "FieldsV1":
            return None
        fields = bytes(entry.fields_v1)
        size += len(fields)
        version = "" if entry.operation == APPLY else api_version
        owners[Identity(entry.manager, entry.operation, version, entry.subresource)] = fields
    changed = _encode(changes)
    if len(owners) != len(entries) or size + len(changed) > _LONGEST_CASE:
        return None
    addresses = _Addresses(changed, *owners.values())
    case = (
        way_in,
        who,
        api_version,
        addresses.hidden(changed),
        tuple(owners),
        tuple(map(addresses.hidden, owners.values())),
    )
    outcome = _kept.get(case)
    if outcome is None:
        try:
            outcome = _work_out(entries, changes.filtered(ownable), who, api_version, addresses)
        except MalformedError:
            return None
        _kept.put(case, outcome, 2 * (size + len(changed)))
    return entries if outcome.is_same else _put_down(outcome, entries, owners, who, api_version, now, addresses)


_ADDRESS = re.compile(rb'"k:\{\\"ip\\":\\"([0-9a-fA-F.:]+)\\"\}"')
"""The key of an item that an address tells apart, in the JSON of a field set. Without looking behind, which is slow."""
_KEY = b'"k:{\\"ip\\":\\"%b\\"}"'


class _Addresses:
    """The addresses that are keys of items, each with a stand-in; these are in the order of the addresses, as items are in that of their keys."""

    __slots__ = ("_hidden", "_shown")

    def __init__(self, *fields: bytes) -> None:
        found = sorted({address for one in fields for address in _ADDRESS.findall(one)})
        self._hidden = {address: b"%02x" % number for number, address in enumerate(found)}
        self._shown = {stand_in: address for address, stand_in in self._hidden.items()}

    def hidden(self, fields: bytes) -> bytes:
        """A field set with stand-ins."""
        return _ADDRESS.sub(lambda match: _KEY % self._hidden[match[1]], fields) if self._hidden else fields

    def shown(self, fields: bytes) -> bytes:
        """A field set with addresses."""
        return _ADDRESS.sub(lambda match: _KEY % self._shown[match[1]], fields) if self._shown else fields


def _work_out(
    entries: tuple[ManagedFieldsEntry, ...], changes: Comparison, who: Identity, api_version: str, addresses: _Addresses
) -> _Outcome:
    """The outcome by the rules. Raises MalformedError."""
    managers = read_entries(entries)
    if changes.is_same:
        return _Outcome(is_same=True, fields={}, is_written=False)
    after = update(managers, changes, who=who, api_version=api_version, now=_NOW)
    fields = {one: addresses.hidden(bytes(write_entries({one: owned})[0].fields_v1)) for one, owned in after.items()}
    return _Outcome(is_same=False, fields=fields, is_written=who in after and after[who].time == _NOW)


def _put_down(
    outcome: _Outcome,
    entries: tuple[ManagedFieldsEntry, ...],
    owners: dict[Identity, bytes],
    who: Identity,
    api_version: str,
    now: str,
    addresses: _Addresses,
) -> tuple[ManagedFieldsEntry, ...]:
    """An outcome as entries, with times and addresses."""
    after = []
    for one, entry in zip(owners, entries, strict=True):
        fields = outcome.fields.get(one)
        if fields is not None and not (outcome.is_written and one == who):
            after.append(msgspec.structs.replace(entry, fields_v1=msgspec.Raw(addresses.shown(fields))))
    if outcome.is_written:
        after.append(
            ManagedFieldsEntry(
                manager=who.manager,
                operation=who.operation,
                api_version=api_version,
                time=now,
                fields_type="FieldsV1",
                fields_v1=msgspec.Raw(addresses.shown(outcome.fields[who])),
                subresource=who.subresource,
            )
        )
    return in_order(after)
