"""Rules for metadata."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.api.types import meta_v1
from bayplan.api.validation.meta import (
    UpdateChecks,
    validate_object_meta,
    validate_object_meta_update,
    validate_updated_meta,
)


def meta(**members: object) -> meta_v1.ObjectMeta:
    """Metadata of a valid object with some members replaced."""
    given = {"name": "a", "namespace": "n", "resource_version": "1", **members}
    return msgspec.structs.replace(meta_v1.ObjectMeta(), **given)


def problems(metadata: meta_v1.ObjectMeta, *, namespaced: bool = True, rule: str = "dns-1123-subdomain") -> list[str]:
    """Field and type of each error."""
    found = validate_object_meta(metadata, namespaced=namespaced, name_rule=rule)
    return [f"{error.field} {error.type.name}" for error in found]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, []),
        ({"name": ""}, ["metadata.name REQUIRED"]),
        ({"name": "A"}, ["metadata.name INVALID"]),
        ({"namespace": ""}, ["metadata.namespace REQUIRED"]),
        ({"generate_name": "a-"}, []),
        ({"generate_name": "Aa-"}, ["metadata.generateName INVALID"]),
        ({"labels": {"a b": "c d"}}, ["metadata.labels INVALID", "metadata.labels INVALID"]),
        ({"annotations": {"Upper/Case": "any thing"}}, []),
        ({"annotations": {"a": "x" * 300_000}}, ["metadata.annotations TOO_LONG"]),
        ({"finalizers": ("plain",)}, ["metadata.finalizers[0] INVALID"]),
        ({"finalizers": ("orphan", "foregroundDeletion")}, ["metadata.finalizers INVALID"]),
        ({"generation": -1}, ["metadata.generation INVALID"]),
    ],
)
def test_new_objects(members: dict[str, object], expected: list[str]) -> None:
    assert problems(meta(**members)) == expected


def test_cluster_wide_objects_have_no_namespace() -> None:
    assert problems(meta(), namespaced=False) == ["metadata.namespace FORBIDDEN"]


def test_finalizers_without_a_domain_are_fine_for_custom_resources() -> None:
    found = validate_object_meta(
        meta(finalizers=("plain",)), namespaced=True, name_rule="dns-1123-subdomain", standard_finalizers=False
    )
    assert not found


def test_only_one_owner_controls() -> None:
    owner = meta_v1.OwnerReference(api_version="v1", kind="Pod", name="p", uid="u", controller=True)
    other = msgspec.structs.replace(owner, name="q")
    assert problems(meta(owner_references=(owner, other))) == ["metadata.ownerReferences INVALID"]


def test_what_identifies_an_object_never_changes() -> None:
    found = validate_object_meta_update(meta(name="b"), meta())
    assert [error.field for error in found] == ["metadata.name"]


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (UpdateChecks(whole=0, change=0), "labels uid labels"),
        (UpdateChecks(), "labels uid labels uid labels finalizers[0]"),
        (UpdateChecks(whole=1, change=0), "labels uid labels labels finalizers[0]"),
        (UpdateChecks(whole=1), "labels uid labels labels finalizers[0] uid labels finalizers[0]"),
        (
            UpdateChecks(whole=1, change_first=True),
            "labels uid labels uid labels finalizers[0] labels finalizers[0]",
        ),
        (UpdateChecks(whole=2, change=0), "labels uid labels labels finalizers[0] labels finalizers[0]"),
    ],
)
def test_an_update_is_told_as_often_as_the_rules_of_the_kind_look_at_it(checks: UpdateChecks, expected: str) -> None:
    new = meta(uid="b", labels={"a": "?"}, finalizers=("own",))
    found = validate_updated_meta(new, meta(), checks, namespaced=True, name_rule="dns-1123-subdomain")
    assert " ".join(error.field.removeprefix("metadata.") for error in found) == expected


def test_an_update_that_leaves_names_and_finalizers_alone_is_not_held_to_newer_rules() -> None:
    old = meta(name="Old_Name", finalizers=("own",))
    new = msgspec.structs.replace(old, labels={"a": "b"})
    assert not validate_updated_meta(new, old, UpdateChecks(1), namespaced=True, name_rule="dns-1123-subdomain")


@pytest.mark.parametrize(
    ("prefix", "rule", "expected"),
    [
        ("a-", "dns-1123-label", []),
        ("..", "path-segment", []),
        ("..", "whole-path-segment", ["metadata.generateName: Invalid value: \"..\": may not be '..'"]),
        ("a/b", "path-segment", ["metadata.generateName: Invalid value: \"a/b\": may not contain '/'"]),
        ("10.0.0.1", "ip-address", []),
        (
            "abc",
            "ip-address",
            [
                'metadata.generateName: Invalid value: "abc": must be a valid IP address, (e.g. 10.9.8.7 or '
                "2001:db8::ffff)"
            ],
        ),
    ],
)
def test_the_prefix_of_a_generated_name_is_checked_by_the_rule_of_names(
    prefix: str, rule: str, expected: list[str]
) -> None:
    name = "10.0.0.1" if rule == "ip-address" else "abc"
    found = validate_object_meta(meta(name=name, generate_name=prefix), namespaced=True, name_rule=rule)
    assert [str(error) for error in found] == expected


def test_no_finalizer_is_added_to_an_object_that_is_going_away() -> None:
    old = meta(deletion_timestamp="2030-01-01T00:00:00Z", finalizers=("example.com/a",))
    new = msgspec.structs.replace(old, finalizers=("example.com/a", "example.com/b"))
    found = validate_object_meta_update(new, old)
    assert found[0].detail == (
        'no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/b"}'
    )
    assert not validate_object_meta_update(msgspec.structs.replace(old, finalizers=()), old)


def owner(version: str = "v1", kind: str = "Pod", **more: object) -> meta_v1.OwnerReference:
    given = {"api_version": version, "kind": kind, "name": "o", "uid": "u", **more}
    return msgspec.structs.replace(meta_v1.OwnerReference(api_version="", kind="", name="", uid=""), **given)


def entry(**members: object) -> meta_v1.ManagedFieldsEntry:
    given = {"operation": "Update", "fields_type": "FieldsV1", **members}
    return msgspec.structs.replace(meta_v1.ManagedFieldsEntry(), **given)


LIMIT = 256 * 1024
FIELDS = "metadata.managedFields[0]"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"annotations": {"a": "x" * (LIMIT - 1)}}, []),
        ({"annotations": {"a": "x" * LIMIT}}, ["metadata.annotations TOO_LONG"]),
        ({"annotations": {"a": "é" * (LIMIT // 2)}}, ["metadata.annotations TOO_LONG"]),
        ({"owner_references": (owner(), owner("apps/v1", "ReplicaSet"))}, []),
        ({"owner_references": (owner("a/b/v1"),)}, ["metadata.ownerReferences.apiVersion INVALID"]),
        ({"owner_references": (owner("apps/"),)}, ["metadata.ownerReferences.apiVersion INVALID"]),
        ({"owner_references": (owner(kind="Event"),)}, ["metadata.ownerReferences INVALID"]),
        ({"owner_references": (owner("apps/v1", "Event"),)}, []),
        ({"owner_references": (owner(controller=True), owner(controller=False))}, []),
        ({"owner_references": (owner(controller=True), owner(controller=True))}, ["metadata.ownerReferences INVALID"]),
        ({"finalizers": ("orphan",)}, []),
        ({"finalizers": ("foregroundDeletion",)}, []),
        ({"finalizers": ("orphan", "foregroundDeletion")}, ["metadata.finalizers INVALID"]),
        ({"managed_fields": (entry(),)}, []),
        ({"managed_fields": (entry(operation="Apply", fields_type=""),)}, []),
        ({"managed_fields": (entry(operation="Else"),)}, [f"{FIELDS}.operation INVALID"]),
        ({"managed_fields": (entry(fields_type="Else"),)}, [f"{FIELDS}.fieldsType INVALID"]),
        ({"managed_fields": (entry(manager="m" * 128, subresource="s" * 256),)}, []),
        ({"managed_fields": (entry(manager="m" * 129),)}, [f"{FIELDS}.manager TOO_LONG"]),
        ({"managed_fields": (entry(manager="ü" * 65),)}, [f"{FIELDS}.manager TOO_LONG"]),
        ({"managed_fields": (entry(manager="a\nb\u2028"),)}, [f"{FIELDS}.manager INVALID"] * 2),
        ({"managed_fields": (entry(subresource="s" * 257),)}, [f"{FIELDS}.subresource TOO_LONG"]),
        ({"generation": 0}, []),
        ({"generation": -1}, ["metadata.generation INVALID"]),
    ],
)
def test_metadata_at_its_bounds(members: dict[str, object], expected: list[str]) -> None:
    assert problems(meta(**members)) == expected


@pytest.mark.parametrize("member", ["labels", "annotations"])
def test_parts_are_looked_at_again_when_one_of_them_changes(member: str) -> None:
    wrong = {"labels": {"a b": "c"}}
    old = meta(**wrong)
    assert validate_object_meta_update(meta(**wrong), old) == []
    changed = meta(**{**wrong, member: {**getattr(old, member), "d": "e"}})
    found = validate_object_meta_update(changed, old)
    assert [error.field for error in found] == ["metadata.labels"]
    owned = meta(**wrong, owner_references=(owner(),))
    assert [error.field for error in validate_object_meta_update(owned, old)] == ["metadata.labels"]
