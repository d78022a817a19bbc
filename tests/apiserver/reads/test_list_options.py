"""Continue tokens and list options that do not go together, as kube-apiserver reads and words them."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, opened

PATH = "/api/v1/namespaces/default/configmaps"


def token(**members: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")


async def ask(api: ApiServer, path: str = PATH, accept: str = "", **query: str) -> Response:
    return await api.handle(Request("GET", path, query, ADMIN, accept=accept))


async def create(api: ApiServer, kind: str, path: str, name: str, **members: Any) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **members}
    made = await api.handle(Request("POST", path, {}, ADMIN, json.dumps(body).encode(), "application/json"))
    assert made.code == 201, made.body


def message(response: Response) -> str:
    found: str = json.loads(response.body)["message"]
    return found


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"v": "v2", "rv": 1, "start": "a"}, "server does not recognize this encoded version v2"),
        ({"v": "meta.k8s.io/v1", "start": "a"}, "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ({"v": "meta.k8s.io/v1", "rv": 5}, "encoded start key empty (version meta.k8s.io/v1)"),
        ({"v": "meta.k8s.io/v1", "rv": 5, "start": "../secrets/a"}, "../secrets/a"),
        ({"v": "meta.k8s.io/v1", "rv": 5, "start": "a//b"}, "a//b"),
    ],
    ids=["another version", "no revision", "no key", "out of the collection", "not clean"],
)
def test_tokens_that_are_none(members: dict[str, Any], text: str) -> None:
    async def run() -> None:
        async with opened() as api:
            answer = await ask(api, **{"continue": token(**members)})
            assert answer.code == 400
            assert message(answer) == f"invalid continue token: continue key is not valid: {text}"

    asyncio.run(run())


def test_tokens_name_the_first_key_of_the_page() -> None:
    async def run() -> None:
        async with opened() as api:
            for name in ("a", "b", "c"):
                await create(api, "ConfigMap", PATH, name)
            first = json.loads((await ask(api, limit="1")).body)["metadata"]["continue"]
            held = json.loads(base64.urlsafe_b64decode(first + "=="))
            assert (held["v"], held["start"]) == ("meta.k8s.io/v1", "a\0")
            everywhere = json.loads((await ask(api, "/api/v1/configmaps", limit="1")).body)["metadata"]["continue"]
            assert json.loads(base64.urlsafe_b64decode(everywhere + "=="))["start"].count("/") == 1
            for start, expected in (("b", ["b", "c"]), ("b\0", ["c"]), ("/b", ["b", "c"])):
                made = token(v="meta.k8s.io/v1", rv=-1, start=start)
                listed = json.loads((await ask(api, **{"continue": made})).body)
                assert [item["metadata"]["name"] for item in listed["items"]] == expected
            future = await ask(api, **{"continue": token(v="meta.k8s.io/v1", rv=9_999, start="b")})
            assert (future.code, b"Too large resource version: 9999" in future.body) == (504, True)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"resourceVersionMatch": "Exact"}, ["resourceVersionMatch"]),
        ({"resourceVersionMatch": "x", "continue": "y"}, ["resourceVersionMatch"] * 3),
        ({"sendInitialEvents": ""}, ["sendInitialEvents"]),
        ({"watch": "1", "sendInitialEvents": "true"}, ["resourceVersionMatch"]),
        ({"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, ["resourceVersionMatch"] * 2),
        ({"watch": "1", "resourceVersionMatch": "NotOlderThan"}, ["resourceVersionMatch"]),
    ],
)
def test_options_that_do_not_go_together_are_all_named(query: dict[str, str], fields: list[str]) -> None:
    async def run() -> None:
        async with opened() as api:
            answer = await ask(api, **query)
            assert answer.code == 422
            assert [cause["field"] for cause in json.loads(answer.body)["details"]["causes"]] == fields

    asyncio.run(run())


def test_metadata_alone_is_without_what_conversion_adds() -> None:
    path = "/apis/apps/v1/namespaces/default/daemonsets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

    async def run() -> None:
        async with opened() as api:
            body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
            made = await api.handle(Request("POST", path, {}, ADMIN, json.dumps(body).encode(), "application/json"))
            assert "deprecated.daemonset.template.generation" in made.body.decode()
            partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            metadata = json.loads((await ask(api, f"{path}/d", partial)).body)["metadata"]
            assert "annotations" not in metadata

    asyncio.run(run())
