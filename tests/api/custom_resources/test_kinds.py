"""The rows that a definition stands for, and objects on their way between versions."""

from __future__ import annotations

from typing import Any

from bayplan.api.codec import encode, from_tree
from bayplan.api.custom_resources.kinds import CustomKind, kinds_of
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.printing import printer_for
from bayplan.api.types import apiextensions_v1

Tree = dict[str, Any]


def version(name: str, **more: Any) -> Tree:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}, **more}


def rows(*versions: Tree, **more: Any) -> dict[str, CustomKind]:
    """The rows of a definition, by version."""
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": list(versions), **more}
    tree = {"metadata": {"name": "things.example.com"}, "spec": spec, "status": {"acceptedNames": names}}
    return {kind.version: kind for kind in kinds_of(from_tree(apiextensions_v1.CustomResourceDefinition, tree))}


def structure(**properties: Tree) -> Tree:
    return {"schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}


def test_versions_come_in_the_order_in_which_clients_prefer_them() -> None:
    names = ("v1alpha1", "foo1", "v10", "v2beta1", "v1", "v2", "v2alpha3", "bar")
    assert list(rows(*map(version, names))) == ["v10", "v2", "v1", "v2beta1", "v2alpha3", "v1alpha1", "bar", "foo1"]


def test_all_versions_are_kept_in_one() -> None:
    found = rows(version("v1"), version("v2"))
    assert (found["v1"].storage_version, found["v2"].storage_version) == ("", "v1")
    assert found["v1"].storage_prefix == found["v2"].storage_prefix


def test_subresources_are_those_of_the_version() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    found = rows(
        version("v1", subresources={"status": {}, "scale": scale}),
        version("v2", subresources={"status": {}}),
        version("v3"),
    )
    assert {name: [one.name for one in kind.subresources] for name, kind in found.items()} == {
        "v1": ["status", "scale"],
        "v2": ["status"],
        "v3": [],
    }  # fmt: skip
    assert found["v3"].scale is None
    assert found["v2"].scale is None
    assert found["v1"].strategy.has_status
    assert not found["v3"].strategy.has_status


def test_the_version_to_use_instead_is_the_best_that_is_not_deprecated() -> None:
    found = rows(
        version("v1"), version("v2", deprecated=True), version("v3beta1", deprecated=True), version("v3", served=False), version("v1alpha1", deprecated=True)
    )  # fmt: skip
    assert {name: kind.replacement for name, kind in found.items()} == {
        "v1": "", "v2": "", "v3beta1": "v1", "v3": "", "v1alpha1": "v1",
    }  # fmt: skip


def test_objects_can_be_selected_by_the_fields_of_all_versions() -> None:
    found = rows(
        version("v1", selectableFields=[{"jsonPath": ".spec.a"}]),
        version("v2", selectableFields=[{"jsonPath": ".spec.b"}]),
    )
    obj = found["v1"].type(content={"spec": {"a": 1, "b": True}})
    assert found["v1"].strategy.selectable_fields(obj) == {"spec.a": "1", "spec.b": "true"}
    assert found["v1"].strategy.selectable_field_names == {"spec.a"}


def test_only_what_a_version_knows_is_shown_in_it() -> None:
    found = rows(version("v1", **structure(a={}, b={})), version("v2", **structure(a={}, c={"default": 1})))
    obj = found["v1"].type(content={"a": 1, "b": 2})
    shown = found["v2"].converted(obj)
    assert (type(shown), shown.content) == (found["v2"].type, {"a": 1})
    assert obj.content == {"a": 1, "b": 2}


def test_on_the_way_to_the_store_fields_stay_until_they_have_been_checked() -> None:
    found = rows(version("v1", **structure(a={})), version("v2", **structure(a={}, c={})))
    kept = found["v1"].converted(found["v2"].type(content={"a": 1, "c": 2}))
    assert kept.content == {"a": 1, "c": 2}
    assert kept.with_metadata(kept.metadata).is_mixed
    kept.settle()
    assert kept.content == {"a": 1}
    assert not kept.is_mixed


def test_objects_of_an_older_schema_are_pruned_and_defaulted() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    found = rows(version("v1", **structure(a={}, c={"default": 1}, t=embedded)))["v1"]
    old = CustomObject(content={"a": 1, "b": 2, "t": {"kind": "A", "apiVersion": 1, "metadata": {"name": 5}}})
    assert found.renewed(old).content == {"a": 1, "c": 1, "t": {"kind": "A", "metadata": {}}}


def test_nothing_is_pruned_where_unknown_fields_are_preserved() -> None:
    found = rows(version("v1", **structure(a={})), preserveUnknownFields=True)["v1"]
    assert found.renewed(CustomObject(content={"b": None})).content == {"b": None}


def test_anything_goes_without_a_schema() -> None:
    found = rows({"name": "v1", "served": True, "storage": True})["v1"]
    obj, dropped = found.type.read_reporting({"metadata": {"name": "x", "foo": 1}, "anything": {"a": None}})
    assert (obj.content, dropped) == ({"anything": {"a": None}}, ["metadata.foo"])


def test_objects_are_written_and_read_again() -> None:
    found = rows(version("v1"))["v1"]
    obj, _ = found.type.read_reporting(
        {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "x"}, "spec": {"a": [1]}}
    )
    again = found.type.read(encode(obj))
    assert again == obj
    assert again != found.type()
    assert repr(obj) == "<example.com/v1 Thing /x>"


COLUMNS: list[Tree] = [
    {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
    {
        "name": "Whole",
        "type": "integer",
        "jsonPath": ".spec.number",
        "description": "How many",
        "format": "int32",
        "priority": 1,
    },
    {"name": "Ratio", "type": "number", "jsonPath": ".spec.number"},
    {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
]


def cells(columns: list[Tree], **spec: Any) -> list[Any]:
    kind = rows(version("v1", additionalPrinterColumns=columns))["v1"]
    obj = kind.type(content={"spec": spec})
    obj.metadata.name, obj.metadata.creation_timestamp = "x", "2020-01-01T00:00:00Z"
    return list(printer_for(kind).cells(obj, 1577836800.0 + 90))


def test_columns_show_what_is_at_their_paths() -> None:
    assert cells(COLUMNS, text="t", number=1.5, on=True, when="2020-01-01T00:00:00Z") == ["x", "t", 1, 1.5, True, "90s"]


def test_columns_are_empty_where_nothing_of_their_type_is() -> None:
    assert cells(COLUMNS) == ["x", None, None, None, None, None]
    assert cells(COLUMNS, text=None, number="1", on=1, when=5) == ["x", "<no value>", None, None, None, None]
    assert cells(COLUMNS, text=1e6, number=True, on="true", when="soon") == [
        "x",
        "1e+06",
        None,
        None,
        None,
        "<invalid>",
    ]
    assert cells(COLUMNS, text={"b": "<"}, number=2, when="") == ["x", '{"b":"\\u003c"}', 2, 2.0, None, "<unknown>"]
    assert cells([{"name": "N", "type": "string", "jsonPath": ".spec.text[3]"}], text=["a"]) == ["x", None]


def test_without_columns_the_age_is_shown() -> None:
    assert cells([]) == ["x", "90s"]


def test_a_malformed_column_ends_the_table() -> None:
    assert cells(
        [COLUMNS[0], {"name": "Bad", "type": "string", "jsonPath": ".spec["}, COLUMNS[1]], text="t", number=1
    ) == ["x", "t"]


def test_columns_are_described() -> None:
    shown = printer_for(rows(version("v1", additionalPrinterColumns=COLUMNS))["v1"]).columns
    assert [one.name for one in shown] == ["Name", "Text", "Whole", "Ratio", "On", "When"]
    assert shown[1].description == "Custom resource definition column (in JSONPath format): .spec.text"
    assert (shown[2].description, shown[2].format, shown[2].priority) == ("How many", "int32", 1)
