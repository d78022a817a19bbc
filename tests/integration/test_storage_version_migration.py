"""StorageVersionMigrations on a live server: one at a time, to the end, and only where the kind is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.optional_kinds import STORAGE_VERSION_MIGRATION, optional_kinds
from bayplan.api.types import core_v1, meta_v1, storagemigration_v1beta1
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.testing.builders import metadata
from bayplan.testing.cluster import LiveCluster, running_cluster

Migration = storagemigration_v1beta1.StorageVersionMigration
SERVED = replace(CLUSTER_API, runtime_config=(*CLUSTER_API.runtime_config, "storagemigration.k8s.io/v1beta1=true"))


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster(settings=ClusterSettings(api=SERVED)) as cluster:
            await test(cluster)

    asyncio.run(run())


def migration(name: str, resource: str, group: str = "") -> Migration:
    spec = storagemigration_v1beta1.StorageVersionMigrationSpec(
        resource=meta_v1.GroupResource(group=group, resource=resource)
    )
    return Migration(metadata=metadata(name), spec=spec)


async def conditions(cluster: LiveCluster, name: str) -> dict[str, tuple[str, str]]:
    found = await cluster.client.get(Migration, name)
    return {one.type: (one.status, one.reason) for one in found.status.conditions}


async def ended(cluster: LiveCluster, name: str, kind: str) -> bool:
    return set(await conditions(cluster, name)) == {kind}


def test_a_migration_runs_to_its_end_and_the_next_one_follows() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        settings = core_v1.ConfigMap(metadata=metadata("settings", "default"), data={"colour": "blue"})
        before = await cluster.client.create(settings)
        for name in ("first", "second"):
            await cluster.client.create(migration(name, "configmaps"))
        await cluster.eventually(lambda: ended(cluster, "first", "MigrationSucceeded"))
        await cluster.eventually(lambda: ended(cluster, "second", "MigrationSucceeded"))
        found = await cluster.client.get(Migration, "first")
        assert int(found.status.resource_version) >= int(before.metadata.resource_version)
        after = await cluster.client.get(core_v1.ConfigMap, "settings", "default")
        assert after.data == {"colour": "blue"}

    live(scenario)


def test_a_resource_that_is_not_there_fails() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(migration("lost", "widgets", "example.com"))
        await cluster.eventually(lambda: ended(cluster, "lost", "MigrationFailed"))
        found = await cluster.client.get(Migration, "lost")
        assert "no version of widgets.example.com is served" in found.status.conditions[0].message

    live(scenario)


def test_the_kind_is_not_served_unless_it_is_asked_for() -> None:
    assert STORAGE_VERSION_MIGRATION in optional_kinds(["api/beta=true"])
    assert STORAGE_VERSION_MIGRATION not in optional_kinds(["api/alpha=true"])
    assert STORAGE_VERSION_MIGRATION in optional_kinds(["api/all=true"])

    async def scenario() -> None:
        async with running_cluster(nodes=0) as cluster:
            with pytest.raises(ApiError) as refused:
                await cluster.client.raw("GET", STORAGE_VERSION_MIGRATION.path())
            assert refused.value.code == 404

    asyncio.run(scenario())
