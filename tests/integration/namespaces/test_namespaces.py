"""What a namespace has from the start, and how it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.api.types import core_v1
from bayplan.testing.builders import deployment, metadata, namespace
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


def test_a_new_namespace_has_its_account_and_the_authority_of_the_cluster() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(namespace("shop"))

        async def ready() -> core_v1.ConfigMap:
            await cluster.client.get(core_v1.ServiceAccount, "default", "shop")
            return await cluster.client.get(core_v1.ConfigMap, "kube-root-ca.crt", "shop")

        found = await cluster.eventually(ready)
        assert found.data["ca.crt"] in cluster.cluster.credentials.authority.certificate.decode()
        assert found.data["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")

    live(scenario)


def test_what_every_namespace_has_comes_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(namespace("shop"))

        async def both() -> bool:
            account = await cluster.client.get(core_v1.ServiceAccount, "default", "shop")
            bundle = await cluster.client.get(core_v1.ConfigMap, "kube-root-ca.crt", "shop")
            return account.metadata.uid not in former and bundle.data["ca.crt"] != "broken"

        former: set[str] = set()
        await cluster.eventually(both)
        former.add((await cluster.client.get(core_v1.ServiceAccount, "default", "shop")).metadata.uid)
        await cluster.client.delete(core_v1.ServiceAccount, "default", "shop")
        await cluster.client.patch(core_v1.ConfigMap, "kube-root-ca.crt", "shop", {"data": {"ca.crt": "broken"}})
        await cluster.eventually(both)

    live(scenario)


def test_a_namespace_goes_with_everything_in_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(namespace("shop"))
        await cluster.eventually(lambda: cluster.client.get(core_v1.ServiceAccount, "default", "shop"))
        await cluster.client.create(deployment("web", 3, namespace="shop"))
        await cluster.rolled_out("web", 3, "shop")
        await cluster.client.delete(core_v1.Namespace, "shop")
        await cluster.eventually(lambda: cluster.gone(core_v1.Namespace, "shop", ""))
        assert not (await cluster.client.list(core_v1.Pod)).items

    live(scenario)


def test_a_namespace_waits_for_finalizers_and_says_so() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(namespace("shop"))
        held = core_v1.ConfigMap(metadata=metadata("held", "shop", finalizers=("example.com/hold",)))
        await cluster.client.create(held)
        await cluster.client.delete(core_v1.Namespace, "shop")

        async def told() -> dict[str, str]:
            found = await cluster.client.get(core_v1.Namespace, "shop")
            shown = {one.type: one.message for one in found.status.conditions if one.status == "True"}
            assert found.status.phase == "Terminating"
            assert "NamespaceFinalizersRemaining" in shown
            return shown

        shown = await cluster.eventually(told)
        assert "configmaps. has 1 resource instances" in shown["NamespaceContentRemaining"]
        assert "example.com/hold in 1 resource instances" in shown["NamespaceFinalizersRemaining"]
        await cluster.client.patch(core_v1.ConfigMap, "held", "shop", {"metadata": {"finalizers": None}})
        await cluster.eventually(lambda: cluster.gone(core_v1.Namespace, "shop", ""))

    live(scenario)


def test_a_name_can_be_used_again_at_once() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        for _ in range(3):
            await cluster.client.create(namespace("shop"))
            await cluster.eventually(lambda: cluster.client.get(core_v1.ServiceAccount, "default", "shop"))
            await cluster.client.delete(core_v1.Namespace, "shop")
            await cluster.eventually(lambda: cluster.gone(core_v1.Namespace, "shop", ""))

    live(scenario)
