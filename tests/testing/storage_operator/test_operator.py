"""The storage operator, its driver's controller service and the agents' record against an API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.api.errors import ApiError
from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError
from bayplan.informers import InformerFactory
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.handle import ClusterHandle
from examples.operators.storage import objects
from examples.operators.storage.agent import Agent, StatusRecord
from examples.operators.storage.head import Fenced
from examples.operators.storage.objects import CLUSTERS, NODES, VOLUMES, Api, path
from examples.operators.storage.provisioning import ControllerService
from examples.operators.storage.storage_operator import StorageOperator
from tests.kubelet.waiting import eventually

MANIFESTS = list(yaml.safe_load_all(Path(objects.__file__).with_name("operator.yaml").read_text()))
POD: dict[str, Any] = {"spec": MANIFESTS[-1]["spec"]["template"]["spec"]}
CLOCK = SystemClock()
SIZE = 16 << 20


def tree(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    found = {"apiVersion": f"{objects.GROUP}/v1", "kind": kind, "metadata": {"name": name}}
    return {**found, "spec": spec} if kind != "StorageNode" else found


def with_api(cluster: ClusterHandle, steps: Callable[[Api], Coroutine[Any, Any, None]]) -> None:
    """Run steps against the cluster, with the example's kinds."""
    for one in MANIFESTS:
        if one["kind"] in ("CustomResourceDefinition", "Namespace"):
            cluster.apply(one)
    for plural in (CLUSTERS, NODES, VOLUMES):
        cluster.eventually(lambda plural=plural: _is_served(cluster, plural))  # type: ignore[misc]

    cluster.run(lambda client: steps(Api(client)))


def _is_served(cluster: ClusterHandle, plural: str) -> bool:
    try:
        cluster.run(lambda client: client.raw("GET", path(plural)))
    except ApiError:
        return False
    return True


async def report(api: Api, name: str, *, silent: float = 0.0) -> None:
    """Make a storage node, or let its agent report."""
    if name not in await api.nodes():
        await api.create(path(NODES), tree("StorageNode", name))
    time = objects.time_text(CLOCK.now() + 3600 - silent)  # so that it lives as long as the test
    ready = [{"path": "/disk", "size": 1 << 30}]
    status = {"address": "127.0.0.1", "heartbeatTime": time, "ready": ready}
    await api.merge(path(NODES, name, "status"), {"status": status})


def test_operator_places_replaces_and_reports(bayplan_cluster: ClusterHandle) -> None:
    async def steps(api: Api) -> None:
        informers = InformerFactory(api.client, CLOCK, SystemRandomness())
        operator = StorageOperator(api, informers, POD, CLOCK)
        informers.start()
        await informers.wait_for_sync()
        running = asyncio.create_task(operator.run())
        try:
            await api.create(path(CLUSTERS), tree("StorageCluster", "storage"))
            for name in ("a", "b", "c"):
                await report(api, name)
            await api.create(path(VOLUMES), tree("ReplicatedVolume", "v", size=SIZE, replicas=2))

            async def on(*names: str) -> bool:
                return [one.node for one in (await api.volume("v"))[0].placement] == [*names]

            async def healthy(status: str, state: str) -> bool:
                said = (await api.get(path(CLUSTERS, "storage"))).get("status") or {}
                conditions = {one["type"]: one["status"] for one in said.get("conditions", ())}
                volume = (await api.get(path(VOLUMES, "v"))).get("status") or {}
                return conditions.get("Healthy") == status and volume.get("state") == state

            await eventually(lambda: on("a", "b"), "a and b")
            record = StatusRecord(api, "v", "", 0, CLOCK)
            await record.put(("a", "b"), ())
            await eventually(lambda: healthy("True", "Healthy"), "healthy")
            await api.delete(path(NODES, "a"))
            await eventually(lambda: on("b", "c"), "b and c")
            await eventually(lambda: healthy("False", "Degraded"), "degraded")
            await record.put(("b",), ("c",))
            await eventually(lambda: healthy("False", "Rebuilding"), "rebuilding")
            await record.put(("b", "c"), ())
            await eventually(lambda: healthy("True", "Healthy"), "healthy")
            agents = await api.get(f"/apis/apps/v1/namespaces/{objects.NAMESPACE}/daemonsets/storage-agent")
            assert agents["metadata"]["ownerReferences"][0]["name"] == "storage"
            assert (await api.get("/apis/storage.k8s.io/v1/storageclasses/replicated"))["parameters"] == {
                "replicas": "2",
                "minInSync": "1",
            }
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await informers.stop()

    with_api(bayplan_cluster, steps)


def test_head_records_under_its_own_epoch_only(bayplan_cluster: ClusterHandle) -> None:
    async def steps(api: Api) -> None:
        await api.create(path(VOLUMES), tree("ReplicatedVolume", "v", size=SIZE, replicas=2))
        await api.merge(path(VOLUMES, "v", "status"), {"status": {"epoch": 4, "holder": "a"}})
        current = StatusRecord(api, "v", "a", 4, CLOCK)
        await asyncio.gather(
            current.put(("b", "a"), ()), api.merge(path(VOLUMES, "v", "status"), {"status": {"state": "Healthy"}})
        )
        assert (await api.volume("v"))[0].in_sync == ("a", "b")
        for old in (StatusRecord(api, "v", "a", 3, CLOCK), StatusRecord(api, "v", "b", 4, CLOCK)):
            with pytest.raises(Fenced):
                await old.put(("b",), ())
        await current.release()
        assert (await api.volume("v"))[0].holder == ""
        with pytest.raises(Fenced):
            await StatusRecord(api, "gone", "a", 4, CLOCK).put((), ())

    with_api(bayplan_cluster, steps)


def test_volume_in_use_on_a_node_that_lives_is_not_taken_or_deleted(
    bayplan_cluster: ClusterHandle, tmp_path: Path
) -> None:
    async def steps(api: Api) -> None:
        for name in ("a", "b"):
            await report(api, name)
        placement = [{"node": "a", "disk": "/disk"}]
        await api.create(path(VOLUMES), tree("ReplicatedVolume", "v", size=SIZE, replicas=1, placement=placement))
        await api.merge(path(VOLUMES, "v", "status"), {"status": {"epoch": 1, "holder": "a", "inSync": ["a"]}})
        agent = Agent(api, "b", "127.0.0.1", 10.0, CLOCK)
        with pytest.raises(DriverError, match="in use on node a"):
            await agent.stage("v", tmp_path / "staging")
        service = ControllerService(api)
        with pytest.raises(DriverError, match="in use on a"):
            await service.delete_volume(csi.DeleteVolumeRequest("v"))
        assert (await api.volume("v"))[0].epoch == 1
        await report(api, "a", silent=3600 + 11)
        with pytest.raises(OSError, match="no replica that is in sync"):
            await agent.stage("v", tmp_path / "staging")
        taken = (await api.volume("v"))[0]
        assert (taken.epoch, taken.holder, taken.in_sync) == (2, "b", ("a",)), (
            "nothing is struck off that nobody else has"
        )

    with_api(bayplan_cluster, steps)


def test_claims_become_replicated_volumes(bayplan_cluster: ClusterHandle) -> None:
    async def steps(api: Api) -> None:
        service = ControllerService(api)
        mount = csi.VolumeCapability(
            mount=csi.MountVolume("ext4"), access_mode=csi.AccessMode(csi.Access.SINGLE_NODE_WRITER)
        )
        request = csi.CreateVolumeRequest(
            "pvc-1", csi.CapacityRange(SIZE), (mount,), {"replicas": "3", "minInSync": "2"}
        )
        creating = asyncio.create_task(service.create_volume(request))

        async def exists() -> bool:
            return bool((await api.get(path(VOLUMES)))["items"])

        await eventually(exists, "a volume")
        volume = (await api.volume("pvc-1"))[0]
        assert (volume.size, volume.replicas, volume.min_in_sync) == (SIZE, 3, 2)
        assert not creating.done(), "it waits for places"
        await api.merge(path(VOLUMES, "pvc-1"), {"spec": {"placement": [{"node": "a", "disk": "/disk"}]}})
        assert (await creating).volume == csi.Volume(SIZE, "pvc-1")
        again = csi.CreateVolumeRequest("pvc-1", csi.CapacityRange(2 * SIZE), (mount,), {})
        with pytest.raises(DriverError) as error:
            await service.create_volume(again)
        assert error.value.code == "ALREADY_EXISTS"
        await service.delete_volume(csi.DeleteVolumeRequest("pvc-1"))
        await service.delete_volume(csi.DeleteVolumeRequest("pvc-1"))
        assert (await api.get(path(VOLUMES)))["items"] == []

    with_api(bayplan_cluster, steps)


def test_there_is_one_storage_cluster_whose_numbers_fit(bayplan_cluster: ClusterHandle) -> None:
    async def steps(api: Api) -> None:
        for name, spec, reason in (
            ("other", {}, "is named storage"),
            ("storage", {"replicas": 2, "minInSync": 3}, "more than replicas"),
        ):
            with pytest.raises(ApiError, match=reason):
                await api.create(path(CLUSTERS), tree("StorageCluster", name, **spec))
        made = await api.create(path(CLUSTERS), tree("StorageCluster", "storage"))
        assert (made["spec"]["replicas"], made["spec"]["kubeletDirectory"]) == (2, "/var/lib/kubelet")

    with_api(bayplan_cluster, steps)
