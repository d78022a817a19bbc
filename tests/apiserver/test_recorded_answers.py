"""Answers that a kube-apiserver of 1.36 gives to requests that are out of the ordinary: one row each."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
import pytest

from bayplan.apiserver.requests import Request
from tests.apiserver.serving import ADMIN, opened

NAMED = "the server could not find the requested resource"
NOT_ALLOWED = "the server does not allow this method on the requested resource"
ONLY = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
ROUTED = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMS = f"{ROUTED}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
AGGREGATED = "as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/kube-public/events"


class Row(NamedTuple):
    """A request and what is answered. message: "" for an answer that is no Status."""

    method: str
    path: str
    code: int
    message: str = ""
    accept: str = "application/json"
    body: Any = None
    warnings: tuple[str, ...] = ()


def uid_conflict(uid: str) -> str:
    what = f"the UID in the precondition ({uid}) does not match the UID in record (<uid>)"
    return (
        f'Operation cannot be fulfilled on ConfigMap "a": {what}. The object might have been deleted and then recreated'
    )


def unknown(kind: str, version: str, api_version: str, scheme: str) -> str:
    what = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"'
    return f'{kind} in version "{version}" cannot be handled as a {kind}: {what}'


ROWS = [
    Row("GET", MAPS, 406, STREAMS, "application/*"),
    Row("GET", MAPS, 406, STREAMS, "text/html"),
    Row("GET", f"{MAPS}/a", 406, ROUTED, "application/*"),
    Row("GET", MAPS, 200, "", "application/*, */*"),
    Row("GET", "/api/v1", 406, ROUTED, "application/*"),
    Row("GET", "/apis/apps/v1", 406, ONLY, "application/json;as=Table;v=v1;g=meta.k8s.io"),
    Row("GET", "/apis/apps/v1", 200, "", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
    Row("GET", "/apis/apps", 406, ONLY, "application/xml"),
    Row("GET", "/apis/apps", 200, "", "application/*"),
    Row("GET", "/apis", 200, "", f"application/yaml;{AGGREGATED}"),
    Row("GET", "/api/v1", 406, ONLY, f"application/json;{AGGREGATED}"),
    Row(
        "GET", "/version", 406, "406: Not Acceptable\n\nAvailable representations: application/json", "application/xml"
    ),
    Row("POST", "/version", 405, NOT_ALLOWED),
    Row("POST", "/api", 405, NOT_ALLOWED),
    Row("POST", "/apis", 200),
    Row("DELETE", "/apis/apps", 200),
    Row("PUT", "/", 200),
    Row("GET", "/healthz/", 404),
    Row("GET", "/livez/", 404),
    Row("GET", "/api/v1/namespaces/default/bindings/x", 404, NAMED),
    Row("DELETE", "/apis/authentication.k8s.io/v1/tokenreviews/x", 404, NAMED),
    Row("GET", "/api/v1/componentstatuses/x", 404, 'componentstatus "x" not found'),
    Row("GET", "/api/v1/componentstatuses?limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    Row("DELETE", f"{MAPS}/a", 409, uid_conflict(""), body={"preconditions": {"uid": ""}}),
    Row("DELETE", f"{MAPS}/a", 409, uid_conflict("x"), body={"preconditions": {"uid": "x"}}),
    Row("DELETE", f"{MAPS}/a", 200, body={"preconditions": {}}),
    Row(
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        400,
        "the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)",
        body={"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "a"}},
    ),
    Row(
        "POST",
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        400,
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)",
        body={"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}},
    ),
    Row(
        "POST",
        EVENTS,
        400,
        "the API version in the data (v1) does not match the expected API version (events.k8s.io/v1)",
        body={"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "note": "n", "regarding": {}},
        warnings=('unknown field "note"', 'unknown field "regarding"'),
    ),
    Row(
        "POST",
        f"{EVENTS}?fieldValidation=Strict",
        400,
        'Event in version "v1" cannot be handled as a Event: strict decoding error: unknown field "note"',
        body={"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "note": "n"},
    ),
    Row(
        "POST",
        EVENTS,
        422,
        'Event "" is invalid: [involvedObject.namespace: Invalid value: "": does not match event.namespace, '
        "metadata.name: Required value: name or generateName is required, eventTime: Required value, "
        'type: Invalid value: "": has invalid value: ]',
        body={},
    ),
    Row(
        "POST",
        "/apis/networking.k8s.io/v1/ipaddresses",
        422,
        'IPAddress.networking.k8s.io "g-" is invalid: [metadata.generateName: Invalid value: "g-": must be a valid IP address, '
        '(e.g. 10.9.8.7 or 2001:db8::ffff), metadata.name: Invalid value: "g-": must be a valid IP address, '
        "(e.g. 10.9.8.7 or 2001:db8::ffff), spec.parentRef: Required value]",
        body={"metadata": {"generateName": "g-"}},
    ),
    Row("GET", "/apis/networking.k8s.io/v1/namespaces/./ingresses/x", 500, 'invalid key: "/ingress/./x"'),
    Row(
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        400,
        unknown("Deployment", "v9", "apps/v9", "pkg/api/legacyscheme/scheme.go:30"),
        body={"apiVersion": "apps/v9", "kind": "Deployment", "metadata": {"name": "a"}},
    ),
    Row(
        "POST",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        400,
        unknown("APIService", "v1", "v1", "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28"),
        body={"apiVersion": "v1", "kind": "APIService", "metadata": {"name": "a"}},
    ),
    Row(
        "PUT",
        "/apis/node.k8s.io/v1/runtimeclasses/a",
        201,
        body={"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "a"}, "handler": "h"},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.method} {row.path} {row.accept} {row.code}" for row in ROWS])
def test_the_answer_is_as_recorded(row: Row) -> None:
    async def run() -> tuple[int, bytes, str, tuple[str, ...]]:
        async with opened() as api:
            made = await api.handle(Request("POST", MAPS, {}, ADMIN, b'{"metadata":{"name":"a"}}', "application/json"))
            uid = msgspec.json.decode(made.whole_body())["metadata"]["uid"]
            path, _, query = row.path.partition("?")
            body = msgspec.json.encode(row.body) if row.body is not None else b""
            parameters = dict([query.split("=", 1)]) if query else {}
            request = Request(row.method, path, parameters, ADMIN, body, "application/json", accept=row.accept)
            response = await api.handle(request)
            return response.code, response.whole_body(), uid, tuple(response.warnings)

    code, body, uid, warnings = asyncio.run(run())
    assert code == row.code
    assert not row.warnings or warnings == row.warnings
    if row.message:
        assert msgspec.json.decode(body)["message"].replace(uid, "<uid>") == row.message


def test_deleting_a_job_that_is_not_there_warns_as_well() -> None:
    async def run() -> tuple[int, list[str]]:
        async with opened() as api:
            response = await api.handle(Request("DELETE", "/apis/batch/v1/namespaces/default/jobs/x", {}, ADMIN))
            return response.code, list(response.warnings)

    code, warnings = asyncio.run(run())
    assert code == 404
    assert warnings[0].startswith("child pods are preserved by default when jobs are deleted")
