"""Tables and metadata of what is not kept: Scales, reviews, tokens, collections that go."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, opened

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REVIEW = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
TYPES = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"


def form(kind: str, version: str = "v1") -> str:
    return f"application/json;as={kind};g=meta.k8s.io;v={version}"


async def send(
    api: ApiServer, method: str, path: str, body: Any = None, accept: str = "", **query: str
) -> tuple[int, dict[str, Any]]:
    data = b"" if body is None else msgspec.json.encode(body)
    response = await api.handle(Request(method, path, query, ADMIN, data, "application/json", accept=accept))
    return response.code, msgspec.json.decode(response.body)


def answered(method: str, path: str, body: Any = None, accept: str = "", **query: str) -> tuple[int, dict[str, Any]]:
    """There is a deployment `d` with three replicas, and an account `default`."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}

    async def run() -> tuple[int, dict[str, Any]]:
        async with opened() as api:
            assert (await send(api, "POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}))[0] == 201
            assert (await send(api, "POST", ACCOUNTS, {"metadata": {"name": "default"}}))[0] == 201
            return await send(api, method, path, body, accept, **query)

    return asyncio.run(run())


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_scale_has_a_table(version: str) -> None:
    code, table = answered("GET", f"{DEPLOYMENTS}/d/scale", accept=form("Table", version))
    assert (code, table["kind"], table["apiVersion"]) == (200, "Table", f"meta.k8s.io/{version}")
    columns = [(one["name"], one["type"], one["format"]) for one in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string", ""),
        ("Desired", "integer", ""),
        ("Available", "integer", ""),
        ("Age", "string", ""),
    ]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["d", 3, 0]
    assert row["object"]["kind"] == "PartialObjectMetadata"


def test_the_row_of_a_scale_may_hold_it() -> None:
    accept = form("Table")
    _, table = answered("GET", f"{DEPLOYMENTS}/d/scale", accept=accept, includeObject="Object")
    assert (table["rows"][0]["object"]["kind"], table["rows"][0]["object"]["spec"]) == ("Scale", {"replicas": 3})
    _, table = answered("GET", f"{DEPLOYMENTS}/d/scale", accept=accept, includeObject="None")
    assert table["rows"][0]["object"] is None


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "message"),
    [
        ("POST", REVIEWS, REVIEW, "Table", TYPES),
        ("POST", f"{ACCOUNTS}/default/token", {}, "Table", TYPES),
        (
            "POST",
            REVIEWS,
            REVIEW,
            "PartialObjectMetadataList",
            "you requested PartialObjectMetadataList, but the requested object is not a list (*authorization.SelfSubjectAccessReview)",
        ),
        (
            "GET",
            f"{DEPLOYMENTS}/d/scale",
            None,
            "PartialObjectMetadataList",
            "you requested PartialObjectMetadataList, but the requested object is not a list (*autoscaling.Scale)",
        ),
        (
            "GET",
            f"{DEPLOYMENTS}/d",
            None,
            "PartialObjectMetadataList",
            "you requested PartialObjectMetadataList, but the requested object is not a list (*apps.Deployment)",
        ),
        (
            "DELETE",
            MAPS,
            None,
            "PartialObjectMetadata",
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        ),
        (
            "GET",
            DEPLOYMENTS,
            None,
            "PartialObjectMetadata",
            "you requested PartialObjectMetadata, but the requested object is a list (*apps.DeploymentList)",
        ),
    ],
)
def test_forms_that_there_are_not(method: str, path: str, body: Any, kind: str, message: str) -> None:
    code, refused = answered(method, path, body, form(kind))
    assert (code, refused["message"]) == (406, message)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", REVIEWS, REVIEW),
        ("POST", f"{ACCOUNTS}/default/token", {}),
        ("GET", f"{DEPLOYMENTS}/d/scale", None),
    ],
)
def test_metadata_alone(method: str, path: str, body: Any) -> None:
    _, found = answered(method, path, body, form("PartialObjectMetadata"))
    assert found.keys() == {"kind", "apiVersion", "metadata"}
    assert found["kind"] == "PartialObjectMetadata"


def test_the_metadata_of_nothing_are_null() -> None:
    code, found = answered("DELETE", MAPS, accept=form("PartialObjectMetadataList"))
    assert (code, found["items"]) == (200, None)


def test_the_table_of_what_is_not_kept_has_no_revision() -> None:
    code, table = answered("POST", MAPS, {"metadata": {"name": "c"}}, form("Table"), dryRun="All")
    assert (code, table["metadata"]) == (201, {})


@pytest.mark.parametrize("subresource", ["eviction", "binding", "log"])
def test_what_has_no_table_is_refused_before_it_is_looked_for(subresource: str) -> None:
    method, body = ("GET", None) if subresource == "log" else ("POST", {"metadata": {"name": "nosuch"}})
    path = f"/api/v1/namespaces/default/pods/nosuch/{subresource}"
    code, refused = answered(method, path, body, form("Table"))
    assert (code, refused["message"].partition(":")[0]) == (406, "only the following media types are accepted")
    assert answered(method, path, body, "application/json")[0] != 406
