"""A cluster that begins with a copy goes on as if nothing had happened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bayplan.api.codec import encode
from bayplan.api.nodes import SIMULATED
from bayplan.api.types import apps_v1, batch_v1, core_v1, meta_v1, storage_v1
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.controllers.workloads.job_indexes import ANNOTATION
from bayplan.controllers.workloads.job_rules import FIRST_BACK_OFF
from bayplan.kubelet.simulator.nodes.objects import SILENT
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.readers.live import read_live
from bayplan.simulation.snapshots.anonymize import anonymized
from bayplan.simulation.snapshots.revival import revived
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.testing.builders import container, deployment, node, owner, pod, selector, template
from bayplan.testing.cluster import PATIENCE, LiveCluster, eventually, running_cluster
from tests.simulation.objects import copy_of, running

NOW = 1_767_323_045.0


@contextlib.asynccontextmanager
async def begun_with(copy: ClusterSnapshot) -> AsyncIterator[LiveCluster]:
    settings = ClusterSettings(nodes=SimulatorSettings(adopts=True, start_seconds=0.01, stop_seconds=0.01))
    cluster = Cluster(settings, contents=revived(copy, NOW))
    await cluster.start()
    try:
        yield LiveCluster(cluster, cluster.client())
    finally:
        await cluster.stop()


async def uids(cluster: LiveCluster, cls: Any) -> dict[str, str]:
    found = (await cluster.client.list(cls)).items
    return {f"{one.metadata.namespace}/{one.metadata.name}": one.metadata.uid for one in found}


def workloads() -> list[Any]:
    hidden = container(cpu="100m", env=(core_v1.EnvVar(name="A", value="hush"),))
    stateful = apps_v1.StatefulSet()
    stateful.metadata.name, stateful.metadata.namespace = "db", "default"
    stateful.spec = apps_v1.StatefulSetSpec(
        replicas=2, selector=selector({"app": "db"}), template=template({"app": "db"}), service_name="db"
    )
    daemon = apps_v1.DaemonSet()
    daemon.metadata.name, daemon.metadata.namespace = "agent", "default"
    daemon.spec = apps_v1.DaemonSetSpec(selector=selector({"app": "agent"}), template=template({"app": "agent"}))
    return [deployment("web", 3, pod_spec={"containers": (hidden,)}), stateful, daemon]


async def all_run(cluster: LiveCluster) -> bool:
    return (
        len(await cluster.ready_pods()) == 7
        and (await cluster.client.get(apps_v1.StatefulSet, "db", "default")).status.ready_replicas == 2
    )


def test_controllers_find_their_pods_and_make_no_others() -> None:
    async def main(change: Any) -> None:
        async with running_cluster(nodes=2) as first:
            for one in workloads():
                await first.client.create(one)
            await first.eventually(lambda: all_run(first))
            copy = await read_live(first.client, taken_at="")
        copy = change(copy)
        async with begun_with(copy) as second:
            before = {f"default/{one.metadata.name}": one.metadata.uid for one in copy.of("Pod")}
            name = copy.of("Deployment")[0].metadata.name
            await second.client.patch(apps_v1.Deployment, name, "default", {"spec": {"replicas": 4}})
            await second.rolled_out(name, 4)
            after = await uids(second, core_v1.Pod)
            assert {key: after.get(key) for key in before} == before
            assert len(after) == len(before) + 1
            for cls in (apps_v1.ReplicaSet, apps_v1.ControllerRevision):
                assert len(await uids(second, cls)) == len(copy.of(cls.__name__))

    asyncio.run(main(lambda copy: copy))
    asyncio.run(main(anonymized))
    asyncio.run(main(_without_revisions))


def test_pods_of_an_indexed_job_keep_their_part_of_the_work() -> None:
    async def indexes(cluster: LiveCluster) -> dict[str, str]:
        found = (await cluster.client.list(core_v1.Pod)).items
        return {one.metadata.annotations.get(ANNOTATION, ""): one.metadata.uid for one in found}

    async def main() -> None:
        job = batch_v1.Job()
        job.metadata.name, job.metadata.namespace = "shards", "default"
        job.spec = batch_v1.JobSpec(
            completions=2, parallelism=2, completion_mode="Indexed", template=template({}, restart_policy="Never")
        )
        job.spec.template.metadata.annotations = {"bayplan.dev/run-seconds": "3600"}
        async with running_cluster(nodes=1) as first:
            await first.client.create(job)
            await first.eventually(lambda: _all_run(first, 2))
            copy = await read_live(first.client, taken_at="")
        async with begun_with(copy) as second:
            before = await indexes(second)
            gone = next(one for one in copy.of("Pod") if one.metadata.uid == before["0"])
            await second.client.delete(core_v1.Pod, gone.metadata.name, "default")
            wait = FIRST_BACK_OFF + PATIENCE  # a pod that is gone counts as failed
            await second.eventually(lambda: _made_again(second, indexes, before), within=wait)
            after = await indexes(second)
            assert (sorted(after), after["1"]) == (["0", "1"], before["1"])

    asyncio.run(main())


async def _all_run(cluster: LiveCluster, count: int) -> bool:
    return len(await cluster.ready_pods()) == count


async def _made_again(cluster: LiveCluster, indexes: Any, before: dict[str, str]) -> bool:
    return (await indexes(cluster)).get("0", before["0"]) != before["0"] and await _all_run(cluster, 2)


def _without_revisions(copy: ClusterSnapshot) -> ClusterSnapshot:
    """As what `kubectl get` prints of the usual kinds."""
    revisions = copy.objects.pop("ControllerRevision")
    copy.objects["ControllerRevision"] = []
    made = revived(copy, NOW)
    names = sorted(obj.metadata.name for kind, obj in made if kind.kind == "ControllerRevision")
    assert names == sorted(one.metadata.name for one in revisions)
    copy.objects["ControllerRevision"] = [obj for kind, obj in made if kind.kind == "ControllerRevision"]
    return copy


def test_pending_pods_are_scheduled_and_nodes_stay_ready() -> None:
    async def main() -> None:
        async with begun_with(copy_of(node("a"), running("there", "a"), pod("new", cpu="1"))) as cluster:
            await cluster.eventually(lambda: _runs(cluster, "new"))
            assert (await cluster.client.get(core_v1.Pod, "there", "default")).metadata.uid == "uid-there"
            assert (await cluster.client.get(core_v1.Node, "a")).status.allocatable["cpu"] == "4"

    asyncio.run(main())


async def _runs(cluster: LiveCluster, name: str) -> bool:
    return (await cluster.client.get(core_v1.Pod, name, "default")).status.phase == "Running"


def test_addresses_of_services_of_the_copy_are_not_given_away_again() -> None:
    async def main() -> None:
        taken = core_v1.Service(
            metadata=node("svc").metadata,
            spec=core_v1.ServiceSpec(cluster_ip="10.96.0.77", cluster_ips=("10.96.0.77",)),
        )
        taken.metadata.namespace, taken.metadata.labels = "default", {}
        taken.spec.ports = (core_v1.ServicePort(port=80),)
        async with begun_with(copy_of(taken)) as cluster:
            other = core_v1.Service(
                spec=core_v1.ServiceSpec(cluster_ip="10.96.0.77", ports=(core_v1.ServicePort(port=80),))
            )
            other.metadata.name, other.metadata.namespace = "other", "default"
            assert await eventually(lambda: _refused(cluster, other))

    asyncio.run(main())


async def _refused(cluster: LiveCluster, one: core_v1.Service) -> bool:
    from bayplan.api.errors import ApiError

    try:
        await cluster.client.create(one)
    except ApiError as error:
        return "already allocated" in error.message
    return False


def found(copy: ClusterSnapshot, kind: str) -> list[Any]:
    return [obj for row, obj in revived(copy, NOW) if row.kind == kind]


def test_owners_that_were_not_copied_own_nothing() -> None:
    missing = apps_v1.ReplicaSet()
    missing.metadata.name, missing.metadata.uid = "gone", "u"
    orphan = running("p", "a", meta={"owners": (owner(missing, "ReplicaSet"),)})
    assert found(copy_of(node("a"), orphan), "Pod")[0].metadata.owner_references == ()


def test_objects_without_identity_get_one_and_owners_are_found_by_name() -> None:
    replicas = apps_v1.ReplicaSet()
    replicas.metadata.name, replicas.metadata.namespace = "web", "default"
    copy = copy_of(node("a"), replicas, running("p", "a", meta={"owners": (owner(replicas, "ReplicaSet"),)}))
    uid = found(copy, "ReplicaSet")[0].metadata.uid
    assert uid
    assert found(copy, "Pod")[0].metadata.owner_references[0].uid == uid
    assert copy.of("ReplicaSet")[0].metadata.uid == ""


def test_namespaces_and_accounts_that_pods_need_are_made() -> None:
    copy = copy_of(node("a"), running("p", "a", namespace="shop", service_account_name="cashier"))
    assert [one.metadata.name for one in found(copy, "Namespace")] == ["shop"]
    assert [(one.metadata.namespace, one.metadata.name) for one in found(copy, "ServiceAccount")] == [
        ("shop", "cashier")
    ]


def test_nodes_are_played_and_lost_ones_stay_silent() -> None:
    copy = copy_of(node("a"), node("b", conditions={"Ready": "Unknown"}))
    nodes = {one.metadata.name: one.metadata.annotations for one in found(copy, "Node")}
    assert nodes == {"a": {SIMULATED: "true"}, "b": {SIMULATED: "true", SILENT: "true"}}
    assert [one.metadata.name for one in found(copy, "Lease")] == ["a"]


def test_cron_jobs_do_not_make_up_for_the_time_since() -> None:
    job = batch_v1.CronJob()
    job.metadata.name, job.metadata.namespace = "nightly", "default"
    job.spec.schedule = "0 3 * * *"
    assert found(copy_of(job), "CronJob")[0].status.last_schedule_time == "2026-01-02T03:04:05Z"


def test_equal_copies_give_equal_clusters() -> None:
    copy = copy_of(node("a"), running("p", "a", namespace="shop"))
    assert [encode(obj) for _, obj in revived(copy, NOW)] == [encode(obj) for _, obj in revived(copy, NOW)]


def test_a_lost_node_comes_back_as_it_was_when_its_silence_ends() -> None:
    async def main() -> None:
        lost = node("a", cpu="4", conditions={"Ready": "Unknown"})
        lost.status.capacity = {**lost.status.capacity, "cpu": "5"}
        async with begun_with(copy_of(lost)) as cluster:
            patch = {"metadata": {"annotations": {SILENT: None}}}
            await cluster.client.patch(core_v1.Node, "a", "", patch)
            await cluster.eventually(lambda: _ready(cluster))
            status = (await cluster.client.get(core_v1.Node, "a")).status
            assert (status.capacity["cpu"], status.allocatable["cpu"]) == ("5", "4")

    asyncio.run(main())


async def _ready(cluster: LiveCluster) -> bool:
    found = await cluster.client.get(core_v1.Node, "a")
    return any(one.type == "Ready" and one.status == "True" for one in found.status.conditions)


def storage_class(name: str, mark: str = "") -> storage_v1.StorageClass:
    annotations = {mark: "true"} if mark else {}
    return storage_v1.StorageClass(
        metadata=meta_v1.ObjectMeta(name=name, annotations=annotations), provisioner="disk.example.com"
    )


def test_a_copy_with_a_default_storage_class_gets_no_second_one() -> None:
    async def classes(copy: ClusterSnapshot) -> list[str]:
        async with begun_with(copy) as cluster:
            return [one.metadata.name for one in (await cluster.client.list(storage_v1.StorageClass)).items]

    for mark in ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"):
        assert asyncio.run(classes(copy_of(node("a"), storage_class("fast", mark)))) == ["fast"]
    assert asyncio.run(classes(copy_of(node("a"), storage_class("fast")))) == ["fast", "standard"]
