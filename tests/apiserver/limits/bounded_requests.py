"""Requests whose cost is bounded, and things to send: bodies as large as may be, definitions and what is of them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN
from tests.cpu_time import cpu_time_below

SECONDS = 4.0
ONE_BODY_SECONDS = 2.0
"""What one request may cost whose body is as large as bodies may be."""
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
JSON, YAML = "application/json", "application/yaml"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


async def ask(
    api: ApiServer, method: str, path: str, body: Any = b"", content_type: str = JSON, accept: str = "", **query: str
) -> tuple[int, dict[str, Any]]:
    """Status code and answer of a request, which costs less than the limit."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    with cpu_time_below(SECONDS):
        response = await api.handle(Request(method, path, query, ADMIN, data, content_type, accept))
    answer = response.whole_body()
    if response.watcher is not None:
        response.watcher.close()
    return response.code, json.loads(answer) if answer[:1] == b"{" else {}


async def ask_much(
    api: ApiServer, method: str, path: str, body: Any, content_type: str = JSON, **query: str
) -> tuple[int, dict[str, Any]]:
    """Status code and answer of one request with a body as large as bodies may be."""
    with cpu_time_below(ONE_BODY_SECONDS):
        return await ask(api, method, path, body, content_type, **query)


def as_many_as_fit(item: Callable[[int], Any], size: int = 3_100_000) -> Iterator[Any]:
    """Numbered items, as many as make up a number of bytes as JSON: a body holds 3 MiB."""
    for index in itertools.count():
        made = item(index)
        size -= len(msgspec.json.encode(made)) + 1
        if size < 0:
            return
        yield made


def definition(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A definition of things."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", **schema}},
    }
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


async def define(api: ApiServer, schema: Mapping[str, Any]) -> None:
    """Serve things of a schema."""
    assert (await ask(api, "POST", DEFINITIONS, definition(schema)))[0] == 201
    for _ in range(200):
        if (await ask(api, "GET", THINGS))[0] == 200:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("things are not served")


def thing(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, **fields}
