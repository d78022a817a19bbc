"""Protobuf over HTTPS: single objects, lists, metadata only, errors, watches, and what has no such form."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from bayplan.api import protobuf
from bayplan.api.protobuf import wire
from tests.apiserver.serving import Served, served

PROTOBUF = protobuf.MEDIA_TYPE
PODS = "/api/v1/namespaces/default/pods"
CONFIG = "io.k8s.api.core.v1.ConfigMap"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def fetch(
    server: Served, method: str, path: str, accept: str = PROTOBUF, **options: Any
) -> tuple[int, str, bytes]:
    headers = {**server.headers(), "Accept": accept}
    async with server.session.request(method, server.url + path, headers=headers, **options) as answer:
        return answer.status, answer.headers.get("Content-Type", ""), await answer.read()


MAPS = "/api/v1/namespaces/default/configmaps"


def test_single_objects_lists_and_errors() -> None:
    async def run() -> None:
        async with served() as server:
            code, media_type, body = await fetch(server, "POST", MAPS, json=config_map("a", k="v"))
            assert (code, media_type) == (201, PROTOBUF)
            assert protobuf.unwrap(body)[:2] == ("v1", "ConfigMap")
            code, _, body = await fetch(server, "GET", f"{MAPS}/a", f"{PROTOBUF},application/json")
            tree = protobuf.to_tree(CONFIG, protobuf.unwrap(body)[2])
            assert (code, tree["data"], tree["metadata"]["name"]) == (200, {"k": "v"}, "a")
            code, _, body = await fetch(server, "GET", MAPS)
            api_version, kind, message = protobuf.unwrap(body)
            assert (code, api_version, kind) == (200, "v1", "ConfigMapList")
            items = protobuf.to_tree(f"{CONFIG}List", message)["items"]
            assert "a" in [item["metadata"]["name"] for item in items]
            code, media_type, body = await fetch(server, "GET", f"{MAPS}/missing")
            assert (code, media_type) == (404, PROTOBUF)
            status = protobuf.to_tree("io.k8s.apimachinery.pkg.apis.meta.v1.Status", protobuf.unwrap(body)[2])
            assert (status["reason"], status["code"], status["details"]["name"]) == ("NotFound", 404, "missing")

    asyncio.run(run())


def test_bodies_come_in_as_they_go_out() -> None:
    async def run() -> None:
        async with served() as server:
            _, _, body = await fetch(server, "POST", MAPS, json=config_map("a", k="v"))
            changed = body.replace(b"\x01k\x12\x01v", b"\x01k\x12\x01w")
            async with server.session.put(
                f"{server.url}{MAPS}/a", data=changed, headers={**server.headers(), "Content-Type": PROTOBUF}
            ) as answer:
                assert answer.status == 200
                assert (await answer.json())["data"] == {"k": "w"}
            options = protobuf.envelope(
                "v1", "DeleteOptions", protobuf.message_of_tree("v1", {"kind": "DeleteOptions", "dryRun": ["All"]})
            )
            async with server.session.delete(
                f"{server.url}{MAPS}/a", data=options, headers={**server.headers(), "Content-Type": PROTOBUF}
            ) as answer:
                assert answer.status == 200
            assert (await fetch(server, "GET", f"{MAPS}/a"))[0] == 200

    asyncio.run(run())


def test_metadata_only_and_scale() -> None:
    partial = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

    async def run() -> None:
        async with served() as server:
            await fetch(server, "POST", MAPS, json=config_map("a", k="v"))
            _, _, body = await fetch(server, "GET", f"{MAPS}/a", partial)
            api_version, kind, message = protobuf.unwrap(body)
            assert (api_version, kind) == ("meta.k8s.io/v1", "PartialObjectMetadata")
            assert [number for number, _ in wire.fields(message)] == [1]
            _, _, body = await fetch(server, "GET", MAPS, partial.replace("Metadata", "MetadataList"))
            assert protobuf.unwrap(body)[:2] == ("meta.k8s.io/v1", "PartialObjectMetadataList")
            controller = {
                "apiVersion": "v1",
                "kind": "ReplicationController",
                "metadata": {"name": "r"},
                "spec": {
                    "replicas": 2,
                    "selector": {"a": "b"},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            }
            path = "/api/v1/namespaces/default/replicationcontrollers"
            assert (await fetch(server, "POST", path, json=controller))[0] == 201
            _, _, body = await fetch(server, "GET", f"{path}/r/scale")
            scale = protobuf.to_tree("io.k8s.api.autoscaling.v1.Scale", protobuf.unwrap(body)[2])
            assert scale["spec"] == {"replicas": 2}

    asyncio.run(run())


def test_tables_have_no_protobuf_form() -> None:
    async def run() -> None:
        async with served() as server:
            accept = f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"
            for path in (MAPS, f"{MAPS}/nobody"):
                code, media_type, body = await fetch(server, "GET", path, accept)
                assert (code, media_type) == (406, "application/json")
                assert b"only the following media types are accepted: application/json, application/yaml, " in body
            code, media_type, body = await fetch(server, "GET", MAPS, f"{accept}, application/json")
            assert (code, media_type) == (200, "application/json")
            assert b'"kind":"ConfigMapList"' in body

    asyncio.run(run())


async def next_frame(answer: aiohttp.ClientResponse) -> tuple[str, str, bytes]:
    """Event type, kind and message of the next event of a watch."""
    size = int.from_bytes(await answer.content.readexactly(4), "big")
    event = dict(wire.fields(await answer.content.readexactly(size)))
    body = dict(wire.fields(bytes(event[2])))[1]
    _, kind, message = protobuf.unwrap(bytes(body))
    return bytes(event[1]).decode(), kind, message


@pytest.mark.parametrize("accept", [f"{PROTOBUF};stream=watch", f"{PROTOBUF},application/json"])
def test_watches_are_streams_of_frames(accept: str) -> None:
    async def run() -> None:
        async with served() as server:
            query = f"{server.url}{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            async with server.session.get(query, headers={**server.headers(), "Accept": accept}) as answer:
                assert answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
                event_type, kind, message = await next_frame(answer)
                assert (event_type, kind) == ("BOOKMARK", "ConfigMap")
                annotations = protobuf.to_tree(CONFIG, message)["metadata"]["annotations"]
                assert annotations == {"k8s.io/initial-events-end": "true"}
                await fetch(server, "POST", MAPS, json=config_map("a", k="v"))
                event_type, _, message = await next_frame(answer)
                assert (event_type, protobuf.to_tree(CONFIG, message)["data"]) == ("ADDED", {"k": "v"})
                await fetch(server, "DELETE", f"{MAPS}/a")
                assert (await next_frame(answer))[0] == "DELETED"

    asyncio.run(run())


def test_discovery_in_protobuf() -> None:
    aggregated = f"{PROTOBUF};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    async def run() -> None:
        async with served() as server:
            for path, kind in (("/api", "APIVersions"), ("/apis", "APIGroupList"), ("/api/v1", "APIResourceList")):
                code, media_type, body = await fetch(server, "GET", path)
                assert (code, media_type, protobuf.unwrap(body)[1]) == (200, PROTOBUF, kind)
            code, media_type, body = await fetch(server, "GET", "/apis", aggregated)
            assert (code, media_type) == (200, aggregated)
            api_version, kind, message = protobuf.unwrap(body)
            assert (api_version, kind) == ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList")
            groups = [bytes(value) for number, value in wire.fields(message) if number == 2]
            named = [dict(wire.fields(bytes(dict(wire.fields(group))[1])))[1] for group in groups]
            assert b"apps" in named
            apps = groups[named.index(b"apps")]
            version = dict(wire.fields(bytes(dict(wire.fields(apps))[2])))
            assert (version[1], version[3]) == (b"v1", b"Current")

    asyncio.run(run())
