"""Tokens in secrets, in a live cluster."""

from __future__ import annotations

import asyncio
import base64

from bayplan.api.types import core_v1, meta_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def test_a_secret_gets_a_token_that_lives_as_long_as_secret_and_account() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="robot", namespace="default")))
        annotations = {"kubernetes.io/service-account.name": "robot"}
        metadata = meta_v1.ObjectMeta(name="s", namespace="default", annotations=annotations)
        await client.create(core_v1.Secret(metadata=metadata, type="kubernetes.io/service-account-token"))

        async def token() -> str:
            secret = await client.get(core_v1.Secret, "s", "default")
            return base64.b64decode(secret.data.get("token", "")).decode()

        made = await cluster.eventually(token)
        authenticator = cluster.cluster.api.context.authenticator
        user = authenticator.user_of_token(made)
        assert user is not None
        assert user.name == "system:serviceaccount:default:robot"
        await client.delete(core_v1.ServiceAccount, "robot", "default")
        assert authenticator.user_of_token(made) is None

        async def is_gone() -> bool:
            return all(one.metadata.name != "s" for one in (await client.list(core_v1.Secret, "default")).items)

        await cluster.eventually(is_gone)

    async def run() -> None:
        async with running_cluster() as cluster:
            await scenario(cluster)

    asyncio.run(run())
