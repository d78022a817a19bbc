"""How clients in Go ask: what they accept, send without saying what it is, and expect of every new namespace.

Conformance: Discovery, AggregatedDiscovery, server version, FieldValidation, Servers with support for Table transformation, and what all tests need before
they start.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from bayplan.api import protobuf
from bayplan.api.codec import decode
from bayplan.api.schema import definition_of
from bayplan.api.types import authorization_v1, meta_v1
from tests.integration.conformance.requests import Object, Requests
from tests.integration.conformance.test_discovery import AGGREGATED, RESOURCES
from tests.integration.conformance.workloads import NODES, Space, Workloads, is_ready

PREFERRED = f"{protobuf.MEDIA_TYPE}, */*"
"""What typed clients accept that were told nothing but the type of their bodies."""
AGGREGATED_FIRST = f"{AGGREGATED},{AGGREGATED.replace('v=v2', 'v=v2beta1')},application/json"
UNIFIED = {
    "APIGroupList": meta_v1.APIGroupList,
    "APIGroup": meta_v1.APIGroup,
    "APIResourceList": meta_v1.APIResourceList,
    "Status": meta_v1.Status,
}
DEPLOYMENT = """{"apiVersion": "apps/v1", "kind": "Deployment",
"metadata": {"name": "ferry", %s"labels": {"app": "ferry"}},
"spec": {%s"selector": {"matchLabels": {"app": "ferry"}}, "template": {"metadata": {"labels": {"app": "ferry"}},
"spec": {"containers": [{"name": "main", "image": "ferry:1"}]}}}}"""


async def ask(
    api: Requests, method: str, path: str, accept: str, body: bytes | None = None, sent: str = "", **query: str
) -> tuple[int, str, bytes]:
    """Status, type and body of an answer; a body is sent without its type, unless it is given."""
    headers = {**api.headers, "Accept": accept, **({"Content-Type": sent} if sent else {})}
    async with api.server.session.request(
        method, api.server.url + path, data=body, headers=headers, params=query, skip_auto_headers=("Content-Type",)
    ) as answer:
        return answer.status, answer.content_type, await answer.read()


async def discovered(api: Requests, path: str, kind: str) -> Object:
    """A document of discovery in protobuf."""
    status, type_, body = await ask(api, "GET", path, PREFERRED)
    assert (status, type_) == (200, protobuf.MEDIA_TYPE)
    version, name, message = protobuf.unwrap(body)
    assert (version, name) == ("v1", kind)
    return protobuf.to_tree(definition_of(UNIFIED[kind]), message)


def test_every_group_has_a_preferred_version_that_it_has(workloads: Workloads) -> None:
    """Discovery should validate PreferredVersion for each APIGroup."""

    async def scenario(space: Space) -> None:
        groups = (await discovered(space.api, "/apis/", "APIGroupList"))["groups"]
        assert groups
        for group in groups:
            found = await discovered(space.api, f"/apis/{group['name']}/", "APIGroup")
            versions = [one["groupVersion"] for one in found["versions"]]
            assert found["preferredVersion"]["groupVersion"] in versions

    workloads.run(scenario)


def test_every_version_lists_its_resources(workloads: Workloads) -> None:
    """Discovery should locate the groupVersion and a resource within each APIGroup."""

    async def scenario(space: Space) -> None:
        wanted = [(f"/apis/{one.rpartition('/')[0]}", one.rpartition("/")[2]) for one in RESOURCES]
        for path, resource in [*wanted, ("/api/v1", "namespaces")]:
            found = await discovered(space.api, path, "APIResourceList")
            assert found["groupVersion"] == re.sub("^/apis?/", "", path)
            assert resource in [one["name"] for one in found["resources"]]

    workloads.run(scenario)


@pytest.mark.parametrize("accept", [AGGREGATED, AGGREGATED_FIRST], ids=["alone", "first of several"])
def test_all_resources_come_in_one_document(workloads: Workloads, accept: str) -> None:
    """AggregatedDiscovery should support raw aggregated discovery endpoint Accept headers; ... aggregated discovery interface."""

    async def scenario(space: Space) -> None:
        found = set()
        for path in ("/apis", "/api"):
            status, type_, body = await ask(space.api, "GET", path, accept)
            assert (status, type_) == (200, "application/json")
            for group in json.loads(body)["items"]:
                for version in group["versions"]:
                    prefix = f"{group['metadata'].get('name', '')}/{version['version']}"
                    found |= {f"{prefix}/{one['resource']}" for one in version["resources"]}
        assert {*RESOURCES, "/v1/namespaces"} <= found

    workloads.run(scenario)


def test_the_version_is_told_to_whoever_prefers_protobuf(workloads: Workloads) -> None:
    """server version should find the server version."""

    async def scenario(space: Space) -> None:
        status, type_, body = await ask(space.api, "GET", "/version", PREFERRED)
        assert (status, type_) == (200, "application/json")
        version = json.loads(body)
        assert re.match("[1-9]", version["major"])
        assert re.match("[0-9]+", re.sub("[^0-9]+", "", version["minor"]))

    workloads.run(scenario)


@pytest.mark.parametrize(
    ("metadata", "spec", "problem"),
    [
        ("", '"hull": 1, "replicas": 2, "replicas": 3, ', 'unknown field "spec.hull", duplicate field "spec.replicas"'),
        ('"hull": 1, ', "", 'unknown field "metadata.hull"'),
    ],
    ids=["unknown and duplicate fields", "unknown metadata"],
)
def test_a_body_whose_type_is_not_told_is_json_and_read_strictly(
    workloads: Workloads, metadata: str, spec: str, problem: str
) -> None:
    """FieldValidation should detect unknown and duplicate fields of a typed object; ... unknown metadata fields of a typed object."""

    async def scenario(space: Space) -> None:
        query = {"fieldManager": "trial", "fieldValidation": "Strict"}
        body = (DEPLOYMENT % (metadata, spec)).encode()
        status, type_, answer = await ask(space.api, "POST", space.apps("deployments"), PREFERRED, body, **query)
        assert (status, type_) == (400, protobuf.MEDIA_TYPE)
        message: Any = protobuf.to_tree(definition_of(meta_v1.Status), protobuf.unwrap(answer)[2])["message"]
        assert f"strict decoding error: {problem}" in message
        good = (DEPLOYMENT % ("", "")).encode()
        assert (await ask(space.api, "POST", space.apps("deployments"), PREFERRED, good, **query))[0] == 201

    workloads.run(scenario)


def test_a_review_is_no_table(workloads: Workloads) -> None:
    """Servers with support for Table transformation should return a 406 for a backend which does not implement metadata."""

    async def scenario(space: Space) -> None:
        asked = {"spec": {"resourceAttributes": {"namespace": space.name, "verb": "get", "resource": "pods"}}}
        review = decode(authorization_v1.SelfSubjectAccessReview, json.dumps(asked).encode())
        message = protobuf.message_of(review)
        body = protobuf.envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", message)
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        status, _, answer = await ask(space.api, "POST", path, table, body, protobuf.MEDIA_TYPE)
        assert (status, json.loads(answer)["reason"], json.loads(answer)["code"]) == (406, "NotAcceptable", 406)

    workloads.run(scenario)


def test_objects_lists_watches_and_refusals_come_in_the_preferred_form(workloads: Workloads) -> None:
    async def scenario(space: Space) -> None:
        path = space.core("configmaps")
        created = await space.api.create(path, {"metadata": {"name": "log"}})
        for where, code in ((path, 200), (f"{path}/log", 200), (f"{path}/nothing", 404)):
            status, type_, _ = await ask(space.api, "GET", where, PREFERRED)
            assert (status, type_) == (code, protobuf.MEDIA_TYPE)
        headers = {**space.api.headers, "Accept": PREFERRED}
        query = {"watch": "true", "resourceVersion": created["metadata"]["resourceVersion"], "timeoutSeconds": "1"}
        session = space.api.server.session
        async with session.get(space.api.server.url + path, headers=headers, params=query) as answer:
            assert answer.headers["Content-Type"] == f"{protobuf.MEDIA_TYPE};stream=watch"
        options = protobuf.message_of(meta_v1.DeleteOptions())
        for where, version in ((f"{path}/log", "v1"), (space.apps("deployments"), "apps/v1")):
            body = protobuf.envelope(version, "DeleteOptions", options)
            status, type_, _ = await ask(space.api, "DELETE", where, PREFERRED, body, protobuf.MEDIA_TYPE)
            assert (status, type_) == (200, protobuf.MEDIA_TYPE)

    workloads.run(scenario)


def test_a_new_namespace_is_furnished_and_nodes_are_there(workloads: Workloads) -> None:
    async def scenario(space: Space) -> None:
        api, label = space.api, {"e2e-run": space.name, "e2e-framework": "trial"}
        created = await api.create("/api/v1/namespaces", {"metadata": {"generateName": "trial-", "labels": label}})
        name = created["metadata"]["name"]
        stream = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        for resource, wanted in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
            path = f"/api/v1/namespaces/{name}/{resource}"
            async with api.watch(path, fieldSelector=f"metadata.name={wanted}", **stream) as watch:
                while (event := await watch.next())[0] == "BOOKMARK":
                    assert event[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
                assert (event[0], event[1]["metadata"]["name"]) == ("ADDED", wanted)
        nodes = (await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false", resourceVersion="0"))["items"]
        assert [is_ready(one) for one in nodes] == [True] * NODES
        await api.delete(f"/api/v1/namespaces/{name}")
        await space.gone(f"/api/v1/namespaces/{name}")

    workloads.run(scenario)
