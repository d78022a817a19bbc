"""Informers follow custom resources that come, change and go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.types import apiextensions_v1
from bayplan.client import Client
from bayplan.informers import InformerFactory
from bayplan.informers.custom_kinds import row_of
from tests.apiserver.custom_resources.things import DEFINITIONS, definition, path, thing, version
from tests.client.doors import IN_PROCESS, Door, door
from tests.informers.test_informer import factory_of, until

NAME = f"{DEFINITIONS}/things.example.com"


class Follower:
    """Writes down which kinds and objects there are."""

    def __init__(self, factory: InformerFactory) -> None:
        self.factory = factory
        self.seen: list[str] = []
        factory.custom_kinds.follow(self.added, lambda kind: self.seen.append(f"-{kind.api_version} {kind.kind}"))

    def added(self, kind: CustomKind) -> None:
        self.seen.append(f"+{kind.api_version} {kind.kind}")
        self.factory.informer(kind.type).on_change(
            add=lambda obj: self.seen.append(f"add {obj.metadata.name} {obj.content.get('spec')}"),
            delete=lambda obj: self.seen.append(f"delete {obj.metadata.name}"),
        )

    async def sees(self, *expected: str) -> None:
        """Wait until this is what has been seen, and nothing else since the last call."""
        await until(lambda: len(self.seen) >= len(expected))
        assert self.seen == list(expected)
        self.seen.clear()


def following(test: Callable[[Client, Follower], Awaitable[None]]) -> None:
    async def case(opened: Door) -> None:
        factory = factory_of(opened.client)
        follower = Follower(factory)
        factory.start()
        try:
            await test(opened.client, follower)
        finally:
            await factory.stop()

    async def inner() -> None:
        async with asyncio.timeout(30), door(IN_PROCESS) as opened:
            await case(opened)

    asyncio.run(inner())


async def post(client: Client, where: str, tree: dict[str, Any]) -> None:
    await client.raw("POST", where, {}, json.dumps(tree).encode())


async def patch(client: Client, where: str, tree: dict[str, Any]) -> None:
    await client.raw("PATCH", where, {}, json.dumps(tree).encode(), "application/merge-patch+json")


def test_kinds_and_their_objects_come_and_go() -> None:
    async def case(client: Client, follower: Follower) -> None:
        await post(client, DEFINITIONS, definition())
        await follower.sees("+example.com/v1 Thing")
        await post(client, path(), thing(spec={"a": "b"}))
        await follower.sees("add x {'a': 'b'}")
        assert client.kinds.of_kind("example.com/v1", "Thing") is not None
        late = Follower(follower.factory)
        await late.sees("+example.com/v1 Thing", "add x {'a': 'b'}")
        await client.raw("DELETE", NAME)
        await follower.sees("delete x", "-example.com/v1 Thing")
        assert client.kinds.of_kind("example.com/v1", "Thing") is None

    following(case)


def test_a_definition_counts_by_the_version_in_which_objects_are_kept() -> None:
    async def case(client: Client, follower: Follower) -> None:
        await post(client, DEFINITIONS, definition(version("v1"), version("v2", storage=False)))
        await follower.sees("+example.com/v1 Thing")
        await post(client, path(), thing())
        await follower.sees("add x {}")
        await patch(client, NAME, {"spec": {"versions": [version("v1", storage=False), version("v2")]}})
        await follower.sees("-example.com/v1 Thing", "+example.com/v2 Thing", "add x {}")
        await patch(client, NAME, {"spec": {"versions": [version("v1"), version("v2", storage=False, served=False)]}})
        await follower.sees("-example.com/v2 Thing", "+example.com/v1 Thing", "add x {}")

    following(case)


def test_changes_that_concern_nobody_who_follows_are_not_told() -> None:
    async def case(client: Client, follower: Follower) -> None:
        await post(client, DEFINITIONS, definition())
        await follower.sees("+example.com/v1 Thing")
        await patch(client, NAME, {"metadata": {"labels": {"a": "b"}}})
        await patch(client, NAME, {"spec": {"versions": [version(additionalPrinterColumns=[])]}})
        await post(client, DEFINITIONS, definition(kind="Other"))
        await follower.sees("+example.com/v1 Other")

    following(case)


def test_a_kind_of_which_nothing_is_served_any_more_is_gone() -> None:
    async def case(client: Client, follower: Follower) -> None:
        await post(client, DEFINITIONS, definition())
        await follower.sees("+example.com/v1 Thing")
        await patch(client, NAME, {"spec": {"versions": [version(served=False)]}})
        await follower.sees("-example.com/v1 Thing")

    following(case)


def test_what_the_server_has_of_its_own_is_no_custom_kind() -> None:
    async def case(client: Client, follower: Follower) -> None:
        group = "networking.k8s.io"
        ingress = client.kinds.of_kind(f"{group}/v1", "Ingress")
        for kind, plural in (("Ingress", "ingresses"), ("Widget", "widgets")):
            tree = definition(version("v1"), kind=kind, names={"plural": plural}, group=group)
            approved = {"api-approved.kubernetes.io": "https://example.com/1"}
            tree["metadata"] = {"name": f"{plural}.{group}", "annotations": approved}
            await post(client, DEFINITIONS, tree)
        await post(client, DEFINITIONS, definition())
        await follower.sees("+example.com/v1 Thing")
        assert client.kinds.of_kind(f"{group}/v1", "Ingress") is ingress

    following(case)


def row(*versions: dict[str, Any], established: str = "True") -> CustomKind | None:
    tree = definition(*versions)
    names = {**tree["spec"]["names"], "singular": "thing", "listKind": "ThingList"}
    condition = {"type": "Established", "status": established, "lastTransitionTime": None}
    tree["status"] = {"acceptedNames": names, "conditions": [condition], "storedVersions": ["v1"]}
    return row_of(from_tree(apiextensions_v1.CustomResourceDefinition, tree))


def test_a_kind_is_followed_as_it_is_served() -> None:
    found = row(version("v1", served=False), version("v2", storage=False), version("v3beta1", storage=False))
    assert found is not None
    assert found.version == "v2"
    assert found.storage_version == ""
    assert found.schema["x-kubernetes-preserve-unknown-fields"]
    assert row(version("v1", served=False)) is None
    assert row(version("v1"), established="False") is None
