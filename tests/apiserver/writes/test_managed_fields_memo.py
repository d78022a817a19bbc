"""Outcomes of updates that are remembered equal those that are worked out each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.managedfields.compare import ABSENT, compare
from bayplan.api.managedfields.fieldset import FieldSet, of_paths, recursive_difference
from bayplan.api.managedfields.managers import (
    APPLY,
    UPDATE,
    Identity,
    Managers,
    Owned,
    identity,
    read_entries,
    update,
    write_entries,
)
from bayplan.api.managedfields.typed import LIST, MAP, SCALAR, Type, struct_of
from bayplan.apiserver.managed_fields import memo as managed_fields_memo
from bayplan.apiserver.managed_fields.memo import entries_after

TIMES = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", None)
PATHS = (("f:status", "f:a"), ("f:status", "f:b"), ("f:status", "f:c"), ("f:spec",), ("f:spec", "f:d"))
HIDDEN = of_paths(("f:spec",))
NOW = "2026-02-02T00:00:00Z"


def ownable(fields: FieldSet) -> FieldSet:
    return recursive_difference(fields, HIDDEN)


def scalar_map() -> Type:
    found = Type(MAP)
    found._element = Type(SCALAR, scalar="untyped")
    return found


def tree_type() -> Type:
    """Maps of maps of scalars."""
    found = Type(MAP)
    found._element = scalar_map()
    return found


owned = st.builds(
    lambda paths, time: Owned(of_paths(*sorted(paths)), "v1", time),
    st.sets(st.sampled_from(PATHS), min_size=1),
    st.sampled_from(TIMES),
)
managers = st.dictionaries(
    st.builds(
        identity,
        st.sampled_from("xyz"),
        st.sampled_from((APPLY, UPDATE)),
        st.just("v1"),
        st.sampled_from(("", "status")),
    ),
    owned,
    min_size=1,
    max_size=8,
)
trees = st.dictionaries(
    st.sampled_from(("status", "spec")), st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), max_size=4)
)
writers = st.builds(
    lambda name, way_in: identity(name, UPDATE, "v1", way_in), st.sampled_from("xyz"), st.sampled_from(("", "status"))
)


@settings(max_examples=400, deadline=None)
@given(managers, writers, trees, trees)
def test_what_is_remembered_equals_what_the_rules_say(
    before: Managers, who: Identity, old: Mapping[str, object], new: Mapping[str, object]
) -> None:
    entries = write_entries(before)
    changes = compare(old, new, tree_type())
    seen = changes.filtered(ownable)
    expected = (
        entries
        if seen.is_same
        else write_entries(update(read_entries(entries), seen, who=who, api_version="v1", now=NOW))
    )
    for _ in range(2):
        found = entries_after(
            entries, changes, who=who, api_version="v1", now=NOW, way_in=("any", who.subresource), ownable=ownable
        )
        assert found == expected


def with_addresses(*addresses: str) -> dict[str, object]:
    return {"status": {"podIPs": [{"ip": address} for address in addresses], "phase": "Running"}}


def address_type() -> Type:
    """A status with addresses as a pod's."""
    text = Type(SCALAR, scalar="string")
    addresses = Type(LIST, keys=("ip",))
    addresses._element = struct_of({"ip": text})
    return struct_of({"status": struct_of({"podIPs": addresses, "phase": text})})


ips = st.lists(st.sampled_from(("10.1.0.1", "10.1.0.12", "10.1.0.2", "9.0.0.1", "fd00::1")), max_size=3, unique=True)


@settings(max_examples=300, deadline=None)
@given(ips, ips, st.sampled_from("xy"))
def test_addresses_of_others_are_never_mixed_up(old: list[str], new: list[str], writer: str) -> None:
    kind = address_type()
    first, who = identity("x", UPDATE, "v1"), identity(writer, UPDATE, "v1")
    made = compare(ABSENT, with_addresses(*old), kind)
    entries = write_entries(update({}, made, who=first, api_version="v1", now=NOW))
    changes = compare(with_addresses(*old), with_addresses(*new), kind)
    expected = (
        entries
        if changes.is_same
        else write_entries(update(read_entries(entries), changes, who=who, api_version="v1", now=NOW))
    )
    assert (
        entries_after(
            entries, changes, who=who, api_version="v1", now=NOW, way_in=("addresses", ""), ownable=lambda one: one
        )
        == expected
    )


def test_pods_with_other_addresses_are_one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[Identity] = []
    rules = managed_fields_memo._work_out

    def counted(entries: Any, changes: Any, who: Identity, *more: Any) -> Any:
        worked_out.append(who)
        return rules(entries, changes, who, *more)

    monkeypatch.setattr(managed_fields_memo, "_work_out", counted)
    kind, who = address_type(), identity("kubelet", UPDATE, "v1")
    (entry,) = write_entries({identity("user", UPDATE, "v1"): Owned(of_paths(("f:spec",)), "v1", NOW)})
    for number in range(3):
        changes = compare({"status": {}}, with_addresses(f"10.7.0.{number}"), kind)
        found = entries_after(
            (entry,), changes, who=who, api_version="v1", now=NOW, way_in=("one case", ""), ownable=lambda one: one
        )
        assert found is not None
        (mine,) = (one for one in found if one.manager == "kubelet")
        assert f'"k:{{\\"ip\\":\\"10.7.0.{number}\\"}}"'.encode() in bytes(mine.fields_v1)
    assert worked_out == [who]


def test_entries_of_another_version_and_malformed_ones_are_left_to_the_rules() -> None:
    who = identity("x", UPDATE, "v1")
    changes = compare(ABSENT, {"status": {"a": 1}}, tree_type())
    (entry,) = write_entries({who: Owned(of_paths(("f:spec",)), "v1", NOW)})
    for other in (
        msgspec.structs.replace(entry, api_version="v2"),
        msgspec.structs.replace(entry, fields_type="FieldsV2"),
        msgspec.structs.replace(entry, fields_v1=msgspec.Raw(b"[]")),
        msgspec.structs.replace(entry, operation="Delete"),
    ):
        assert (
            entries_after(
                (other,), changes, who=who, api_version="v1", now=NOW, way_in=("any", ""), ownable=lambda one: one
            )
            is None
        )


values = st.one_of(st.integers(0, 2), st.sampled_from(("", "0", "1")), st.none())
maps = st.dictionaries(st.sampled_from("abcde"), values, max_size=5)


@settings(max_examples=300, deadline=None)
@given(maps, maps)
def test_maps_differ_in_the_fields_that_come_go_or_become_others(
    old: dict[str, object], new: dict[str, object]
) -> None:
    found = compare({"m": old}, {"m": new}, tree_type())
    inner = [set(one.get("f:m", {})) for one in found]
    same = {key for key in old if key in new and old[key] == new[key] and type(old[key]) is type(new[key])}
    if old and new:
        assert inner[0] == {f"f:{key}" for key in old if key not in new}
        assert inner[1] == {f"f:{key}" for key in old if key in new} - {f"f:{key}" for key in same}
        assert inner[2] == {f"f:{key}" for key in new if key not in old}
    for one in found:
        below = one.get("f:m", {})
        assert list(below) == sorted(below)


def test_items_are_named_by_their_key_whether_it_was_seen_before_or_not() -> None:
    kind = Type(LIST, keys=("name",))
    for text in ("a", 'b"c', "a"):
        assert msgspec.json.decode(kind.item_key({"name": text, "x": 1})[2:]) == {"name": text}
    assert kind.item_key({"name": 1}) == 'k:{"name":1}'
