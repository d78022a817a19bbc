"""A node reads the accounts of its own pods, and no others, for plugins that log in to registries."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.images.accounts import ApiAccounts
from bayplan.kubelet.objects import ObjectError, Token
from bayplan.testing.builders import container, metadata, pod
from bayplan.testing.cluster import running_cluster


def test_accounts_of_the_nodes_pods_are_read() -> None:
    async def refuses(one: core_v1.Pod, audience: str, seconds: int | None) -> Token:
        raise ObjectError(f"no token for {audience}")

    async def gives(one: core_v1.Pod, audience: str, seconds: int | None) -> Token:
        return Token(f"{one.metadata.name} {audience} {seconds}", 0.0, 600.0)

    async def steps() -> None:
        async with running_cluster(nodes=0) as cluster:
            for name in ("web", "other"):
                await cluster.client.create(core_v1.ServiceAccount(metadata=metadata(name, "default")))
            await cluster.client.create(core_v1.Node(metadata=metadata("n1")))
            one = pod("p", node_name="n1", service_account_name="web", containers=(container(),))
            await cluster.client.create(one)
            client = cluster.cluster.client("system:node:n1", ("system:nodes",))
            accounts = ApiAccounts(client, gives)
            assert (await accounts.account("default", "web")).metadata.name == "web"
            with pytest.raises(LookupError, match="no relationship found"):
                await accounts.account("default", "other")
            assert await accounts.token(one, "registry") == "p registry 600"
            with pytest.raises(LookupError, match="no token for registry"):
                await ApiAccounts(client, refuses).token(one, "registry")
            await cluster.client.delete(core_v1.Pod, "p", "default", grace_period_seconds=0)
            await cluster.client.delete(core_v1.Node, "n1")

    asyncio.run(steps())
