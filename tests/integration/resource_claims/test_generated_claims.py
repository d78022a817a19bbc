"""Resource claims of pods: made from templates, written into the pod's status, given back at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, resource_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]], **simulator: Any) -> None:
    async def run() -> None:
        async with running_cluster(**simulator) as cluster:
            await test(cluster)

    asyncio.run(run())


def make(cls: type[Any], name: str, **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": "default"}, **fields})


REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
NOWHERE = {"kubernetes.io/hostname": "nowhere"}


def template(name: str) -> Any:
    return make(
        resource_v1.ResourceClaimTemplate, name, spec={"metadata": {"labels": {"made": "here"}}, "spec": REQUEST}
    )


def pod(name: str, entry: dict[str, str], **spec: Any) -> Any:
    claims = [{"name": "gpu", **entry}]
    main = {"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
    return make(core_v1.Pod, name, spec={"containers": [main], "resourceClaims": claims, **spec})


async def named_claim(cluster: LiveCluster, pod_name: str) -> resource_v1.ResourceClaim | None:
    found = await cluster.client.get(core_v1.Pod, pod_name, "default")
    for one in found.status.resource_claim_statuses:
        return await cluster.client.get(resource_v1.ResourceClaim, one.resource_claim_name or "", "default")
    return None


def test_a_template_gives_one_claim_that_the_pod_names_and_owns() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        await client.create(pod("user", {"resourceClaimTemplateName": "gpus"}, nodeSelector=NOWHERE))

        async def told() -> bool:
            events = (await client.list(core_v1.Event, "default")).items
            return any(one.reason == "FailedResourceClaimCreation" for one in events)

        await cluster.eventually(told)
        await client.create(template("gpus"))
        claim = await cluster.eventually(lambda: named_claim(cluster, "user"))
        assert claim.metadata.name.startswith("user-gpu-")
        assert claim.metadata.generate_name == "user-gpu-"
        assert claim.metadata.annotations["resource.kubernetes.io/pod-claim-name"] == "gpu"
        assert claim.metadata.labels == {"made": "here"}
        assert claim.metadata.owner_references[0].name == "user"
        assert len((await client.list(resource_v1.ResourceClaim)).items) == 1
        await client.delete(core_v1.Pod, "user", "default")
        await cluster.eventually(lambda: cluster.gone(resource_v1.ResourceClaim, claim.metadata.name))

    live(scenario)


async def allocate(cluster: LiveCluster, claim: resource_v1.ResourceClaim, *users: core_v1.Pod) -> None:
    """What the scheduler does."""
    finalizers = ["resource.kubernetes.io/delete-protection"]
    name = claim.metadata.name
    await cluster.client.patch(resource_v1.ResourceClaim, name, "default", {"metadata": {"finalizers": finalizers}})
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "one", "device": "gpu-0"}
    consumers = [{"resource": "pods", "name": one.metadata.name, "uid": one.metadata.uid} for one in users]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    await cluster.client.patch(resource_v1.ResourceClaim, name, "default", {"status": status}, subresource="status")


def test_a_claim_is_freed_when_the_last_pod_that_uses_it_is_gone() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        claim = await client.create(make(resource_v1.ResourceClaim, "shared", spec=REQUEST))
        entry = {"resourceClaimName": "shared"}
        users = [await client.create(pod(name, entry, nodeSelector=NOWHERE)) for name in ("first", "second")]
        await allocate(cluster, claim, *users)

        async def reserved(*names: str) -> resource_v1.ResourceClaim | None:
            found = await client.get(resource_v1.ResourceClaim, "shared", "default")
            return found if tuple(one.name for one in found.status.reserved_for) == names else None

        await client.delete(core_v1.Pod, "first", "default")
        still = await cluster.eventually(lambda: reserved("second"))
        assert still.status.allocation is not None
        await client.delete(core_v1.Pod, "second", "default")
        await cluster.eventually(lambda: reserved())

        async def free() -> bool:
            found = await client.get(resource_v1.ResourceClaim, "shared", "default")
            return found.status.allocation is None and not found.metadata.finalizers

        await cluster.eventually(free)

    live(scenario)


def test_a_pod_that_was_put_on_a_node_by_hand_reserves_its_allocated_claim() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        claim = await cluster.client.create(make(resource_v1.ResourceClaim, "mine", spec=REQUEST))
        await allocate(cluster, claim)
        user = await cluster.client.create(pod("user", {"resourceClaimName": "mine"}, nodeName="node-1"))

        async def reserved() -> bool:
            found = await cluster.client.get(resource_v1.ResourceClaim, "mine", "default")
            return [one.uid for one in found.status.reserved_for] == [user.metadata.uid]

        await cluster.eventually(reserved)

    live(scenario)


def test_a_generated_claim_goes_when_its_pod_has_ended() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(template("gpus"))
        entry = {"resourceClaimTemplateName": "gpus"}
        await cluster.client.create(pod("user", entry, nodeName="node-1", restartPolicy="Never"))

        async def ended() -> bool:
            return (await cluster.client.get(core_v1.Pod, "user", "default")).status.phase == "Succeeded"

        async def no_claims() -> bool:
            return not (await cluster.client.list(resource_v1.ResourceClaim)).items

        await cluster.eventually(ended)
        await cluster.eventually(no_claims)

    live(scenario, run_seconds=0.05)
