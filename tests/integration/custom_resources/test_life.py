"""Custom resources among the controllers of a live cluster: owners, namespaces, quotas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.testing.builders import metadata
from bayplan.testing.cluster import LiveCluster, running_cluster
from tests.integration.custom_resources.definitions import (
    DEFINITIONS,
    create,
    crontab,
    crontabs,
    is_gone,
    owner,
    path,
    read,
    served,
)

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await create(cluster.client, DEFINITIONS, crontabs())
            assert await cluster.eventually(lambda: served(cluster.client))
            await test(cluster)

    asyncio.run(run())


def test_what_a_custom_object_owns_goes_with_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        above = await create(client, path(), crontab("above"))
        middle = await create(client, path(), crontab("middle", ownerReferences=[owner(above)]))
        await create(client, MAPS, config_map("below", ownerReferences=[owner(middle)]))
        kept = await create(client, MAPS, config_map("kept"))
        await create(client, path(), crontab("of-a-map", ownerReferences=[owner(kept)]))
        await client.raw("DELETE", path("above"))
        assert await cluster.eventually(lambda: is_gone(client, f"{MAPS}/below"))
        assert await read(client, path("middle")) is None
        assert await read(client, path("of-a-map")) is not None
        await client.raw("DELETE", f"{MAPS}/kept")
        assert await cluster.eventually(lambda: is_gone(client, path("of-a-map")))

    live(scenario)


def test_an_owner_can_wait_for_custom_objects_or_let_them_go() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        first, second = [await create(client, MAPS, config_map(name)) for name in ("first", "second")]
        both = [owner(first, blockOwnerDeletion=True), owner(second)]
        await create(client, path(), crontab("shared", ownerReferences=both))
        waiting = [owner(first, blockOwnerDeletion=True)]
        await create(client, path(), crontab("held", ownerReferences=waiting, finalizers=["example.com/hold"]))
        await client.raw("DELETE", f"{MAPS}/first", {"propagationPolicy": "Foreground"})

        async def is_told() -> bool:
            held, shared = await read(client, path("held")), await read(client, path("shared"))
            assert held is not None
            assert shared is not None
            left = [one["name"] for one in shared["metadata"]["ownerReferences"]]
            return "deletionTimestamp" in held["metadata"] and left == ["second"]

        assert await cluster.eventually(is_told)
        assert await read(client, f"{MAPS}/first") is not None
        merge = "application/merge-patch+json"
        await client.raw("PATCH", path("held"), {}, b'{"metadata":{"finalizers":null}}', merge)
        assert await cluster.eventually(lambda: is_gone(client, f"{MAPS}/first"))
        await client.raw("DELETE", f"{MAPS}/second", {"propagationPolicy": "Orphan"})
        assert await cluster.eventually(lambda: is_gone(client, f"{MAPS}/second"))
        orphan = await read(client, path("shared"))
        assert orphan is not None
        assert "ownerReferences" not in orphan["metadata"]

    live(scenario)


def test_a_namespace_goes_with_its_custom_objects() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        await client.create(core_v1.Namespace(metadata=metadata("leaving")))
        await create(client, path(namespace="leaving"), crontab("quick"))
        await create(client, path(namespace="leaving"), crontab("slow", finalizers=["example.com/hold"]))
        await client.delete(core_v1.Namespace, "leaving")

        async def says_so() -> bool:
            found = await client.get(core_v1.Namespace, "leaving")
            texts = {one.type: one.message for one in found.status.conditions}
            return "crontabs.stable.example.com has 1 resource instances" in texts.get("NamespaceContentRemaining", "")

        assert await cluster.eventually(says_so)
        assert await read(client, path("quick", "leaving")) is None
        merge = "application/merge-patch+json"
        await client.raw("PATCH", path("slow", "leaving"), {}, b'{"metadata":{"finalizers":null}}', merge)
        assert await cluster.eventually(lambda: is_gone(client, "/api/v1/namespaces/leaving"))

    live(scenario)


def test_quotas_count_custom_objects() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        name = "count/crontabs.stable.example.com"
        await create(client, path(), crontab("before"))
        spec = core_v1.ResourceQuotaSpec(hard={name: "2"})
        await client.create(core_v1.ResourceQuota(metadata=metadata("few", namespace="default"), spec=spec))

        async def uses(number: str) -> bool:
            quota = await client.get(core_v1.ResourceQuota, "few", "default")
            return quota.status.used.get(name) == number

        assert await cluster.eventually(lambda: uses("1"))
        await create(client, path(), crontab("second"))
        with pytest.raises(
            ApiError, match=f"exceeded quota: few, requested: {name}=1, used: {name}=2, limited: {name}=2"
        ):
            await create(client, path(), crontab("third"))
        await client.raw("DELETE", path("before"))
        assert await cluster.eventually(lambda: uses("1"))

    live(scenario)


def test_what_the_objects_of_a_definition_owned_goes_with_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        first = await create(client, path(), crontab("first"))
        await create(client, MAPS, config_map("seen", ownerReferences=[owner(first)]))
        await client.raw("DELETE", path("first"))
        assert await cluster.eventually(lambda: is_gone(client, f"{MAPS}/seen"))  # the collector knows the kind
        above = await create(client, path(), crontab("above"))
        await create(client, MAPS, config_map("below", ownerReferences=[owner(above)]))
        await client.raw("DELETE", f"{DEFINITIONS}/crontabs.stable.example.com")
        assert await cluster.eventually(lambda: is_gone(client, f"{DEFINITIONS}/crontabs.stable.example.com"))
        assert await read(client, path()) is None
        assert await cluster.eventually(lambda: is_gone(client, f"{MAPS}/below"))
        await create(client, DEFINITIONS, crontabs())
        assert await cluster.eventually(lambda: served(client))
        listed = json.loads(await client.raw("GET", path()))
        assert listed["items"] == []

    live(scenario)
