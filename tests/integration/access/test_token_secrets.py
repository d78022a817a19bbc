"""Tokens in secrets, in a live cluster."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from bayplan.api.types import core_v1, meta_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(scenario: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await scenario(cluster)

    asyncio.run(run())


async def robot(cluster: LiveCluster) -> str:
    """An account `robot`, and the token of its secret `s`."""
    await cluster.client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="robot", namespace="default")))
    annotations = {"kubernetes.io/service-account.name": "robot"}
    metadata = meta_v1.ObjectMeta(name="s", namespace="default", annotations=annotations)
    await cluster.client.create(core_v1.Secret(metadata=metadata, type="kubernetes.io/service-account-token"))

    async def token() -> str:
        secret = await cluster.client.get(core_v1.Secret, "s", "default")
        return base64.b64decode(secret.data.get("token", "")).decode()

    return await cluster.eventually(token)


def test_a_secret_gets_a_token_that_lives_as_long_as_secret_and_account() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        made = await robot(cluster)
        authenticator = cluster.cluster.api.context.authenticator
        user = authenticator.user_of_token(made)
        assert user is not None
        assert user.name == "system:serviceaccount:default:robot"
        await client.delete(core_v1.ServiceAccount, "robot", "default")
        assert authenticator.user_of_token(made) is None

        async def is_gone() -> bool:
            return all(one.metadata.name != "s" for one in (await client.list(core_v1.Secret, "default")).items)

        await cluster.eventually(is_gone)

    live(scenario)


def test_the_use_of_a_token_is_noted_and_one_that_nobody_used_for_long_is_refused() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        tracked = await client.get(
            core_v1.ConfigMap, "kube-apiserver-legacy-service-account-token-tracking", "kube-system"
        )
        assert tracked.data["since"] <= today
        made = await robot(cluster)
        authenticator = cluster.cluster.api.context.authenticator
        assert authenticator.user_of_token(made) is not None

        async def noted() -> bool:
            labels = (await client.get(core_v1.Secret, "s", "default")).metadata.labels
            return labels.get("kubernetes.io/legacy-token-last-used", "") >= today

        await cluster.eventually(noted)
        invalid = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": today}}}
        await client.patch(core_v1.Secret, "s", "default", invalid)
        assert authenticator.user_of_token(made) is None
        assert "default/s for service account default/robot has been marked invalid" in authenticator.review(made).error

    live(scenario)


def test_tokens_that_were_made_with_their_account_are_warned_about() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        made = await robot(cluster)
        authenticator = cluster.cluster.api.context.authenticator
        user = authenticator.user_of_token(made)
        assert user is not None
        assert user.warning == ""
        secrets = {"secrets": [{"name": "s"}]}
        await cluster.client.patch(core_v1.ServiceAccount, "robot", "default", secrets)
        user = authenticator.user_of_token(made)
        assert user is not None
        assert user.warning.startswith("Use tokens from the TokenRequest API")

    live(scenario)
