"""What resource quotas count and refuse. Conformance: ResourceQuota."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bayplan.api.quantity import parse
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import PAUSE, Space, Workloads, revision, template, workload

DEVICES = "example.com/crane"
HARD = {
    "pods": "5",
    "services": "10",
    "services.nodeports": "1",
    "services.loadbalancers": "1",
    "replicationcontrollers": "10",
    "resourcequotas": "1",
    "cpu": "1",
    "memory": "500Mi",
    "configmaps": "10",
    "secrets": "10",
    "persistentvolumeclaims": "10",
    "requests.storage": "10Gi",
    "ephemeral-storage": "50Gi",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "10",
    "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
    "count/replicasets.apps": "5",
    f"requests.{DEVICES}": "3",
}
MODEST, GENEROUS = {"cpu": "500m", "memory": "200Mi"}, {"cpu": "1", "memory": "400Mi"}
ITS_USE = {"requests.cpu": "500m", "requests.memory": "200Mi", "limits.cpu": "1", "limits.memory": "400Mi"}
SCOPED = {"pods": "5", "requests.cpu": "1", "requests.memory": "500Mi", "limits.cpu": "2", "limits.memory": "1Gi"}


async def limit(space: Space, name: str, hard: dict[str, str], **spec: object) -> None:
    """Create a quota."""
    await space.api.create(space.core("resourcequotas"), {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})


async def counts(space: Space, name: str, wanted: Mapping[str, str | int]) -> Object:
    """Wait until a quota's status says that so much is used of each of these; returns all that is used."""

    def met(quota: Object) -> bool:
        used = quota.get("status", {}).get("used", {})
        return all(key in used and parse(used[key]) == parse(amount) for key, amount in wanted.items())

    found: Object = (await space.until(space.core(f"resourcequotas/{name}"), met))["status"]["used"]
    return found


def pod(name: str, requests: dict[str, str], limits: dict[str, str], **spec: object) -> Object:
    """A pod that asks for something."""
    container = {"name": "pause", "image": PAUSE, "resources": {"requests": requests, "limits": limits}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}}


def service(name: str, kind: str, **spec: object) -> Object:
    """A service of a type."""
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80, "targetPort": 80}], **spec}}


def test_a_quota_is_counted_at_once(workloads: Workloads) -> None:
    """ResourceQuota should create a ResourceQuota and ensure its status is promptly calculated."""

    async def scenario(space: Space) -> None:
        before = len(await space.api.names(space.core("resourcequotas")))
        await limit(space, "quota", HARD)
        assert await counts(space, "quota", {"resourcequotas": before + 1})

    workloads.run(scenario)


def test_services(workloads: Workloads) -> None:
    """ResourceQuota should create a ResourceQuota and capture the life of a service."""

    async def scenario(space: Space) -> None:
        await limit(space, "quota", HARD)
        assert await counts(space, "quota", {"resourcequotas": 1})
        path = space.core("services")
        await space.api.create(path, service("inside", "ClusterIP"))
        await space.api.create(path, service("on-nodes", "NodePort"))
        balanced = service("balanced", "LoadBalancer", allocateLoadBalancerNodePorts=True)
        assert (await space.api.refused("POST", path, balanced)).reason == "Forbidden"
        assert await counts(space, "quota", {"resourcequotas": 1, "services": 2, "services.nodeports": 1})
        for name in ("inside", "on-nodes"):
            await space.api.delete(f"{path}/{name}")
        assert await counts(space, "quota", {"resourcequotas": 1, "services": 0, "services.nodeports": 0})

    workloads.run(scenario)


@pytest.mark.parametrize("kind", ["secrets", "configmaps"])
def test_secrets_and_config_maps(workloads: Workloads, kind: str) -> None:
    """ResourceQuota should create a ResourceQuota and capture the life of a secret; ... of a configMap."""

    async def scenario(space: Space) -> None:
        path = space.core(kind)
        before = len(await space.api.names(path))
        await limit(space, "quota", {**HARD, kind: str(before + 1)})
        assert await counts(space, "quota", {"resourcequotas": 1, kind: before})
        await space.api.create(path, {"metadata": {"name": "mine"}, "data": {"key": "dmFsdWU="}})
        assert await counts(space, "quota", {"resourcequotas": 1, kind: before + 1})
        await space.api.delete(f"{path}/mine")
        assert await counts(space, "quota", {"resourcequotas": 1, kind: before})

    workloads.run(scenario)


def test_pods(workloads: Workloads) -> None:
    """ResourceQuota should create a ResourceQuota and capture the life of a pod."""

    async def scenario(space: Space) -> None:
        await limit(space, "quota", HARD)
        assert await counts(space, "quota", {"resourcequotas": 1})
        path = space.core("pods")
        asked = {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", DEVICES: "2"}
        made = await space.api.create(path, pod("fits", asked, {DEVICES: "2"}))
        used: dict[str, str | int] = {
            "resourcequotas": 1,
            "pods": 1,
            "cpu": "500m",
            "memory": "252Mi",
            "ephemeral-storage": "30Gi",
            f"requests.{DEVICES}": 2,
        }
        assert await counts(space, "quota", used)
        too_much = pod("too-much", {"cpu": "600m", "memory": "100Mi"}, {})
        assert (await space.api.refused("POST", path, too_much)).reason == "Forbidden"
        too_many = {"cpu": "500m", "memory": "100Mi", "ephemeral-storage": "20Gi", DEVICES: "2"}
        refusal = await space.api.refused("POST", path, pod("too-many", too_many, {DEVICES: "2"}))
        assert f"requests.{DEVICES}" in refusal.message
        less = {"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "10Gi"}
        made["spec"]["containers"][0]["resources"]["requests"] = less
        await space.api.refused("PUT", f"{path}/fits", made)
        assert await counts(space, "quota", used)
        await space.api.delete(f"{path}/fits", {"gracePeriodSeconds": 0})
        assert await counts(space, "quota", {**dict.fromkeys(used, 0), "resourcequotas": 1})

    workloads.run(scenario)


def test_replication_controllers(workloads: Workloads) -> None:
    """ResourceQuota should create a ResourceQuota and capture the life of a replication controller."""

    async def scenario(space: Space) -> None:
        await limit(space, "quota", HARD)
        assert await counts(space, "quota", {"resourcequotas": 1, "replicationcontrollers": 0})
        path, labels = space.core("replicationcontrollers"), {"name": "none"}
        spec = {"replicas": 0, "selector": labels, "template": template(labels)}
        await space.api.create(path, {"metadata": {"name": "none"}, "spec": spec})
        assert await counts(space, "quota", {"replicationcontrollers": 1})
        await space.api.delete(f"{path}/none", {"propagationPolicy": "Background"})
        assert await counts(space, "quota", {"replicationcontrollers": 0})

    workloads.run(scenario)


def test_replica_sets(workloads: Workloads) -> None:
    """ResourceQuota should create a ResourceQuota and capture the life of a replica set."""

    async def scenario(space: Space) -> None:
        await limit(space, "quota", HARD)
        assert await counts(space, "quota", {"resourcequotas": 1, "count/replicasets.apps": 0})
        path, labels = space.apps("replicasets"), {"name": "none"}
        await space.api.create(path, workload("none", labels, template(labels), replicas=0))
        assert await counts(space, "quota", {"count/replicasets.apps": 1})
        await space.api.delete(f"{path}/none")
        assert await counts(space, "quota", {"count/replicasets.apps": 0})

    workloads.run(scenario)


async def check_only_one_counts(
    space: Space, counting: str, other: str, one: Object, used: Mapping[str, str | int]
) -> None:
    """A pod is counted by one of two quotas while it is there, and by the other never."""
    nothing = dict.fromkeys(used, 0)
    await space.api.create(space.core("pods"), one)
    assert await counts(space, counting, used)
    assert await counts(space, other, nothing)
    await space.api.delete(space.core(f"pods/{one['metadata']['name']}"), {"gracePeriodSeconds": 0})
    assert await counts(space, counting, nothing)


def test_pods_that_end_and_pods_that_do_not(workloads: Workloads) -> None:
    """ResourceQuota should verify ResourceQuota with terminating scopes."""

    async def scenario(space: Space) -> None:
        for name, scope in (("ending", "Terminating"), ("lasting", "NotTerminating")):
            await limit(space, name, SCOPED, scopes=[scope])
            assert await counts(space, name, {"pods": 0})
        used: Mapping[str, str | int] = {"pods": 1, **ITS_USE}
        await check_only_one_counts(space, "lasting", "ending", pod("lasts", MODEST, GENEROUS), used)
        ends = pod("ends", MODEST, GENEROUS, activeDeadlineSeconds=3600)
        await check_only_one_counts(space, "ending", "lasting", ends, used)

    workloads.run(scenario)


def test_pods_that_ask_for_something_and_pods_that_do_not(workloads: Workloads) -> None:
    """ResourceQuota should verify ResourceQuota with best effort scope."""

    async def scenario(space: Space) -> None:
        for name, scope in (("modest", "BestEffort"), ("asking", "NotBestEffort")):
            await limit(space, name, {"pods": "5"}, scopes=[scope])
            assert await counts(space, name, {"pods": 0})
        await check_only_one_counts(space, "modest", "asking", pod("asks-nothing", {}, {}), {"pods": 1})
        await check_only_one_counts(space, "asking", "modest", pod("asks", MODEST, GENEROUS), {"pods": 1})

    workloads.run(scenario)


def test_status(workloads: Workloads) -> None:
    """ResourceQuota should apply changes to a resourcequota status."""

    async def scenario(space: Space) -> None:
        api, path, chosen = space.api, space.core("resourcequotas"), f"quota-of={space.name}"
        own = f"{path}/quota"

        async def since() -> str:
            return revision(await api.get("/api/v1/resourcequotas", labelSelector=chosen))

        def limits(*amounts: str) -> dict[str, str]:
            return dict(zip(("cpu", "memory"), amounts, strict=True))

        first = await since()
        labels = {"quota-of": space.name}
        hard = limits("500m", "500Mi")
        await api.create(path, {"metadata": {"name": "quota", "labels": labels}, "spec": {"hard": hard}})
        assert (await api.get(own))["spec"]["hard"] == hard
        await space.changed(f"{own}/status", lambda one: one.update(status={"hard": hard}))
        await space.seen(path, first, lambda one: one.get("status", {}).get("hard") == hard, labelSelector=chosen)

        second, more = await since(), limits("1", "1Gi")
        patched = await api.patch(own, {"spec": {"hard": more}}, STRATEGIC_PATCH)
        assert patched["spec"]["hard"] == more
        await api.patch(f"{own}/status", {"status": {"hard": more}}, STRATEGIC_PATCH)
        await space.seen(path, second, lambda one: one["status"]["hard"] == more, labelSelector=chosen)
        assert (await space.dynamic.get(f"{own}/status"))["status"]["hard"] == more

        third, wrong = await since(), limits("2", "2Gi")
        patched = await api.patch(f"{own}/status", {"status": {"hard": wrong}}, STRATEGIC_PATCH)
        assert (patched["status"]["hard"], patched["spec"]["hard"]) == (wrong, more)
        await space.seen(path, third, lambda one: one["status"]["hard"] == wrong, labelSelector=chosen)
        await space.until(own, lambda one: one["spec"]["hard"] == one["status"]["hard"] == more)

    workloads.run(scenario)
