"""What may be written, and what a write may change."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.strategy import nested
from tests.api.custom_resources.test_kinds import rows, structure, version

Tree = dict[str, Any]
SCALE = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.selector"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {}}


def kind(subresources: Tree | None = None, **properties: Tree) -> CustomKind:
    more = structure(**(properties or {"spec": OPEN, "status": OPEN}))
    return rows(version("v1", **more, **({"subresources": subresources} if subresources else {})))["v1"]


def made(of: CustomKind, content: Tree, name: str = "x") -> CustomObject:
    obj = of.type(content=content)
    obj.metadata.name = name
    return obj


def created(of: CustomKind, content: Tree, name: str = "x") -> list[str]:
    return [str(error) for error in of.strategy.validate_create(made(of, content, name))]


def updated(of: CustomKind, old: Tree, new: Tree) -> list[str]:
    return [str(error) for error in of.strategy.validate_update(made(of, new), made(of, old))]


def test_a_status_that_is_kept_apart_is_not_for_who_writes_the_rest() -> None:
    plain, apart = kind(), kind({"status": {}})
    for of, status in ((plain, {"a": 2}), (apart, {"a": 1})):
        new = made(of, {"spec": {"b": 2}, "status": {"a": 2}})
        of.strategy.prepare_update(new, made(of, {"spec": {}, "status": {"a": 1}}))
        assert new.content == {"spec": {"b": 2}, "status": status}
        fresh = made(of, {"spec": {}, "status": {}})
        of.strategy.prepare_create(fresh)
        assert ("status" in fresh.content) is (of is plain)
    without = made(apart, {"status": {"a": 2}})
    apart.strategy.prepare_update(without, made(apart, {"spec": {}}))
    assert without.content == {}


def test_who_writes_the_status_writes_nothing_else() -> None:
    of = kind({"status": {}})
    new = made(of, {"spec": {"b": 2}, "other": 1, "status": {"a": 2}})
    of.strategy.prepare_status_update(new, made(of, {"spec": {"b": 1}, "status": {"a": 1}}))
    assert new.content == {"spec": {"b": 1}, "status": {"a": 2}}
    gone = made(of, {"spec": {"b": 2}})
    of.strategy.prepare_status_update(gone, made(of, {"spec": {"b": 1}, "status": {"a": 1}}))
    assert gone.content == {"spec": {"b": 1}}


def test_everything_but_metadata_counts_for_the_generation() -> None:
    of = kind()
    assert not of.strategy.spec_changed(made(of, {"spec": {}}, "x"), made(of, {"spec": {}}, "y"))
    assert of.strategy.spec_changed(made(of, {"status": {"a": 1}}), made(of, {}))


def test_fields_of_another_version_do_not_count() -> None:
    found = rows(version("v1", **structure(a={}, b={})), version("v2", **structure(a={}, c={"type": "integer"})))
    stored, served = found["v1"], found["v2"].strategy
    new = stored.converted(found["v2"].type(content={"a": 1, "c": "x"}))
    assert [error.field for error in served.validate_create(new)] == ["c"]
    assert not served.spec_changed(made(stored, {"a": 1}), made(stored, {"a": 1, "b": 5}))
    assert served.spec_changed(new, made(stored, {"a": 1}))


def test_schemas_may_restrict_names_and_what_objects_say_they_are() -> None:
    metadata = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}}
    assert created(kind(metadata=metadata), {}, "abc") == []
    assert created(kind(metadata=metadata), {}, "xyz") == [
        "metadata.name: Invalid value: \"xyz\": metadata.name in body should match '^a'"
    ]
    assert created(kind(kind={"enum": ["Thing"]}, apiVersion={"enum": ["example.com/v2"]}), {}) == [
        'apiVersion: Unsupported value: "example.com/v1": supported values: "example.com/v2"'
    ]


def test_whole_objects_have_kind_version_and_metadata() -> None:
    schema = {"openAPIV3Schema": {"type": "object", "required": ["metadata", "kind", "spec"], "minProperties": 3}}
    of = rows(version("v1", schema=schema))["v1"]
    assert created(of, {}) == ["spec: Required value"]


def test_lists_and_embedded_objects_are_looked_at() -> None:
    of = kind(a=SET, t={"type": "object", "x-kubernetes-embedded-resource": True})
    assert created(of, {"a": [1, 1], "t": {"kind": "A"}}) == [
        "t.apiVersion: Required value",
        "a[1]: Duplicate value: 1",
    ]


def test_lists_that_had_items_twice_may_go_on_so_and_embedded_objects_may_not() -> None:
    of = kind(a=SET, t={"type": "object", "x-kubernetes-embedded-resource": True})
    assert updated(of, {"a": [1, 1]}, {"a": [2, 2]}) == []
    assert updated(of, {"a": [1]}, {"a": [2, 2]}) == ["a[1]: Duplicate value: 2"]
    assert updated(of, {"t": {"kind": "A"}}, {"t": {"kind": "A"}}) == ["t.apiVersion: Required value"]


def test_what_was_wrong_may_stay_wrong() -> None:
    of = kind(a={"type": "integer"}, b={})
    assert updated(of, {"a": "x"}, {"a": "x", "b": 1}) == []
    assert updated(of, {"a": "x"}, {"a": "y"}) != []


def status_errors(of: CustomKind, old: Tree, new: Tree) -> list[str]:
    return [str(error) for error in of.strategy.validate_status_update(made(of, new), made(of, old))]


def test_of_a_status_only_the_status_is_checked() -> None:
    of = kind(
        {"status": {}},
        spec={"type": "integer"},
        status={"type": "object", "properties": {"a": {"maximum": 1}, "l": SET}},
    )
    assert status_errors(of, {}, {"spec": "x"}) == []
    assert status_errors(of, {}, {"spec": "x", "status": {"a": 2}}) == [
        "status.a: Invalid value: 2: a in body should be less than or equal to 1"
    ]
    assert status_errors(of, {"status": {"a": 2}}, {"status": {"a": 2, "l": [1]}}) == []
    assert status_errors(of, {}, {"status": {"l": [1, 1]}}) == ["status.l[1]: Duplicate value: 1"]
    assert status_errors(of, {"status": {"l": [2, 2]}}, {"status": {"l": [1, 1]}}) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, []),
        ({"spec": {"n": 3}, "status": {"n": 1, "selector": "a=b"}}, []),
        ({"spec": {"n": -1}}, [".spec.n: Invalid value: -1: should be a non-negative integer"]),
        ({"spec": {"n": 2**31}}, [".spec.n: Invalid value: 2147483648: should be less than or equal to 2147483647"]),
        (
            {"spec": {"n": "3"}},
            [".spec.n: Invalid value: 0: .spec.n accessor error: 3 is of the type string, expected int64"],
        ),
        (
            {"spec": {"n": True}},
            [".spec.n: Invalid value: 0: .spec.n accessor error: true is of the type bool, expected int64"],
        ),
        (
            {"spec": {"n": None}},
            [".spec.n: Invalid value: 0: .spec.n accessor error: <nil> is of the type <nil>, expected int64"],
        ),
        ({"spec": None}, []),
        (
            {"spec": [1]},
            [
                ".spec.n: Invalid value: 0: .spec.n accessor error: [1] is of the type []interface {}, expected map[string]interface{}"
            ],
        ),
        ({"status": {"n": -1}}, [".status.n: Invalid value: -1: should be a non-negative integer"]),
        (
            {"status": {"selector": {}}},
            [
                '.status.selector: Invalid value: "": .status.selector accessor error: map[] is of the type map[string]interface {}, expected string'
            ],
        ),
    ],
)
def test_replicas_have_to_be_such(content: Tree, expected: list[str]) -> None:
    of = kind({"scale": SCALE}, spec={}, status={})
    assert created(of, content) == expected
    assert updated(of, {}, content) == expected
    assert status_errors(of, {}, content) == [error for error in expected if error.startswith(".status")]


def test_nested_values() -> None:
    assert nested({"a": {"b": 1}}, "a.b", int) == 1
    assert nested({"a": {}}, ".a.b.c", int) is None


def test_new_finalizers_without_a_domain_are_warned_of() -> None:
    of = kind()
    old, new = made(of, {}), made(of, {})
    old.metadata.finalizers, new.metadata.finalizers = ("old",), ("old", "new", "example.com/fine")
    (warning,) = of.strategy.warnings(new, old)
    assert warning.startswith('metadata.finalizers: "new": prefer a domain-qualified finalizer name')


def test_expressions_are_not_loaded_before_a_schema_has_rules() -> None:
    loads = "import sys; import bayplan.api.custom_resources.strategy; print('bayplan.api.cel' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
