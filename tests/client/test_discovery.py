"""Kinds that no table knows are found at the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.client import Client
from bayplan.client.discovery import find_kind
from bayplan.client.in_process import InProcessTransport
from bayplan.client.transport import RawWatch
from tests.apiserver.custom_resources.things import DEFINITIONS, definition, path, thing, version
from tests.client.doors import HTTP, IN_PROCESS, Door, door


async def served(client: Client) -> None:
    """Define things, and wait until they are served."""
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    tree = definition(version(subresources={"status": {}, "scale": scale}), namespaced=False)
    await client.raw("POST", DEFINITIONS, {}, json.dumps(tree).encode())
    while True:
        try:
            await client.raw("GET", path(namespace=""))
        except ApiError:
            await asyncio.sleep(0.01)
        else:
            return


@pytest.mark.parametrize("transport", [HTTP, IN_PROCESS])
def test_a_kind_is_found_with_its_subresources(transport: str) -> None:
    async def case(opened: Door) -> None:
        client = opened.client
        await served(client)
        found = await find_kind(client, "example.com/v1", "Thing")
        assert found is not None
        assert (found.group, found.version, found.plural, found.namespaced) == ("example.com", "v1", "things", False)
        assert [one.name for one in found.subresources] == ["status", "scale"]
        assert found.list_kind == "ThingList"
        assert client.kinds.of_kind("example.com/v1", "Thing") is found
        assert DEFAULT_KINDS.of_kind("example.com/v1", "Thing") is None
        await client.raw("POST", path(namespace=""), {}, json.dumps(thing(spec={"a": "b"})).encode())
        obj = await client.get(found.type, "x")
        assert (obj.metadata.name, obj.content) == ("x", {"spec": {"a": "b"}})
        (listed,) = (await client.list(found.type)).items
        assert listed.content == obj.content

    run(transport, case)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("example.com/v1", "Thing"), ("example.com/v2", "Thing"), ("v1", "Thing"), ("apps/v1", "Thing")],
)
def test_a_kind_that_is_not_served_is_not_found(api_version: str, kind: str) -> None:
    async def case(opened: Door) -> None:
        assert await find_kind(opened.client, api_version, kind) is None

    run(IN_PROCESS, case)


def test_subresources_are_no_kinds_of_their_own() -> None:
    async def case(opened: Door) -> None:
        await served(opened.client)
        assert await find_kind(opened.client, "example.com/v1", "Scale") is None

    run(IN_PROCESS, case)


class Refusal:
    """A door that lets nobody in."""

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        return 403, b'{"kind":"Status","status":"Failure","message":"not you","reason":"Forbidden","code":403}'

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str]) -> tuple[int, bytes, RawWatch | None]:
        return 403, b"", None


def test_other_errors_are_passed_on() -> None:
    with pytest.raises(ApiError, match="not you"):
        asyncio.run(find_kind(Client(InProcessTransport(Refusal())), "example.com/v1", "Thing"))


def run(transport: str, case: Callable[[Door], Awaitable[None]]) -> None:
    async def inner() -> None:
        async with asyncio.timeout(30), door(transport) as opened:
            await case(opened)

    asyncio.run(inner())
