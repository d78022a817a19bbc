"""Every kind as clients of the conformance tests talk about it: in protobuf, which they prefer to JSON."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from bayplan.api import protobuf
from bayplan.api.codec import decode
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.protobuf import wire
from bayplan.api.schema import definition_of
from tests.integration.conformance.requests import Requests, conformance
from tests.integration.conformance.test_every_kind import BODIES, kind_of_path


async def _send(api: Requests, method: str, path: str, body: bytes | None = None) -> bytes:
    headers = {**api.headers, "Accept": f"{protobuf.MEDIA_TYPE},application/json", "Content-Type": protobuf.MEDIA_TYPE}
    async with api.server.session.request(method, api.server.url + path, data=body, headers=headers) as answer:
        received = await answer.read()
        assert answer.status < 300, received
        assert answer.content_type == protobuf.MEDIA_TYPE
        return received


def _enveloped(kind: Kind, body: dict[str, Any]) -> bytes:
    assert kind.type is not None
    message = protobuf.message_of(decode(kind.type, json.dumps(body).encode()))
    return protobuf.envelope(kind.api_version, kind.kind, message)


def _tree(kind: Kind, body: bytes) -> dict[str, Any]:
    assert kind.type is not None
    api_version, name, message = protobuf.unwrap(body)
    assert (api_version, name) == (kind.api_version, kind.kind)
    return protobuf.to_tree(definition_of(kind.type), message)


@pytest.mark.parametrize("path", [path for path in BODIES if "/customresourcedefinitions" not in path])
def test_an_object_comes_back_as_it_was_and_writing_it_back_changes_nothing(path: str) -> None:
    async def scenario(api: Requests) -> None:
        kind = kind_of_path(path)
        assert kind.type is not None
        await api.namespace()
        created = _tree(kind, await _send(api, "POST", path, _enveloped(kind, BODIES[path])))
        own = f"{path}/{created['metadata']['name']}"
        if kind.kind in ("FlowSchema", "APIService"):  # the server writes into its status at once
            async with api.watch(path, fieldSelector=f"metadata.name={created['metadata']['name']}") as watch:
                while not (await watch.next())[1]["status"].get("conditions"):
                    continue
        current = await api.get(own)
        for claim in current.get("spec", {}).get("volumeClaimTemplates", ()):
            del claim["kind"], claim["apiVersion"]  # protobuf has types for whole objects only
        received = await _send(api, "GET", own)
        seen = decode(kind.type, json.dumps(_tree(kind, received)).encode())
        wanted = decode(kind.type, json.dumps(current).encode())
        seen.kind, seen.api_version = wanted.kind, wanted.api_version
        assert seen == wanted
        again = _tree(kind, await _send(api, "PUT", own, received))
        assert again["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
        options = {"kind": "DeleteOptions", "apiVersion": kind.api_version, "gracePeriodSeconds": 0}
        message = protobuf.message_of_tree("v1", {**options, "apiVersion": "v1"})
        await _send(api, "DELETE", own, protobuf.envelope(kind.api_version, "DeleteOptions", message))

    conformance(scenario)


async def _next_object(answer: aiohttp.ClientResponse) -> bytes:
    """The message of the object in the next event of a watch."""
    length = int.from_bytes(await answer.content.readexactly(4), "big")
    event: dict[int, Any] = dict(wire.fields(await answer.content.readexactly(length)))
    raw: dict[int, Any] = dict(wire.fields(event[2]))
    return protobuf.unwrap(raw[1])[2]


def test_writer_reader_and_watcher_get_the_same_bytes() -> None:
    """Watchers should observe add, update, and delete watch notifications on configmaps: managed fields are compared byte by byte."""

    async def scenario(api: Requests) -> None:
        kind = DEFAULT_KINDS.of_resource("", "v1", "configmaps")
        assert kind is not None
        path = f"{await api.namespace()}/configmaps"
        body = {"metadata": {"name": "log", "labels": {"watched": "yes"}, "creationTimestamp": None}}
        headers = {**api.headers, "Accept": protobuf.MEDIA_TYPE}
        query = {"watch": "1", "labelSelector": "watched in (yes)"}
        async with api.server.session.get(api.server.url + path, headers=headers, params=query) as watch:
            written = await _send(api, "POST", path, _enveloped(kind, body))
            for mutation in ("1", "2"):
                assert protobuf.unwrap(written)[2] == await _next_object(watch)
                assert written == await _send(api, "GET", f"{path}/log")
                changed = {**_tree(kind, written), "data": {"mutation": mutation}}
                written = await _send(api, "PUT", f"{path}/log", _enveloped(kind, changed))

    conformance(scenario)
