"""How schemas of custom resources are published."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.schema import definitions
from bayplan.apiserver.openapi import custom as openapi_custom
from bayplan.apiserver.openapi.custom import published
from bayplan.apiserver.openapi.custom_routes import routes_of
from bayplan.apiserver.openapi.routes import operation_id
from bayplan.apiserver.openapi.schemas import schemas_v3
from tests.api.custom_resources.test_kinds import rows, version
from tests.apiserver.custom_resources import things

Tree = dict[str, Any]
NAME = "com.example.v1.Thing"
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def shown(field: Tree, *, v2: bool, **more: Any) -> Tree:
    """How a field is published."""
    schema = {"type": "object", "properties": {"a": field}}
    kind = rows(version("v1", schema={"openAPIV3Schema": schema}, **more))["v1"]
    properties: Tree = published(kind, v2=v2)[NAME]["properties"]
    found: Tree = properties["a"]
    return found


CASES: dict[str, tuple[Tree, Tree]] = {
    "as it is": ({"type": "string", "description": "x", "default": "y"}, {"type": "string", "description": "x", "default": "y"}),
    "alternatives": ({"type": "string", "anyOf": [{}], "oneOf": [{}], "allOf": [{}], "not": {}}, {"type": "string"}),
    "a value that may be null": ({"type": "object", "nullable": True, "properties": {"b": {}}, "additionalProperties": {}}, {"additionalProperties": {}}),
    "a list of which nothing is known": ({"type": "array", "nullable": True, "items": {}}, {}),
    "a list without items": ({"type": "array"}, {}),
    "an object in which anything goes": ({"type": "object", "properties": {"b": {}}, **PRESERVE}, PRESERVE),
    "a list in which anything goes": ({"type": "array", "items": {}, **PRESERVE}, PRESERVE),
    "a string in which anything goes": ({"type": "string", **PRESERVE}, {"type": "string", **PRESERVE}),
    "required fields that may be null": (
        {"type": "object", "required": ["b", "c"], "properties": {"b": {"nullable": True}, "c": {}}},
        {"type": "object", "required": ["c"], "properties": {"b": {}, "c": {}}},
    ),
    "required fields that may all be null": (
        {"type": "object", "required": ["b"], "additionalProperties": {"nullable": True}}, {"type": "object", "additionalProperties": {}},
    ),
    "items": ({"type": "array", "items": {"type": "string", "nullable": True}}, {"type": "array", "items": {}}),
    "an integer or string": ({"x-kubernetes-int-or-string": True}, {"x-kubernetes-int-or-string": True}),
}  # fmt: skip


@pytest.mark.parametrize(("field", "expected"), CASES.values(), ids=CASES.keys())
def test_version_2_leaves_out_what_it_does_not_know(field: Tree, expected: Tree) -> None:
    assert shown(field, v2=True) == expected
    either = {"anyOf": EITHER} if "x-kubernetes-int-or-string" in field else {}
    assert shown(field, v2=False) == {**field, **either}


EITHER = [{"type": "integer"}, {"type": "string"}]
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
VERSION_3_CASES: dict[str, tuple[Tree, Tree]] = {
    "nothing else": ({}, {"anyOf": EITHER}),
    "what says so itself": ({"anyOf": EITHER}, {"anyOf": EITHER}),
    "what says so first": ({"allOf": [{"anyOf": EITHER}, {}]}, {"allOf": [{"anyOf": EITHER}, {}]}),
    "other alternatives": ({"anyOf": [{}], "allOf": [{}]}, {"anyOf": [{}], "allOf": [{"anyOf": EITHER}, {}]}),
}


@pytest.mark.parametrize(("field", "expected"), VERSION_3_CASES.values(), ids=VERSION_3_CASES.keys())
def test_version_3_says_which_types_an_integer_or_string_has(field: Tree, expected: Tree) -> None:
    assert shown({**INT_OR_STRING, **field}, v2=False) == {**INT_OR_STRING, **expected}


@pytest.mark.parametrize("v2", [True, False])
def test_embedded_objects_have_what_all_objects_have(v2: bool) -> None:
    found = shown({"type": "object", "x-kubernetes-embedded-resource": True, "required": ["kind"]}, v2=v2)
    assert set(found["properties"]) == {"apiVersion", "kind", "metadata"}
    assert found["required"] == ["kind", "apiVersion"]
    assert found["properties"]["kind"]["description"].startswith("kind is a string value representing the type")
    loose = shown({"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE}, v2=v2)
    assert ("properties" in loose) is not v2


@pytest.mark.parametrize(
    "more", [{"schema": {"openAPIV3Schema": {"type": "object", "properties": {"b": {}}, **PRESERVE}}}, {}]
)
def test_version_2_says_nothing_of_objects_in_which_anything_goes(more: Tree) -> None:
    kind = rows(version("v1", **more), preserveUnknownFields=not more)["v1"]
    found = published(kind, v2=True)[NAME]
    assert {key: value for key, value in found.items() if key != "x-kubernetes-group-version-kind"} == {
        "type": "object"
    }
    assert "metadata" in published(kind, v2=False)[NAME]["properties"]


def test_fields_to_select_by_are_published() -> None:
    kind = rows(version("v1", selectableFields=[{"jsonPath": ".spec.a"}]))["v1"]
    found = published(kind, v2=False)
    for name in (NAME, f"{NAME}List"):
        assert found[name]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.a"}]


def test_lists_are_published() -> None:
    found = published(rows(version("v1"))["v1"], v2=False)[f"{NAME}List"]
    assert found["required"] == ["items"]
    assert found["properties"]["items"]["items"] == {"$ref": NAME}
    assert found["x-kubernetes-group-version-kind"] == [{"group": "example.com", "kind": "ThingList", "version": "v1"}]


@pytest.mark.parametrize("installed", [True, False])
def test_what_all_objects_have_is_explained(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed:
        monkeypatch.setattr(openapi_custom, "documented_definitions", definitions)
    found = published(rows(version("v1"))["v1"], v2=False)
    for name in (NAME, f"{NAME}List"):
        properties = found[name]["properties"]
        assert properties["apiVersion"]["description"].startswith("APIVersion defines")
        assert properties["kind"]["description"].startswith("Kind ")
        assert "etadata" in properties["metadata"]["description"]


def test_schemas_are_published() -> None:
    async def scenario(door: things.Door) -> None:
        field = {"type": "string", "description": "What it is", "nullable": True}
        before = (await door.get("/openapi/v3")).tree["paths"]
        await door.define(
            things.definition(things.version(schema=things.structure(a=field, o={"x-kubernetes-int-or-string": True})))
        )
        paths = (await door.get("/openapi/v3")).tree["paths"]
        assert set(paths) - set(before) == {"apis/example.com/v1"}
        first = paths["apis/example.com/v1"]["serverRelativeURL"]
        document = (await door.get(first)).tree
        schema = document["components"]["schemas"]["com.example.v1.Thing"]
        assert schema["properties"]["spec"]["properties"]["a"] == field
        assert document["info"] == {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
        assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Thing"}]
        assert document["components"]["schemas"]["com.example.v1.ThingList"]["properties"]["items"]["items"]
        patches = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/things/{name}"]["patch"][
            "requestBody"
        ]["content"]
        assert "application/merge-patch+json" in patches
        assert "application/strategic-merge-patch+json" not in patches
        second = (await door.get("/openapi/v2")).tree["definitions"]["com.example.v1.Thing"]
        assert second["properties"]["spec"]["properties"]["a"] == {"description": "What it is"}
        await door.define(things.definition(things.version(schema=things.structure(b={"type": "string"}))))
        assert (await door.get("/openapi/v3")).tree["paths"]["apis/example.com/v1"]["serverRelativeURL"] != first
        await door.send("DELETE", things.THINGS)
        await things.eventually(lambda: door.is_gone(things.path()))
        assert "com.example.v1.Thing" not in (await door.get("/openapi/v2")).tree["definitions"]

    things.serving(scenario)


OPERATIONS: dict[str, tuple[str, str]] = {
    "get /apis/example.com/v1/things": ("listExampleComV1ThingForAllNamespaces", "list objects of kind Thing"),
    "get {}": ("listExampleComV1NamespacedThing", "list objects of kind Thing"),
    "post {}": ("createExampleComV1NamespacedThing", "create a Thing"),
    "delete {}": ("deleteExampleComV1CollectionNamespacedThing", "delete collection of Thing"),
    "get {}/{{name}}": ("readExampleComV1NamespacedThing", "read the specified Thing"),
    "put {}/{{name}}": ("replaceExampleComV1NamespacedThing", "replace the specified Thing"),
    "patch {}/{{name}}": ("patchExampleComV1NamespacedThing", "partially update the specified Thing"),
    "delete {}/{{name}}": ("deleteExampleComV1NamespacedThing", "delete a Thing"),
    "get {}/{{name}}/status": ("readExampleComV1NamespacedThingStatus", "read status of the specified Thing"),
    "put {}/{{name}}/status": ("replaceExampleComV1NamespacedThingStatus", "replace status of the specified Thing"),
    "patch {}/{{name}}/status": (
        "patchExampleComV1NamespacedThingStatus",
        "partially update status of the specified Thing",
    ),
    "get {}/{{name}}/scale": ("readExampleComV1NamespacedThingScale", "read scale of the specified Thing"),
    "put {}/{{name}}/scale": ("replaceExampleComV1NamespacedThingScale", "replace scale of the specified Thing"),
    "patch {}/{{name}}/scale": (
        "patchExampleComV1NamespacedThingScale",
        "partially update scale of the specified Thing",
    ),
}
SUBRESOURCES = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}


def test_every_operation_of_a_custom_resource_is_described() -> None:
    kind = rows(version("v1", subresources=SUBRESOURCES))["v1"]
    place = "/apis/example.com/v1/namespaces/{namespace}/things"
    found = {f"{one.method} {one.path}": (operation_id(one), one.description) for one in routes_of(kind)}
    assert found == {name.format(place): row for name, row in OPERATIONS.items()}


def test_shared_definitions_name_what_the_server_for_custom_resources_knows() -> None:
    deleted = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    kind = rows(version("v1"))["v1"]
    found = schemas_v3([deleted], published(kind, v2=False), "example.com", "v1")
    groups = {one["group"] for one in found[deleted]["x-kubernetes-group-version-kind"]}
    assert {"", "apps", "storage.k8s.io"} <= groups
    assert not groups & {"admission.k8s.io", "apiextensions.k8s.io", "example.com"}


def test_what_operations_of_a_custom_resource_take_and_give() -> None:
    kind = rows(version("v1", subresources=SUBRESOURCES))["v1"]
    found = {f"{one.method} {one.path.rpartition('/')[2]}": one for one in routes_of(kind)}
    assert (found["put scale"].body, found["put scale"].produced) == ("io.k8s.api.autoscaling.v1.Scale",) * 2
    assert found["put scale"].responses == ((200, "OK"), (201, "Created"))
    assert (found["post things"].body, found["get things"].produced) == (NAME, f"{NAME}List")
    assert "resourceVersion" in {one.name for one in found["get {name}"].parameters}
    assert not found["delete {name}"].body_is_required
    assert "application/strategic-merge-patch+json" not in found["patch {name}"].consumes
