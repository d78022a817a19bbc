"""Aggregated roles in a live cluster."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, rbac_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.testing.cluster import LiveCluster, running_cluster


def test_aggregated_roles_are_filled_and_follow() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        admin = cluster.client
        role = await admin.create(
            rbac_v1.ClusterRole(
                metadata=meta_v1.ObjectMeta(
                    name="foos", labels={"rbac.authorization.k8s.io/aggregate-to-view": "true"}
                ),
                rules=(rbac_v1.PolicyRule(verbs=("get",), api_groups=("x.example.com",), resources=("foos",)),),
            )
        )

        async def holders() -> set[str]:
            found = (await admin.list(rbac_v1.ClusterRole)).items
            return {
                one.metadata.name
                for one in found
                if one.aggregation_rule is not None and any("x.example.com" in rule.api_groups for rule in one.rules)
            }

        async def filled() -> bool:
            return await holders() == {"view", "edit", "admin"}

        async def emptied() -> bool:
            return not await holders()

        await cluster.eventually(filled)
        role.rules = ()
        await admin.update(role)
        await cluster.eventually(emptied)

    async def run() -> None:
        async with running_cluster() as cluster:
            await scenario(cluster)

    asyncio.run(run())


def test_who_may_view_reads_but_does_not_write_and_sees_no_secrets() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        subject = rbac_v1.Subject(kind="User", name="alice", api_group="rbac.authorization.k8s.io")
        role = rbac_v1.RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="view")
        metadata = meta_v1.ObjectMeta(name="alice", namespace="default")
        await cluster.client.create(rbac_v1.RoleBinding(metadata=metadata, subjects=(subject,), role_ref=role))
        alice = Client(InProcessTransport(InProcessEndpoint(cluster.cluster.api, User("alice"))))

        async def may_read() -> bool:
            try:
                await alice.list(core_v1.Pod, "default")
            except ApiError as error:
                return error.code != 403
            return True

        await cluster.eventually(may_read)
        for refused in (
            alice.list(core_v1.Secret, "default"),
            alice.list(core_v1.Pod, "kube-system"),
            alice.delete(core_v1.Pod, "p", "default"),
        ):
            with pytest.raises(ApiError, match="is forbidden"):
                await refused

    async def run() -> None:
        async with running_cluster() as cluster:
            await scenario(cluster)

    asyncio.run(run())
