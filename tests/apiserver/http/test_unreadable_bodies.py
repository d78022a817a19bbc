"""Bodies that are no objects, and patches that cannot be read or spoil the object."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.apiserver.requests import Request, User
from tests.apiserver.serving import ADMIN, client_of, opened
from tests.apiserver.writes.test_status_patches import ready_pod

MAPS = "/api/v1/namespaces/default/configmaps"
JSON, YAML = "application/json", "application/yaml"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
OPERATIONS, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
HEAD = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
UNREADABLE = "couldn't get version/kind; json parse error: "
MAP = "map[string]interface {}"


def answered(method: str, path: str, text: bytes, media_type: str, **query: str) -> tuple[int, dict[str, Any]]:
    """Code and body of the answer to one request; there is a ConfigMap `c` with data."""

    async def run() -> tuple[int, dict[str, Any]]:
        async with opened() as api:
            made = b'{"metadata":{"name":"c"},"data":{"a":"b"}}'
            assert (await api.handle(Request("POST", MAPS, {}, ADMIN, made, JSON))).code == 201
            response = await api.handle(Request(method, path, query, ADMIN, text, media_type))
            found: dict[str, Any] = msgspec.json.decode(response.body)
            return response.code, found

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "media_type", "why"),
    [
        (b"[]", JSON, f"{UNREADABLE}json: cannot unmarshal array into Go value of type {HEAD} (5b5d)"),
        (b"1", JSON, f"{UNREADABLE}json: cannot unmarshal number into Go value of type {HEAD} (31)"),
        (b"{", JSON, f"{UNREADABLE}unexpected end of JSON input ({{)"),
        (b"", JSON, f"{UNREADABLE}unexpected end of JSON input (<empty>)"),
        (b"{} {}", JSON, f"{UNREADABLE}invalid character '{{' after top-level value ({{}} {{}})"),
        (
            b'{"kind":1}',
            JSON,
            f'{UNREADABLE}json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":1}})',
        ),
        (
            b'{"apiVersion":"a/b/c","kind":"ConfigMap"}',
            JSON,
            'unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c","kind":" ...)',
        ),
        (b"{", YAML, "yaml: line 1: did not find expected node content ({)"),
        (b"- a", YAML, f"{UNREADABLE}json: cannot unmarshal array into Go value of type {HEAD} (2d2061)"),
        (b"", "application/vnd.kubernetes.protobuf", "empty data (<empty>)"),
        (
            b"a",
            "application/vnd.kubernetes.protobuf",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (61)",
        ),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", MAPS), ("PUT", f"{MAPS}/c")])
def test_what_is_no_object_is_told_with_its_beginning(
    method: str, path: str, text: bytes, media_type: str, why: str
) -> None:
    code, body = answered(method, path, text, media_type)
    said = f"the object provided is unrecognized (must be of type ConfigMap): {why}"
    assert (code, body["message"]) == (400, said)


def test_of_several_yaml_documents_the_first_counts() -> None:
    code, body = answered("POST", MAPS, b"metadata: {name: x}\n---\nmetadata: {name: y}\n", YAML)
    assert (code, body["metadata"]["name"]) == (201, "x")


def test_texts_that_are_no_unicode_are_replaced() -> None:
    code, body = answered("POST", MAPS, rb'{"metadata":{"name":"x"},"data":{"a":"\ud800"}}', JSON)
    assert (code, body["data"]) == (201, {"a": "\ufffd"})


def test_media_types_are_read_whatever_their_case() -> None:
    assert answered("POST", MAPS, b'{"metadata":{"name":"x"}}', "APPLICATION/JSON")[0] == 201


def test_a_replacement_without_a_name_is_undeterminable() -> None:
    code, body = answered("PUT", f"{MAPS}/c", b"{}", JSON)
    said = "the name of the object (c based on URL) was undeterminable: name must be provided"
    assert (code, body["message"]) == (400, said)


@pytest.mark.parametrize(
    ("text", "media_type", "code", "message"),
    [
        (b"[]", MERGE, 400, f"error decoding patch: json: cannot unmarshal array into Go value of type {MAP}"),
        (b"null", MERGE, 400, "Invalid JSON Patch"),
        (b"nul", MERGE, 400, "error decoding patch: invalid character ' ' in literal null (expecting 'l')"),
        (b"[]", STRATEGIC, 400, f"json: cannot unmarshal array into Go value of type {MAP}"),
        (b"{", STRATEGIC, 400, "unexpected end of JSON input"),
        (
            b"{}",
            OPERATIONS,
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            b"[1]",
            OPERATIONS,
            400,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            b'[{"op":1}]',
            OPERATIONS,
            400,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (b'\t{"kind":"ConfigMap"}', APPLY, 400, "error decoding YAML: error converting YAML to JSON: yaml: "),
        (b'{"kind":1,"apiVersion":2}', APPLY, 400, "invalid object type: /, Kind="),
        (b'{"kind":"ConfigMap","apiVersion":"a/b/c"}', APPLY, 400, "invalid object type: /, Kind="),
    ],
)
def test_patches_that_cannot_be_read(text: bytes, media_type: str, code: int, message: str) -> None:
    found, body = answered(
        "PATCH", f"{MAPS}/c", text, media_type, **({"fieldManager": "m"} if media_type == APPLY else {})
    )
    assert found == code
    assert body["message"] == message or (message.endswith("yaml: ") and body["message"].startswith(message))


@pytest.mark.parametrize(
    ("text", "media_type", "parts"),
    [
        (
            b'{"data":{"a":1}}',
            MERGE,
            (
                ' "" is invalid: patch: Invalid value: "{\\"apiVersion\\":\\"v1\\",\\"data\\":{\\"a\\":1},\\"kind\\":',
                "ConfigMap.data of type string",
            ),
        ),
        (
            b'{"data":{"a":1}}',
            STRATEGIC,
            (' "" is invalid: patch: Invalid value: "map[data:map[a:1]]": cannot convert int64 to string',),
        ),
        (
            b'[{"op":"replace","path":"/kind","value":"Foo"}]',
            OPERATIONS,
            ('no kind "Foo" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',),
        ),
        (b'{"kind":"Pod"}', MERGE, ("converting (v1.Pod) to (core.ConfigMap): unknown conversion",)),
        (b'{"apiVersion":"a/b/c"}', MERGE, ('": unexpected GroupVersion string: a/b/c',)),
        (b'{"kind":{}}', MERGE, ("json: cannot unmarshal object into Go struct field .kind of type string",)),
    ],
)
def test_what_a_patch_spoils_is_shown(text: bytes, media_type: str, parts: tuple[str, ...]) -> None:
    code, body = answered("PATCH", f"{MAPS}/c", text, media_type)
    assert code == 422
    for part in parts:
        assert part in body["message"]


def test_a_strategic_patch_does_not_change_the_kind() -> None:
    code, body = answered("PATCH", f"{MAPS}/c", b'{"kind":"Foo","apiVersion":"x/y"}', STRATEGIC)
    assert (code, body["kind"], body["apiVersion"]) == (200, "ConfigMap", "v1")


@pytest.mark.parametrize("given", ["e", "-1", " 1"])
def test_revisions_that_are_no_numbers_break_the_request(given: str) -> None:
    said = f'strconv.ParseUint: parsing "{given}": invalid syntax'
    text = msgspec.json.encode({"metadata": {"name": "c", "resourceVersion": given}})
    for method, media_type in (("PUT", JSON), ("PATCH", MERGE)):
        code, body = answered(method, f"{MAPS}/c", text, media_type)
        assert (code, body["message"]) == (500, said)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "resourceVersion": given}}
    code, body = answered("PATCH", f"{MAPS}/new", msgspec.json.encode(applied), APPLY, fieldManager="m")
    assert (code, body["message"]) == (500, said)
    code, body = answered("GET", f"{MAPS}/c", b"", "", resourceVersion=given)
    assert (code, body["message"]) == (500, f'resourceVersion: Invalid value: "{given}": {said}')
    assert answered("PUT", f"{MAPS}/c", b'{"metadata":{"name":"c","resourceVersion":"00"}}', JSON)[0] == 200


@pytest.mark.parametrize(
    ("text", "media_type", "message"),
    [
        (b"[]", JSON, f"{UNREADABLE}json: cannot unmarshal array into Go value of type {HEAD}"),
        (b"   ", JSON, f"{UNREADABLE}unexpected end of JSON input"),
        (b"{", YAML, "yaml: line 1: did not find expected node content"),
        (b'{"apiVersion":"a/b/c"}', JSON, "unexpected GroupVersion string: a/b/c"),
        (
            b'{"kind":"Foo"}',
            JSON,
            'no kind "Foo" is registered for version "meta.k8s.io/v1" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"',
        ),
    ],
)
def test_options_of_a_deletion_that_cannot_be_read(text: bytes, media_type: str, message: str) -> None:
    code, body = answered("DELETE", f"{MAPS}/c", text, media_type)
    assert (code, body["message"]) == (400, message)


def test_a_body_makes_the_query_of_a_deletion_void() -> None:
    async def run() -> None:
        async with opened() as api:
            for name, body in (("one", b"{}"), ("two", b"")):
                made = b'{"metadata":{"name":"%b"}}' % name.encode()
                await api.handle(Request("POST", MAPS, {}, ADMIN, made, JSON))
                await api.handle(Request("DELETE", f"{MAPS}/{name}", {"dryRun": "All"}, ADMIN, body, JSON))
            left = await api.handle(Request("GET", MAPS, {}, ADMIN))
            items = msgspec.json.decode(left.body)["items"]
            assert [item["metadata"]["name"] for item in items if item["metadata"]["name"] in ("one", "two")] == ["two"]

    asyncio.run(run())


def test_priority_classes_of_the_system_stay() -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"
    code, body = answered("DELETE", path, b"", "")
    assert (code, body["reason"]) == (403, "Forbidden")
    assert body["message"].endswith("is forbidden: this is a system priority class and cannot be deleted")


def test_a_binding_without_a_target_is_refused() -> None:
    path = "/api/v1/namespaces/default/bindings"
    code, body = answered("POST", path, b'{"metadata":{"name":"p"},"target":{"kind":"Pod"}}', JSON)
    assert (code, body["message"]) == (
        500,
        '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]',
    )


def test_who_writes_the_time_of_a_deletion_owns_it() -> None:
    async def run() -> None:
        async with opened() as api:
            user: User = ADMIN
            made = b'{"metadata":{"name":"f","finalizers":["a.b/c"]}}'
            await api.handle(Request("POST", MAPS, {"fieldManager": "m"}, user, made, JSON))
            await api.handle(Request("DELETE", f"{MAPS}/f", {}, user))
            before = msgspec.json.decode((await api.handle(Request("GET", f"{MAPS}/f", {}, user))).body)
            change = b'{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}'
            done = await api.handle(Request("PATCH", f"{MAPS}/f", {"fieldManager": "m"}, user, change, MERGE))
            after = msgspec.json.decode(done.body)["metadata"]
            assert after["deletionTimestamp"] == before["metadata"]["deletionTimestamp"]
            assert "f:deletionTimestamp" in after["managedFields"][0]["fieldsV1"]["f:metadata"]

    asyncio.run(run())


@pytest.mark.parametrize("name", ["c", "new"])
def test_a_configuration_of_which_no_object_comes_is_refused(name: str) -> None:
    text = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%b"},"binaryData":{"z":"YQ==9"}}' % name.encode()
    code, body = answered("PATCH", f"{MAPS}/{name}", text, APPLY, fieldManager="m")
    said = f"failed to convert new object (/{name}; /v1, Kind=ConfigMap) to proper version: "
    why = "unable to convert unstructured object to /v1, Kind=ConfigMap: error decoding from json: illegal base64 data at input byte 4"
    assert (code, body["message"]) == (500, said + why)


def test_an_applied_quantity_is_read_by_the_converter() -> None:
    path = "/api/v1/namespaces/default/limitranges"
    limits = {"limits": [{"type": "Container", "max": {"cpu": "x"}}]}
    wanted = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": limits}
    code, body = answered("PATCH", f"{path}/l", msgspec.json.encode(wanted), APPLY, fieldManager="m")
    assert code == 500
    assert "Kind=LimitRange: quantities must match the regular expression" in body["message"]


EVENTS = "/api/v1/namespaces/default/events"
EVENT = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}
ABOUT = {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"}}


def test_an_applied_timestamp_is_read_by_the_converter() -> None:
    wanted = msgspec.json.encode({**EVENT, **ABOUT, "lastTimestamp": "Always"})
    code, body = answered("PATCH", f"{EVENTS}/e", wanted, APPLY, fieldManager="m")
    why = 'parsing time "Always" as "2006-01-02T15:04:05Z07:00": cannot parse "Always" as "2006"'
    assert code == 500
    assert body["message"].endswith(f"unable to convert unstructured object to /v1, Kind=Event: {why}")


def test_applied_timestamps_and_bytes_are_stored_as_others_are() -> None:
    wanted = msgspec.json.encode({**EVENT, **ABOUT, "lastTimestamp": "2026-01-02T04:04:05.9+01:00"})
    code, event = answered("PATCH", f"{EVENTS}/e", wanted, APPLY, fieldManager="m")
    assert (code, event["lastTimestamp"]) == (201, "2026-01-02T03:04:05Z")
    wanted = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"binaryData":{"z":"YW\\nJj"}}'
    code, body = answered("PATCH", f"{MAPS}/n", wanted, APPLY, fieldManager="m")
    assert (code, body["binaryData"]) == (201, {"z": "YWJj"})


def test_what_else_is_in_a_body_of_another_kind_is_not_told() -> None:
    code, body = answered("POST", MAPS, b'{"kind":"Pod","apiVersion":"v1","foo":1}', JSON, fieldValidation="Strict")
    assert code == 400
    assert body["message"].endswith("converting (v1.Pod) to (core.ConfigMap): unknown conversion")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"limit": "99999999999999999999"}, 'strconv.ParseInt: parsing "99999999999999999999": value out of range'),
        (
            {"continue": "garbage"},
            r"invalid continue token: continue key is not valid: invalid character '\u0081' looking for beginning of value",
        ),
    ],
)
def test_parameters_that_cannot_be_read(query: dict[str, str], message: str) -> None:
    code, body = answered("GET", MAPS, b"", "", **query)
    assert (code, body["message"]) == (400, message)


def test_a_binding_for_another_pod_of_the_name_is_a_conflict() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await ready_pod(client, "web")
            path = "/api/v1/namespaces/default/pods/web/binding"
            text = b'{"metadata":{"name":"web","uid":"x"},"target":{"name":"n"}}'
            refused = await api.handle(Request("POST", path, {}, ADMIN, text, JSON))
            assert refused.code == 409
            assert b"StorageError: invalid object, Code: 4, Key: /registry/pods/default/web, " in refused.body
            log = Request("GET", "/api/v1/namespaces/default/pods/web/log", {"sinceTime": "x"}, ADMIN)
            unread = await api.handle(log)
            assert unread.code == 400
            assert b'cannot parse \\"x\\" as \\"2006\\"' in unread.body

    asyncio.run(run())


def test_a_namespace_is_finalized_with_the_place_of_what_is_wrong() -> None:
    path = "/api/v1/namespaces/default/finalize"
    text = b'{"metadata":{"name":"default"},"spec":{"finalizers":["kubernetes","bad"]}}'
    code, body = answered("PUT", path, text, JSON)
    assert (code, body["details"]["causes"][0]["field"]) == (422, "spec.finalizers[1]")


def test_a_token_of_another_namespace_is_not_asked_for() -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"

    async def run() -> None:
        async with opened() as api:
            made = b'{"metadata":{"name":"default"}}'
            await api.handle(Request("POST", "/api/v1/namespaces/default/serviceaccounts", {}, ADMIN, made, JSON))
            refused = await api.handle(Request("POST", path, {}, ADMIN, b'{"metadata":{"namespace":"x"}}', JSON))
            assert refused.code == 400
            assert b"does not match the namespace sent on the request" in refused.body

    asyncio.run(run())


BROKEN = (b"", b',"b":}', b' "b":1}', b"} x", b',"b":"\xff}', b',"b":"\\x"}', b',"b":"\x01"}', b',"b":01}', b"}}")
"""What ends a document in the wrong way."""
TOO_LARGE = (b"9" * 5000, b"9" * 320, b"1e999", b"-1e400")


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize(
    ("method", "path", "media_type"),
    [
        ("POST", MAPS, JSON),
        ("DELETE", f"{MAPS}/c", JSON),
        ("POST", "/api/v1/namespaces/default/pods/c/eviction", JSON),
        ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON),
        *(("PATCH", f"{MAPS}/c", media_type) for media_type in (MERGE, STRATEGIC, OPERATIONS, APPLY)),
    ],
)
def test_what_is_no_json_is_told_before_numbers_that_are_too_large(
    method: str, path: str, media_type: str, broken: bytes
) -> None:
    async def run() -> None:
        async with opened() as api:
            made = b'{"metadata":{"name":"c"}}'
            assert (await api.handle(Request("POST", MAPS, {}, ADMIN, made, JSON))).code == 201
            for before in (b'{"x":', b'{"metadata":{"name":"a"},"gracePeriodSeconds":'):
                codes = set()
                for number in (b"1", *TOO_LARGE):
                    text = before + number + broken
                    response = await api.handle(Request(method, path, {"fieldManager": "m"}, ADMIN, text, media_type))
                    codes.add(response.code)
                    assert b"number 9" not in response.body
                assert codes in ({400}, {404}), codes

    asyncio.run(run())
