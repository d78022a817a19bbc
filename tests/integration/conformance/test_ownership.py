"""What becomes of dependents when their owner is deleted. Conformance: Garbage collector."""

from __future__ import annotations

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object, pod
from tests.integration.conformance.workloads import Space, Workloads, controller, template, workload

MANY = 100
"""Pods of the tests that are about many: eight tenths of what two nodes hold are more."""


async def delete(space: Space, path: str, policy: str, owner: Object) -> None:
    """Delete this very object, with this policy."""
    body = {"propagationPolicy": policy, "preconditions": {"uid": owner["metadata"]["uid"]}}
    await space.api.delete(path, body)


async def replication_controller(space: Space, name: str, replicas: int) -> Object:
    """Create one; its pods are not waited for."""
    labels = {f"of-{name}": "yes"}
    spec = {"replicas": replicas, "selector": labels, "template": template(labels)}
    return await space.api.create(
        space.core("replicationcontrollers"), {"metadata": {"name": name, "namespace": space.name}, "spec": spec}
    )


async def full_controller(space: Space, name: str) -> Object:
    """Create one of many pods and wait until all of them are counted."""
    made = await replication_controller(space, name, MANY)
    await space.until(space.core(f"replicationcontrollers/{name}"), lambda one: one["status"]["replicas"] == MANY)
    return made


async def add_owner(space: Space, one: Object, reference: Object) -> None:
    """Give a pod one owner more."""
    patch = {"metadata": {"ownerReferences": [reference]}}
    await space.api.patch(space.core(f"pods/{one['metadata']['name']}"), patch, STRATEGIC_PATCH)


async def deployment(space: Space) -> Object:
    """Create one of two pods and wait for its ReplicaSet."""
    labels = {"app": "owned"}
    made = await space.api.create(
        space.apps("deployments"),
        workload("owned", labels, template(labels), replicas=2, strategy={"type": "RollingUpdate"}),
    )

    async def has_set() -> bool:
        return bool(await space.api.names(space.apps("replicasets")))

    await eventually(has_set)
    return made


async def remain(space: Space, **counts: int) -> bool:
    """Exactly so many objects are left of each of these resources."""
    paths = {
        name: space.core(name) if name in ("pods", "replicationcontrollers") else space.apps(name) for name in counts
    }
    found = {name: len(await space.api.names(path)) for name, path in paths.items()}
    assert found == counts, found
    return True


async def collector_has_looked(space: Space) -> None:
    """Whatever the garbage collector might take by mistake, it has had its chance: something that came later is gone."""
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "00000000-0000-4000-8000-000000000000"}
    await space.api.create(space.core("configmaps"), {"metadata": {"name": "stray", "ownerReferences": [absent]}})
    await space.gone(space.core("configmaps/stray"))


def test_pods_go_with_their_replication_controller(workloads: Workloads) -> None:
    """Garbage collector should delete pods created by rc when not orphaning."""

    async def scenario(space: Space) -> None:
        owner = await replication_controller(space, "owner", 2)

        async def has_pods() -> bool:
            return bool(await space.pods())

        await eventually(has_pods)
        await delete(space, space.core("replicationcontrollers/owner"), "Background", owner)
        assert await eventually(lambda: remain(space, replicationcontrollers=0, pods=0))

    workloads.run(scenario)


def test_many_pods_are_orphaned(workloads: Workloads) -> None:
    """Garbage collector should orphan pods created by rc if delete options say so."""

    async def scenario(space: Space) -> None:
        owner = await full_controller(space, "owner")
        await delete(space, space.core("replicationcontrollers/owner"), "Orphan", owner)
        await space.gone(space.core("replicationcontrollers/owner"))
        await collector_has_looked(space)
        pods = await space.pods()
        assert len(pods) == MANY
        assert not any("deletionTimestamp" in one["metadata"] or controller(one) for one in pods)

    workloads.run(scenario)


def test_a_replica_set_goes_with_its_deployment(workloads: Workloads) -> None:
    """Garbage collector should delete RS created by deployment when not orphaning."""

    async def scenario(space: Space) -> None:
        made = await deployment(space)
        await delete(space, space.apps("deployments/owned"), "Background", made)
        assert await eventually(lambda: remain(space, deployments=0, replicasets=0, pods=0))

    workloads.run(scenario)


def test_a_replica_set_is_orphaned(workloads: Workloads) -> None:
    """Garbage collector should orphan RS created by deployment when deleteOptions.PropagationPolicy is Orphan."""

    async def scenario(space: Space) -> None:
        made = await deployment(space)
        await delete(space, space.apps("deployments/owned"), "Orphan", made)
        await eventually(lambda: remain(space, deployments=0, replicasets=1, pods=2))
        await collector_has_looked(space)
        assert await remain(space, deployments=0, replicasets=1, pods=2)
        (left,) = (await space.api.get(space.apps("replicasets")))["items"]
        assert controller(left) is None

    workloads.run(scenario)


def test_an_owner_stays_until_all_its_pods_are_gone(workloads: Workloads) -> None:
    """Garbage collector should keep the rc around until all its pods are deleted if the deleteOptions says so."""

    async def scenario(space: Space) -> None:
        owner = await full_controller(space, "owner")
        await delete(space, space.core("replicationcontrollers/owner"), "Foreground", owner)
        await space.gone(space.core("replicationcontrollers/owner"))
        assert not await space.pods()

    workloads.run(scenario)


def test_a_second_owner_keeps_what_the_first_would_take_along(workloads: Workloads) -> None:
    """Garbage collector should not delete dependents that have both valid owner and owner that's waiting for dependents to be deleted."""

    async def scenario(space: Space) -> None:
        going = await full_controller(space, "going")
        staying = await replication_controller(space, "staying", 0)
        reference = {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "name": "staying",
            "uid": staying["metadata"]["uid"],
        }
        for one in (await space.pods())[: MANY // 2]:
            await add_owner(space, one, reference)
        await delete(space, space.core("replicationcontrollers/going"), "Foreground", going)
        await space.gone(space.core("replicationcontrollers/going"))
        left = await space.pods()
        assert len(left) == MANY // 2
        for one in left:
            assert "deletionTimestamp" not in one["metadata"]
            assert [each["uid"] for each in one["metadata"]["ownerReferences"]] == [staying["metadata"]["uid"]]

    workloads.run(scenario)


def test_a_circle_of_pods_goes_as_a_whole(workloads: Workloads) -> None:
    """Garbage collector should not be blocked by dependency circle."""

    async def scenario(space: Space) -> None:
        circle = [
            await space.api.create(space.core("pods"), pod(f"pod{number}", terminationGracePeriodSeconds=0))
            for number in (1, 2, 3)
        ]
        for one, owner in zip(circle, (circle[2], *circle[:2]), strict=True):
            reference = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
            await add_owner(space, one, reference)
        await delete(space, space.core("pods/pod1"), "Foreground", circle[0])
        assert await eventually(lambda: remain(space, pods=0))

    workloads.run(scenario)
