"""Controllers of kinds that servers have only if they are asked for them, in virtual time."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.kinds import KindTable
from bayplan.api.optional_kinds import OPTIONAL
from bayplan.api.types import (
    apiserverinternal_v1alpha1,
    batch_v1,
    certificates_v1beta1,
    coordination_v1,
    core_v1,
    resource_v1,
    resource_v1alpha3,
    scheduling_v1alpha2,
)
from bayplan.client import Client
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.controllers.access.trust_bundles import bundle_name
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run

_SETTINGS = ClusterSettings(api=dataclasses.replace(CLUSTER_API, runtime_config=("api/all=true",)))
Case = Callable[[VirtualCluster, Client], Awaitable[None]]


def play(case: Case) -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1, settings=_SETTINGS) as cluster:
            kinds = KindTable(cluster.client.kinds)
            for kind in OPTIONAL:
                kinds.add(kind)
            await cluster.advance(seconds=5)
            await case(cluster, Client(cluster.client.transport, kinds))

    run(main())


def make(cls: type[Any], name: str, namespace: str = "default", **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": namespace}, **fields})


async def is_gone(client: Client, cls: type[Any], name: str, namespace: str = "default") -> bool:
    try:
        await client.get(cls, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        return True
    return False


def gang(name: str, **fields: Any) -> Any:
    return make(scheduling_v1alpha2.PodGroup, name, spec={"schedulingPolicy": {"gang": {"minCount": 1}}, **fields})


def member(name: str, group: str) -> Any:
    spec = {"containers": [{"name": "main", "image": "app"}], "schedulingGroup": {"podGroupName": group}}
    return make(core_v1.Pod, name, spec=spec)


def test_a_pod_group_stays_until_no_pod_uses_it() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        group, cls = await client.create(gang("gang")), scheduling_v1alpha2.PodGroup
        assert group.metadata.finalizers == ("scheduling.k8s.io/podgroup-protection",)
        await client.create(member("a", "gang"))
        await cluster.advance(seconds=5)
        await client.delete(cls, "gang", "default")
        await cluster.advance(seconds=60)
        assert (await client.get(cls, "gang", "default")).metadata.deletion_timestamp
        await client.delete(core_v1.Pod, "a", "default")
        await cluster.advance(seconds=60)
        assert await is_gone(client, cls, "gang")

    play(case)


def test_a_pod_group_that_lost_its_finalizer_gets_it_again_while_pods_use_it() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        cls = scheduling_v1alpha2.PodGroup
        for name in ("used", "free"):
            await client.create(gang(name))
            await client.patch(cls, name, "default", {"metadata": {"finalizers": None}})
        await client.create(member("a", "used"))
        await cluster.advance(seconds=5)
        assert (await client.get(cls, "used", "default")).metadata.finalizers
        assert not (await client.get(cls, "free", "default")).metadata.finalizers

    play(case)


def test_a_pod_group_names_a_template_that_there_is() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        def of(workload: str, template: str) -> dict[str, Any]:
            return {"workload": {"workloadName": workload, "podGroupTemplateName": template}}

        templates = [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 1}}}]
        await client.create(make(scheduling_v1alpha2.Workload, "load", spec={"podGroupTemplates": templates}))
        with pytest.raises(ApiError, match='PodGroup rejected: Workload "other" not found'):
            await client.create(gang("a", podGroupTemplateRef=of("other", "workers")))
        with pytest.raises(ApiError, match='PodGroup rejected: PodGroupTemplate "x" not found in Workload "load"'):
            await client.create(gang("a", podGroupTemplateRef=of("load", "x")))
        await client.create(gang("a", podGroupTemplateRef=of("load", "workers")))

    play(case)


@pytest.mark.parametrize("named", [True, False])
def test_a_job_that_is_a_gang_keeps_its_size(named: bool) -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        template: dict[str, Any] = {"containers": [{"name": "main", "image": "app"}], "restartPolicy": "Never"}
        if named:
            template["schedulingGroup"] = {"podGroupName": "gang"}
        spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": {"spec": template}}
        job = await client.create(make(batch_v1.Job, "job", spec=spec))
        await client.patch(batch_v1.Job, "job", "default", {"spec": {"parallelism": 3}})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": job.metadata.uid, "controller": True}
        metadata = {"name": "gang", "namespace": "default", "ownerReferences": [] if named else [owner]}
        policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        group = from_tree(scheduling_v1alpha2.PodGroup, {"metadata": metadata, "spec": policy})
        await client.create(group)
        with pytest.raises(
            ApiError, match='cannot change parallelism for a Job referencing gang-scheduled PodGroup "gang"'
        ):
            await client.patch(batch_v1.Job, "job", "default", {"spec": {"parallelism": 4}})
        await client.patch(batch_v1.Job, "job", "default", {"spec": {"suspend": False}})

    play(case)


def slice_of(devices: int, *, name: str = "slice", count: int = 1) -> Any:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": count}
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool}
    listed = [{"name": f"gpu-{index}"} for index in range(devices)]
    return make(resource_v1.ResourceSlice, name, "", spec={**spec, "devices": listed})


async def use_devices(client: Client, pods: int) -> None:
    """Pods `user-N`, each with a claim for one device."""
    await client.create(make(resource_v1.DeviceClass, "gpu", "", spec={}))
    request = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    for number in range(pods):
        await client.create(make(resource_v1.ResourceClaim, f"claim-{number}", spec=request))
        main = {"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
        entry = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
        await client.create(make(core_v1.Pod, f"user-{number}", spec={"containers": [main], "resourceClaims": entry}))


def rule(name: str, effect: str, **selector: str) -> Any:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}}
    return make(resource_v1alpha3.DeviceTaintRule, name, "", spec=spec)


async def told(client: Client, name: str) -> tuple[str, str, str]:
    """Status, reason and message of a rule's condition."""
    found = await client.get(resource_v1alpha3.DeviceTaintRule, name)
    (condition,) = found.status.conditions
    return condition.status, condition.reason, condition.message


def test_a_rule_that_taints_devices_keeps_pods_away_and_evicts_those_that_are_there() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        await client.create(slice_of(2))
        await client.create(rule("first", "NoSchedule", device="gpu-0"))
        await cluster.advance(seconds=5)
        await use_devices(client, 2)
        await cluster.advance(seconds=30)
        phases = [(await client.get(core_v1.Pod, f"user-{one}", "default")).status.phase for one in (0, 1)]
        assert sorted(phases) == ["Pending", "Running"]
        assert await told(client, "first") == (
            "False",
            "OtherEffect",
            "Eviction only happens for the NoExecute effect.",
        )
        await client.create(rule("look", "None"))
        await cluster.advance(seconds=5)
        assert (await told(client, "look"))[2].startswith(
            "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if"
        )
        await client.create(rule("second", "NoExecute", driver="gpu.example.com", pool="pool"))
        await cluster.advance(seconds=60)
        assert await is_gone(client, core_v1.Pod, f"user-{phases.index('Running')}")
        assert await told(client, "second") == ("False", "Completed", "1 pod evicted since starting the controller.")
        for name in ("first", "second"):
            await client.delete(resource_v1alpha3.DeviceTaintRule, name)
        await cluster.advance(seconds=60)
        left = await client.get(core_v1.Pod, f"user-{phases.index('Pending')}", "default")
        assert left.status.phase == "Running"

    play(case)


def test_a_request_for_figures_of_pools_is_answered_once_and_goes() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        await client.create(slice_of(3))
        await use_devices(client, 1)
        await cluster.advance(seconds=30)
        cls = resource_v1alpha3.ResourcePoolStatusRequest
        await client.create(make(cls, "ask", "", spec={"driver": "gpu.example.com"}))
        await client.create(make(cls, "other", "", spec={"driver": "other.example.com"}))
        await cluster.advance(seconds=5)
        status = (await client.get(cls, "ask")).status
        assert status is not None
        (pool,) = status.pools
        assert (pool.pool_name, pool.node_name, pool.generation, pool.resource_slice_count) == ("pool", "node-1", 1, 1)
        assert (pool.total_devices, pool.allocated_devices, pool.available_devices) == (3, 1, 2)
        assert status.conditions[0].message == "Calculated status for 1 pools"
        other = (await client.get(cls, "other")).status
        assert other is not None
        assert other.pool_count == 0
        await cluster.advance(hours=1.5)
        assert await is_gone(client, cls, "ask", "")

    play(case)


def test_a_request_about_a_pool_whose_slices_are_missing_waits_for_them() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        await client.create(slice_of(1, count=2))
        cls = resource_v1alpha3.ResourcePoolStatusRequest
        await client.create(make(cls, "ask", "", spec={"driver": "gpu.example.com"}))
        await cluster.advance(seconds=0.02)
        assert (await client.get(cls, "ask")).status is None
        await client.create(slice_of(1, name="rest", count=2))
        await cluster.advance(seconds=30)
        status = (await client.get(cls, "ask")).status
        assert status is not None
        assert status.pools[0].total_devices == 2

    play(case)


def test_old_requests_for_certificates_of_pods_are_removed() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        cls = certificates_v1beta1.PodCertificateRequest
        key = "MCowBQYDK2VwAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
        spec = {"signerName": "example.com/pods", "podName": "p", "podUID": "u", "nodeName": "n", "nodeUID": "v"}
        spec |= {"serviceAccountName": "s", "serviceAccountUID": "w", "pkixPublicKey": key, "proofOfPossession": key}
        with pytest.raises(ApiError, match="could not verify proof-of-possession signature"):
            await client.create(make(cls, "forged", spec=spec))
        await client.create(make(cls, "request", spec={**spec, **_signed("u")}))
        await cluster.advance(minutes=10)
        assert not await is_gone(client, cls, "request")
        await cluster.advance(minutes=15)
        assert await is_gone(client, cls, "request")

    play(case)


def test_storage_versions_lose_servers_that_are_gone() -> None:
    async def case(cluster: VirtualCluster, client: Client) -> None:
        cls = apiserverinternal_v1alpha1.StorageVersion
        labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
        metadata = {"name": "one", "namespace": "kube-system", "labels": labels}
        await client.create(from_tree(coordination_v1.Lease, {"metadata": metadata, "spec": {}}))
        servers = [
            {"apiServerID": name, "encodingVersion": version, "decodableVersions": [version]}
            for name, version in (("one", "v1"), ("gone", "v1beta1"))
        ]
        alone = {"storageVersions": servers[1:], "commonEncodingVersion": "v1beta1"}
        for name, status in (("core.pods", {"storageVersions": servers}), ("core.nodes", alone)):
            made = await client.create(make(cls, name, "", spec={}))
            made.status = from_tree(cls, {"spec": {}, "status": status}).status
            await client.update_status(made)
        await cluster.advance(seconds=5)
        assert await is_gone(client, cls, "core.nodes", "")
        left = (await client.get(cls, "core.pods")).status
        assert [one.api_server_id for one in left.storage_versions] == ["one"]
        assert left.common_encoding_version == "v1"
        assert [(one.status, one.reason) for one in left.conditions] == [("True", "CommonEncodingVersionSet")]
        await client.delete(coordination_v1.Lease, "one", "kube-system")
        await cluster.advance(seconds=5)
        assert await is_gone(client, cls, "core.pods", "")

    play(case)


def _signed(uid: str) -> dict[str, str]:
    """A public key, and a uid signed with the private one."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    proof = private.sign(uid.encode())
    return {
        "pkixPublicKey": base64.b64encode(public).decode(),
        "proofOfPossession": base64.b64encode(proof).decode(),
    }


def test_a_trust_bundle_is_named_after_its_content() -> None:
    assert bundle_name("x") == "kubernetes.io:kube-apiserver-serving:2d711642b726b04401627ca9"
