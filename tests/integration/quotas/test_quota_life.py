"""Resource quotas from their creation to refusal and release, as users see it."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def make(cls: type[Any], name: str, **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": "default"}, **fields})


def pod(name: str, cpu: str = "1") -> Any:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return make(core_v1.Pod, name, spec={"containers": [container]})


async def uses(cluster: LiveCluster, **wanted: str) -> bool:
    used = (await cluster.client.get(core_v1.ResourceQuota, "small", "default")).status.used
    found = {name: used.get(name.replace("_", ".")) for name in wanted}
    assert found == wanted
    return True


def test_a_quota_counts_what_there_is_refuses_what_is_too_much_and_sees_what_goes() -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            client = cluster.client
            await client.create(pod("first"))
            hard = {"pods": "2", "requests.cpu": "1500m", "configmaps": "5", "count/deployments.apps": "0"}
            await client.create(make(core_v1.ResourceQuota, "small", spec={"hard": hard}))
            await cluster.eventually(lambda: uses(cluster, pods="1", requests_cpu="1", configmaps="1"))
            with pytest.raises(ApiError) as refused:
                await client.create(pod("second"))
            assert refused.value.message == (
                'pods "second" is forbidden: exceeded quota: small, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m'
            )
            await client.create(pod("small", "500m"))
            await cluster.eventually(lambda: uses(cluster, pods="2", requests_cpu="1500m"))
            await client.delete(core_v1.Pod, "first", "default")
            await cluster.eventually(lambda: uses(cluster, pods="1", requests_cpu="500m"))
            await client.create(make(core_v1.ConfigMap, "one"))
            await cluster.eventually(lambda: uses(cluster, configmaps="2"))
            await client.delete(core_v1.ConfigMap, "one", "default")
            await cluster.eventually(lambda: uses(cluster, configmaps="1"))
            patch = {"spec": {"hard": {"pods": "7", "configmaps": None}}}
            await client.patch(core_v1.ResourceQuota, "small", "default", patch)

            async def limits() -> bool:
                status = (await client.get(core_v1.ResourceQuota, "small", "default")).status
                return status.hard.get("pods") == "7" and "configmaps" not in status.used

            await cluster.eventually(limits)

    asyncio.run(run())


def test_pods_that_have_ended_use_nothing() -> None:
    async def run() -> None:
        async with running_cluster(run_seconds=0.02) as cluster:
            await cluster.client.create(make(core_v1.ResourceQuota, "small", spec={"hard": {"pods": "1"}}))
            await cluster.eventually(lambda: uses(cluster, pods="0"))
            once = pod("once")
            once.spec.restart_policy = "Never"
            await cluster.client.create(once)
            await cluster.eventually(lambda: uses(cluster, pods="0"))
            await cluster.client.create(pod("next"))

    asyncio.run(run())


def test_a_claim_is_counted_where_its_attributes_class_is_now() -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            client = cluster.client
            scope = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
            spec = {"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": {"matchExpressions": [scope]}}
            await client.create(make(core_v1.ResourceQuota, "small", spec=spec))
            await cluster.eventually(lambda: uses(cluster, persistentvolumeclaims="0"))
            wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            await client.create(make(core_v1.PersistentVolumeClaim, "data", spec=wanted))
            for name, count in (("gold", "1"), ("silver", "0")):
                patch = {"status": {"currentVolumeAttributesClassName": name}}
                await client.patch(core_v1.PersistentVolumeClaim, "data", "default", patch, subresource="status")
                await cluster.eventually(functools.partial(uses, cluster, persistentvolumeclaims=count))

    asyncio.run(run())
