"""OpenAPI documents: complete in themselves, and the same in every form."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bayplan.api.kinds import DEFAULT_KINDS, KindTable
from bayplan.apiserver.openapi import protobuf_v3 as openapi_protobuf_v3
from bayplan.apiserver.openapi.documents import OpenApi
from bayplan.apiserver.openapi.protobuf import CONTENT_TYPE, MEDIA_TYPE
from bayplan.apiserver.requests import ANONYMOUS, Request
from tests.apiserver.serving import new_api


@pytest.fixture(scope="module")
def openapi() -> OpenApi:
    return documents()


def documents() -> OpenApi:
    """Those of a server that nobody else answers for."""
    return OpenApi(DEFAULT_KINDS, new_api().context.aggregated, lambda: 1_700_000_000.0)


def get(openapi: OpenApi, path: str, accept: str = "application/json") -> bytes:
    response = openapi.handle(Request("GET", path, {}, ANONYMOUS, accept=accept))
    assert response is not None
    assert response.code == 200
    return response.body


def test_what_changes_twice_in_a_second_is_of_two_seconds() -> None:
    kinds = KindTable()
    changing = OpenApi(kinds, new_api().context.aggregated, lambda: 1_700_000_000.0)

    def modified() -> str:
        response = changing.handle(Request("GET", "/openapi/v3", {}, ANONYMOUS))
        assert response is not None
        return response.headers["Last-Modified"]

    before = modified()
    assert modified() == before
    kinds.remove(next(iter(kinds)))
    assert modified() != before


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if isinstance(tree.get("$ref"), str):
            yield tree["$ref"]
        for value in tree.values():
            yield from references(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from references(item)


def test_every_reference_of_version_2_leads_somewhere(openapi: OpenApi) -> None:
    tree = json.loads(get(openapi, "/openapi/v2"))
    known = {f"#/{part}/{name}" for part in ("definitions", "parameters") for name in tree[part]}
    assert set(references(tree)) == known


def test_every_document_of_version_3_is_complete(openapi: OpenApi) -> None:
    for prefix in json.loads(get(openapi, "/openapi/v3"))["paths"]:
        tree = json.loads(get(openapi, f"/openapi/v3/{prefix}"))
        assert tree["components"]["securitySchemes"]["BearerToken"]["in"] == "header"
        known = {f"#/components/schemas/{name}" for name in tree.get("components", {}).get("schemas", {})}
        assert set(references(tree)) <= known
        assert tree["paths"]
        if prefix == "api/v1" or (prefix.startswith("apis/") and prefix.count("/") == 2):
            assert known
            assert any(path.startswith(f"/{prefix}/") for path in tree["paths"])


def test_a_property_may_be_called_like_a_keyword(openapi: OpenApi) -> None:
    tree = json.loads(get(openapi, "/openapi/v2"))
    properties = tree["definitions"]["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"][
        "properties"
    ]
    assert properties["$ref"] == {"type": "string"}
    assert properties["oneOf"]["type"] == "array"


def test_patches_offer_field_validation_which_is_what_kubectl_looks_for(openapi: OpenApi) -> None:
    tree = json.loads(get(openapi, "/openapi/v3/apis/apps/v1"))
    patch = tree["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert "fieldValidation" in {one["name"] for one in patch["parameters"]}


def test_the_protobuf_form_holds_every_path_and_definition(openapi: OpenApi) -> None:
    response = openapi.handle(Request("GET", "/openapi/v2", {}, ANONYMOUS, accept=MEDIA_TYPE))
    assert response is not None
    assert response.content_type == CONTENT_TYPE
    tree = json.loads(get(openapi, "/openapi/v2"))
    document = dict(fields(response.body))
    paths = [dict(fields(one))[1].decode() for number, one in fields(document[8]) if number == 2]
    definitions = [dict(fields(one))[1].decode() for _, one in fields(document[9])]
    assert paths == list(tree["paths"])
    assert definitions == list(tree["definitions"])
    assert document[1] == b"2.0"


def only(data: bytes, *numbers: int) -> bytes:
    """The first field of a message inside messages."""
    for number in numbers:
        data = next(value for one, value in fields(data) if one == number)
    return data


def named(data: bytes, number: int, name: str) -> bytes:
    """The value of that name among a message's fields."""
    return next(only(one, 2) for at, one in fields(data) if at == number and only(one, 1).decode() == name)


def texts(data: bytes, number: int) -> list[str]:
    return [one.decode() for at, one in fields(data) if at == number]


def test_the_protobuf_form_holds_what_operations_have(openapi: OpenApi) -> None:
    document = get(openapi, "/openapi/v2", MEDIA_TYPE)
    tree = json.loads(get(openapi, "/openapi/v2"))
    item = named(only(document, 8), 2, "/api/v1/namespaces/{name}")
    put, shown = only(item, 3), tree["paths"]["/api/v1/namespaces/{name}"]["put"]
    keys = {"tags": 1, "produces": 6, "consumes": 7, "schemes": 10}
    assert {key: texts(put, number) for key, number in keys.items()} == {key: shown[key] for key in keys}
    assert (texts(put, 3), texts(put, 5)) == ([shown["description"]], [shown["operationId"]])
    body, dry_run, manager = [one for at, one in fields(put) if at == 8][:3]
    assert texts(only(body, 1, 1), 2) == ["body"]
    assert texts(only(body, 1, 1, 5), 1) == ["#/definitions/io.k8s.api.core.v1.Namespace"]
    assert texts(only(dry_run, 1, 2, 3), 3) == [shown["parameters"][1]["description"]]
    assert texts(only(manager, 2), 1) == [shown["parameters"][2]["$ref"]]
    created = named(only(put, 9), 1, "201")
    assert texts(only(created, 1, 2, 1), 1) == ["#/definitions/io.k8s.api.core.v1.Namespace"]


def test_the_protobuf_form_holds_what_operations_share(openapi: OpenApi) -> None:
    document = get(openapi, "/openapi/v2", MEDIA_TYPE)
    tree = json.loads(get(openapi, "/openapi/v2"))
    assert [only(one, 1).decode() for _, one in fields(only(document, 10))] == list(tree["parameters"])
    assert texts(only(named(only(document, 10), 1, "namespace-vgWSWtn3"), 2, 4), 4) == ["namespace"]
    key = only(named(only(document, 13), 1, "BearerToken"), 2)
    assert [texts(key, number) for number in (1, 2, 3)] == [["apiKey"], ["authorization"], ["header"]]
    assert texts(only(document, 12, 1), 1) == ["BearerToken"]


def test_the_protobuf_form_has_every_method(openapi: OpenApi) -> None:
    document = get(openapi, "/openapi/v2", MEDIA_TYPE)
    item = named(only(document, 8), 2, "/api/v1/nodes/{name}/proxy")
    assert [number for number, _ in fields(item)][:7] == [2, 3, 4, 5, 6, 7, 8]


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message, read independently of the code under test."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            varint()
            continue
        if tag & 7 == 1:
            at += 8
            continue
        assert tag & 7 == 2
        size = varint()
        yield tag >> 3, data[at : at + size]
        at += size


V2, V2_ANSWER = MEDIA_TYPE, CONTENT_TYPE
V3, V3_ANSWER = openapi_protobuf_v3.MEDIA_TYPE, openapi_protobuf_v3.CONTENT_TYPE
JSON = "application/json"
FORMS = {
    "nothing is asked for": ("v3/version", "", JSON),
    "anything": ("v3/version", "*/*", JSON),
    "anything of the kind": ("v2", "application/*", JSON),
    "protobuf": ("v3/version", V3, V3_ANSWER),
    "protobuf as answers name it": ("v3/version", V3_ANSWER, V3_ANSWER),
    "protobuf of the second version": ("v2", V2_ANSWER, V2_ANSWER),
    "the other version's protobuf": ("v2", V3, None),
    "protobuf of objects": ("v3/version", "application/vnd.kubernetes.protobuf", None),
    "a page": ("v2", "text/html", None),
    "protobuf rather than JSON": ("v3/version", f"{JSON};q=0.5, {V3}", V3_ANSWER),
    "a page rather than JSON": ("v2", f"text/html, {JSON};q=0.2", JSON),
}


@pytest.mark.parametrize(("document", "accept", "expected"), FORMS.values(), ids=FORMS.keys())
def test_the_form_is_what_the_client_wants_most(
    openapi: OpenApi, document: str, accept: str, expected: str | None
) -> None:
    response = openapi.handle(Request("GET", f"/openapi/{document}", {}, ANONYMOUS, accept=accept))
    assert response is not None
    if expected is None:
        assert (response.code, response.body, response.content_type) == (406, b"", "")
    else:
        assert (response.code, response.content_type) == (200, expected)
        assert (response.body[:1] == b"{") == (expected == JSON)


def test_the_protobuf_form_of_version_3(openapi: OpenApi) -> None:
    document = get(openapi, "/openapi/v3/api/v1", V3)
    tree = json.loads(get(openapi, "/openapi/v3/api/v1"))
    paths, schemas = only(document, 4), only(document, 5, 1)
    assert [only(one, 1).decode() for _, one in fields(paths)] == list(tree["paths"])
    assert [only(one, 1).decode() for _, one in fields(schemas)] == list(tree["components"]["schemas"])
    put, shown = (
        only(named(paths, 1, "/api/v1/namespaces/{name}"), 5),
        tree["paths"]["/api/v1/namespaces/{name}"]["put"],
    )
    assert (texts(put, 1), texts(put, 3), texts(put, 5)) == (
        ["core_v1"],
        [shown["description"]],
        [shown["operationId"]],
    )
    assert [texts(only(one, 1), 1) for at, one in fields(put) if at == 6] == [
        [one["name"]] for one in shown["parameters"]
    ]
    assert texts(only(named(only(put, 7, 1, 2), 1, "*/*"), 1, 2), 1) == [
        "#/components/schemas/io.k8s.api.core.v1.Namespace"
    ]
    assert [only(one, 1).decode() for at, one in fields(only(put, 8)) if at == 2] == list(shown["responses"])


def test_schemas_of_version_3_as_protobuf(openapi: OpenApi) -> None:
    schemas = only(get(openapi, "/openapi/v3/api/v1", V3), 5, 1)
    port = only(named(schemas, 1, "io.k8s.api.core.v1.ContainerPort"), 1)
    protocol = only(named(only(port, 31), 1, "protocol"), 1)
    assert texts(port, 23) == ["containerPort"]
    assert texts(only(protocol, 33), 3) == ["TCP"]
    assert [texts(one, 2) for at, one in fields(protocol) if at == 24] == [['"SCTP"'], ['"TCP"'], ['"UDP"']]
    metadata = only(named(only(named(schemas, 1, "io.k8s.api.core.v1.Pod"), 1, 31), 1, "metadata"), 1)
    assert texts(only(metadata, 26, 2), 1) == ["#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]


WRITTEN = {
    "an integer": ({"minLength": 300}, b"\x80\x01\xac\x02"),
    "a float": ({"minimum": 1}, b"\x69" + struct.pack("<d", 1.0)),
    "no items": ({"uniqueItems": False}, b""),
    "a default of false": ({"default": False}, b"\x8a\x02\x02\x10\x00"),
    "a default of zero": ({"default": 0}, b"\x8a\x02\x09\x09" + bytes(8)),
    "a default map": ({"default": {}}, b"\x8a\x02\x00"),
    "any further properties": ({"additionalProperties": True}, b"\x82\x02\x02\x10\x01"),
    "what must not be": ({"not": {"type": "a"}}, b"\xea\x01\x04\xca\x01\x01a"),
}


@pytest.mark.parametrize(("schema", "expected"), WRITTEN.values(), ids=WRITTEN.keys())
def test_members_of_schemas_that_only_custom_resources_have(schema: dict[str, Any], expected: bytes) -> None:
    parts = {"openapi": "", "info": {"title": "", "version": ""}, "paths": {}}
    data = openapi_protobuf_v3.document({**parts, "components": {"schemas": {"a": schema}}})
    assert data.endswith(expected)
    assert only(named(only(data, 5, 1), 1, "a"), 1) == expected


def test_fields_have_their_published_texts(openapi: OpenApi) -> None:
    schemas = json.loads(get(openapi, "/openapi/v3/apis/apps/v1"))["components"]["schemas"]
    container = schemas["io.k8s.api.core.v1.Container"]
    assert container["properties"]["image"]["description"].startswith("Container image name.")
    assert container["description"].startswith("A single application container")


def test_kind_and_version_are_any_text(openapi: OpenApi) -> None:
    schemas = json.loads(get(openapi, "/openapi/v3/apis/apps/v1"))["components"]["schemas"]
    assert "enum" not in schemas["io.k8s.api.apps.v1.Deployment"]["properties"]["kind"]


def test_texts_need_nothing_but_the_package() -> None:
    """What the texts were generated from is not installed where users are."""
    program = """
import sys
sys.modules["kubernetes_validate"] = None
from bayplan.api.schema import definitions
from bayplan.apiserver.openapi.texts import documented_definitions
found = documented_definitions()
assert found.keys() == definitions().keys()
print(found["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["paused"]["description"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "Indicates that the deployment is paused.\n"


def test_every_field_has_a_text_in_both_documents(openapi: OpenApi) -> None:
    third = json.loads(get(openapi, "/openapi/v3/apis/apps/v1"))["components"]["schemas"]
    second = json.loads(get(openapi, "/openapi/v2"))["definitions"]
    for schemas in (third, second):
        fields = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]
        assert [name for name, field in fields.items() if not field.get("description")] == []
