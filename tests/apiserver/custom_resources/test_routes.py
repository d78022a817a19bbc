"""Requests on custom resources whose path, method or form fits nothing."""

from __future__ import annotations

import pytest

from tests.apiserver.custom_resources.things import (
    APPLY,
    MERGE,
    OPEN,
    THINGS,
    Door,
    condition,
    definition,
    eventually,
    path,
    serving,
    thing,
    version,
)

ALL = "/apis/example.com/v1/things"
MEDIA_TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("method", "where", "code", "message"),
    [
        ("POST", path("x"), 409, 'things.example.com "x" already exists'),
        ("PUT", path(), 400, "name must be provided"),
        ("PATCH", path(), 400, "name must be provided"),
        (
            "POST",
            path("x", subresource="status"),
            405,
            'create is not supported on resources of kind "things.example.com"',
        ),
        (
            "DELETE",
            path("x", subresource="status"),
            405,
            'delete is not supported on resources of kind "things.example.com"',
        ),
    ],
)
def test_methods_that_do_not_fit_are_told_by_their_verb(method: str, where: str, code: int, message: str) -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(subresources={"status": {}})))
        await door.create(path(), thing())
        answer = await door.send(method, where, thing(), **({"Content_Type": MERGE} if method == "PATCH" else {}))
        assert (answer.code, answer.message) == (code, message)

    serving(scenario)


def test_without_a_namespace_only_lists_are_served() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        for method, where in (("POST", ALL), ("DELETE", ALL), ("GET", f"{ALL}/x")):
            answer = await door.send(method, where, thing() if method == "POST" else None)
            assert (answer.code, answer.data) == (404, b"404 page not found\n")
        assert (await door.get(ALL)).code == 200

    serving(scenario)


@pytest.mark.parametrize("accept", ["application/cbor", "text/html", "application/json;as=Table;g=x;v=v1"])
def test_forms_that_there_are_not_are_refused_at_once(accept: str) -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        for where in (path(), path("nobody")):
            answer = await door.get(where, Accept=accept)
            said = f"only the following media types are accepted: {MEDIA_TYPES}"
            assert (answer.code, answer.message) == (406, said)

    serving(scenario)


def test_there_is_no_protobuf_but_of_metadata() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing())
        assert (await door.get(path("x"), Accept=PROTOBUF)).code == 406
        assert (await door.get(path("x"), Accept=f"{PROTOBUF}, application/json")).tree["kind"] == "Thing"
        metadata = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        assert (await door.get(path("x"), Accept=metadata)).code == 200

    serving(scenario)


def test_a_field_selector_of_nothing_chooses_everything() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing())
        assert len((await door.get(path(fieldSelector="%3D"))).tree["items"]) == 1

    serving(scenario)


def test_what_does_not_fit_the_version_of_other_managers_cannot_be_applied() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(), version("v2", storage=False, schema=OPEN)))
        await door.patch(path("x", fieldManager="one"), thing(spec={"a": "b"}), APPLY)
        other = thing(version="v2", spec={"free": 1})
        refused = await door.patch(path("x", version="v2", fieldManager="two"), other, APPLY)
        assert (refused.code, refused.message) == (
            500,
            "failed to convert new object: .spec.free: field not declared in schema",
        )
        assert (await door.patch(path("x", version="v2", fieldManager="three"), {"spec": {"free": 1}})).code == 200
        assert "managedFields" not in (await door.get(path("x"))).tree["metadata"]

    serving(scenario)


def test_unknown_fields_beside_a_schema_own_themselves_when_they_are_applied() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(schema=OPEN)))
        applied = await door.patch(path("x", fieldManager="one"), thing(spec={"a": "b"}), APPLY)
        assert applied.tree["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {".": {}, "f:a": {}}}

    serving(scenario)


def test_the_server_manages_what_it_says_of_a_deletion() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing(finalizers=["a.b/c"]))
        await door.send("DELETE", THINGS)

        async def in_progress() -> bool:
            return condition((await door.get(THINGS)).tree, "Terminating").get("reason") == "InstanceDeletionInProgress"

        await eventually(in_progress)
        entries = (await door.get(THINGS)).tree["metadata"]["managedFields"]
        conditions = next(one for one in entries if one.get("subresource"))["fieldsV1"]["f:status"]["f:conditions"]
        assert conditions['k:{"type":"Terminating"}'] == {"f:message": {}, "f:reason": {}}
        await door.patch(path("x"), {"metadata": {"finalizers": None}})

    serving(scenario)


def test_a_deprecated_version_is_warned_of_whatever_the_answer() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(deprecated=True)))
        await door.create(path(), thing())
        for where, accept, code in (
            (path("x"), "application/xml", 406),
            (path(watch="1"), "text/plain", 406),
            (path("x"), "*/*", 200),
        ):
            answer = await door.get(where, Accept=accept)
            assert (answer.code, answer.warnings) == (code, ('299 - "example.com/v1 Thing is deprecated"',))

    serving(scenario)


def test_one_resource_is_no_list_of_metadata() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing())
        form = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        answer = await door.get(path("x"), Accept=form)
        assert (answer.code, answer.message) == (500, "content is not a list")

    serving(scenario)


def test_resources_of_the_cluster_cannot_be_selected_by_namespace() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(namespaced=False))
        answer = await door.get(path(namespace="", fieldSelector="metadata.namespace%3Dx"))
        assert (answer.code, answer.message) == (400, "field label not supported: metadata.namespace")
        assert (await door.get(path(namespace="", fieldSelector="metadata.name%3Dx"))).code == 200

    serving(scenario)


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b"{}", "'{}' ({})"), (b"null", "'null' (6e756c6c)"), (b'{"spec":1}', '\'{"spec":1}\' ({"spec":1})')],
)
def test_a_body_without_a_kind_is_shown(body: bytes, shown: str) -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(subresources={"status": {}})))
        await door.create(path(), thing())
        for method, where in (("POST", path()), ("PUT", path("x")), ("PUT", path("x", subresource="status"))):
            answer = await door.send(method, where, body)
            why = f"the object provided is unrecognized (must be of type Thing): Object 'Kind' is missing in {shown}"
            assert (answer.code, answer.message) == (400, why)
        if body != b"null":
            answer = await door.send("POST", path(fieldValidation="Ignore"), body)
            missing = f"Object 'Kind' is missing in '{body.decode()}'"
            assert answer.message == f'Thing in version "v1" cannot be handled as a Thing: {missing}'

    serving(scenario)


def test_a_patch_that_fits_nothing_is_shown_with_its_fields_in_order() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing(spec={"n": 1, "a": "x"}))
        answer = await door.patch(path("x"), {"metadata": []})
        assert answer.code == 422
        assert '\\"metadata\\":[],\\"spec\\":{\\"a\\":\\"x\\",\\"n\\":1}}' in answer.message

    serving(scenario)


def test_rules_are_not_looked_at_without_a_name() -> None:
    async def scenario(door: Door) -> None:
        rules = [{"rule": "true"}]
        await door.define(definition(version(schema={"type": "object", "x-kubernetes-validations": rules})))
        answer = await door.send("POST", path(), {**thing(), "metadata": {}})
        causes = [one["message"] for one in answer.tree["details"]["causes"]]
        assert answer.code == 422
        assert "Required value: name or generateName is required" in causes
        assert any("some validation rules were not checked" in one for one in causes)

    serving(scenario)
