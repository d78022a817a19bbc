"""Components that crash with an error of their own are started again, and health checks say so meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.requests import Request, User
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.scheduler.service import SchedulerService
from tests.integration.test_cluster import eventually

ADMIN = User("admin", ("system:masters", "system:authenticated"))


async def body_of(cluster: Cluster, path: str) -> str:
    response = await cluster.api.handle(Request("GET", path, {"verbose": ""}, ADMIN))
    return response.whole_body().decode()


async def until(cluster: Cluster, path: str, text: str, *, is_there: bool = True) -> str:
    found = ""

    async def has_come() -> bool:
        nonlocal found
        found = await body_of(cluster, path)
        return (text in found) == is_there

    await eventually(has_come)
    return found


def test_a_component_that_crashes_is_reported_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run, crashes = SchedulerService.run, [ValueError("one mistake"), LookupError("another one")]

    async def crashing(self: SchedulerService) -> None:
        if crashes:
            raise crashes.pop(0)
        await run(self)

    async def story() -> None:
        monkeypatch.setattr(SchedulerService, "run", crashing)
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=1, start_seconds=0.02)))
        await cluster.start()
        try:
            await until(cluster, "/readyz", "[-]component-process failed")
            assert "scheduler crashed" in await until(cluster, "/readyz/component-process", "mistake")
            statuses = await until(cluster, "/api/v1/componentstatuses", '"status":"False"')
            assert statuses.count('"status":"False"') == 1
            assert "[-]" not in await body_of(cluster, "/livez")
            await until(cluster, "/readyz/component-process", "ok")
            await until(cluster, "/api/v1/componentstatuses", '"status":"False"', is_there=False)
            client = cluster.client()
            containers = (core_v1.Container(name="c", image="nginx"),)
            metadata = meta_v1.ObjectMeta(name="p", namespace="default")

            async def has_account() -> bool:
                return bool((await client.list(core_v1.ServiceAccount, "default")).items)

            async def runs() -> bool:
                return (await client.get(core_v1.Pod, "p", "default")).status.phase == "Running"

            await eventually(has_account)
            await client.create(core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=containers)))
            await eventually(runs)
        finally:
            await cluster.stop()

    asyncio.run(story())
    assert crashes == []


def test_a_component_that_ends_without_an_error_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run, ends = SchedulerService.run, [True]

    async def ending(self: SchedulerService) -> None:
        if not ends:
            await run(self)
        ends.clear()

    async def story() -> None:
        monkeypatch.setattr(SchedulerService, "run", ending)
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=1)))
        await cluster.start()
        try:
            await until(cluster, "/readyz/component-process", "scheduler has ended by itself")
            await until(cluster, "/readyz/component-process", "ok")
        finally:
            await cluster.stop()

    asyncio.run(story())
