"""Snapshots of volumes, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import apiextensions_v1, core_v1
from bayplan.csi import messages as csi
from bayplan.csi_controller.snapshot_kinds import DISCOVERY, definitions
from bayplan.testing.csi_driver import CONTROLLER, NAME, FakeDriver
from tests.csi_controller.scenario import GIB, ZONE, Scenario, claim, make, play, storage_class

CLAIM_FINALIZER = "snapshot.storage.kubernetes.io/pvc-as-source-protection"


async def define(here: Scenario) -> None:
    for tree in definitions():
        await here.create(from_tree(apiextensions_v1.CustomResourceDefinition, tree))

    async def served() -> bool:
        found = json.loads(await here.client.raw("GET", DISCOVERY))
        return len(found["resources"]) >= 5

    await here.eventually(served)


async def post(here: Scenario, kind: str, name: str, **fields: Any) -> None:
    plural = {"VolumeSnapshotClass": "volumesnapshotclasses"}.get(kind, f"{kind.lower()}s")
    where = f"/namespaces/default/{plural}" if kind == "VolumeSnapshot" else f"/{plural}"
    tree = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **fields.pop("metadata", {})},
        **fields,
    }
    await here.client.raw("POST", DISCOVERY + where, body=json.dumps(tree).encode())


async def get(here: Scenario, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await here.client.raw("GET", f"{DISCOVERY}/{path}"))
    return found


async def snapshot_of(here: Scenario, name: str = "snap") -> dict[str, Any]:
    return await get(here, f"namespaces/default/volumesnapshots/{name}")


async def delete(here: Scenario, path: str) -> None:
    await here.client.raw("DELETE", f"{DISCOVERY}/{path}")


async def missing(here: Scenario, path: str) -> bool:
    try:
        await get(here, path)
    except ApiError as error:
        return error.code == 404
    return False


async def is_ready(here: Scenario, name: str = "snap") -> bool:
    return bool((await snapshot_of(here, name)).get("status", {}).get("readyToUse"))


async def prepared(here: Scenario, policy: str = "Delete", **settings: Any) -> None:
    """A volume, and a class for snapshots."""
    await define(here)
    await here.start(**settings)
    await here.create(storage_class())
    await here.create(claim())
    await here.bound()
    await post(here, "VolumeSnapshotClass", "snaps", driver=NAME, deletionPolicy=policy, parameters={"speed": "high"})


async def take(here: Scenario, name: str = "snap", **spec: Any) -> None:
    spec = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "snaps", **spec}
    await post(here, "VolumeSnapshot", name, spec=spec)


def test_definitions_that_come_with_the_driver_are_soon_seen() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        await here.create(claim())
        await here.bound()
        await define(here)
        began = here.cluster.clock.monotonic()
        await post(here, "VolumeSnapshotClass", "snaps", driver=NAME, deletionPolicy="Delete")
        await take(here)
        await here.eventually(lambda: is_ready(here))
        assert here.cluster.clock.monotonic() - began < 5

    play(test)


def test_a_snapshot_is_taken_restored_and_deleted() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here, extra_create_metadata=True)
        await take(here)
        await here.eventually(lambda: is_ready(here))
        found = await snapshot_of(here)
        status = found["status"]
        assert (status["restoreSize"], "error" in status) == ("1Gi", False)
        assert status["creationTime"].startswith("2026-01-02T")
        name = status["boundVolumeSnapshotContentName"]
        assert name == f"snapcontent-{found['metadata']['uid']}"
        content = await get(here, f"volumesnapshotcontents/{name}")
        assert content["status"]["snapshotHandle"] == "snapshot-2"
        assert content["spec"]["source"] == {"volumeHandle": "volume-1"}
        assert content["spec"]["volumeSnapshotRef"]["uid"] == found["metadata"]["uid"]
        (request,) = here.driver.requests("CreateSnapshot")
        assert request.name == f"snapshot-{found['metadata']['uid']}"
        assert request.parameters["speed"] == "high"
        assert request.parameters["csi.storage.k8s.io/volumesnapshot/name"] == "snap"
        source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
        await here.create(claim("restored", dataSource=source))
        await here.bound("restored")
        assert here.driver.requests("CreateVolume")[-1].volume_content_source == csi.VolumeContentSource(
            snapshot=csi.SnapshotSource("snapshot-2")
        )
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))
        await here.eventually(lambda: missing(here, f"volumesnapshotcontents/{name}"))
        assert here.driver.snapshots == {}
        assert len(here.driver.requests("DeleteSnapshot")) == 1

    play(test)


def test_a_snapshot_that_is_retained_stays_in_the_driver() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here, "Retain")
        await take(here)
        await here.eventually(lambda: is_ready(here))
        name = (await snapshot_of(here))["status"]["boundVolumeSnapshotContentName"]
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))
        await here.cluster.settle()
        await delete(here, f"volumesnapshotcontents/{name}")
        await here.eventually(lambda: missing(here, f"volumesnapshotcontents/{name}"))
        assert list(here.driver.snapshots) == ["snapshot-2"]

    play(test)


def test_a_snapshot_becomes_ready_later_and_is_taken_once() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        here.driver.snapshots_are_ready = False
        here.driver.lose("CreateSnapshot")
        await take(here)

        async def taken() -> bool:
            return "creationTime" in (await snapshot_of(here)).get("status", {})

        await here.eventually(taken)
        assert not await is_ready(here)
        assert len(here.driver.snapshots) == 1

        async def released() -> bool:
            return CLAIM_FINALIZER not in (await here.claim()).metadata.finalizers

        await here.eventually(released)
        here.driver.snapshots_are_ready = True
        await here.eventually(lambda: is_ready(here))
        await here.cluster.settle()
        before = len(here.driver.requests("CreateSnapshot"))
        await here.cluster.advance(hours=1)
        assert len(here.driver.requests("CreateSnapshot")) == before
        assert len(here.driver.snapshots) == 1

    play(test)


def test_what_stands_in_the_way_is_told_until_it_is_over() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        here.driver.fail("CreateSnapshot", "INTERNAL", "no room for copies", times=3)
        await take(here)

        async def told() -> bool:
            error = (await snapshot_of(here)).get("status", {}).get("error")
            return error is not None and "no room for copies" in error["message"]

        await here.eventually(told)
        assert CLAIM_FINALIZER in (await here.claim()).metadata.finalizers
        await here.eventually(lambda: is_ready(here))
        assert "error" not in (await snapshot_of(here))["status"]
        assert await here.told("SnapshotCreationFailed", "no room for copies")

    play(test)


def test_a_snapshot_of_nothing_waits_for_its_claim_and_class() -> None:
    async def test(here: Scenario) -> None:
        await define(here)
        await here.start()
        await here.create(storage_class())
        await post(here, "VolumeSnapshotClass", "snaps", driver=NAME, deletionPolicy="Delete")
        await take(here)
        await take(here, "nameless", volumeSnapshotClassName=None)

        async def told() -> bool:
            error = (await snapshot_of(here)).get("status", {}).get("error")
            return error is not None and "not yet bound" in error["message"]

        await here.eventually(told)
        await here.create(claim())
        await here.eventually(lambda: is_ready(here))

        async def no_default() -> bool:
            error = (await snapshot_of(here, "nameless")).get("status", {}).get("error")
            return error is not None and "cannot find default snapshot class" in error["message"]

        await here.eventually(no_default)
        mark = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
        await post(
            here, "VolumeSnapshotClass", "usual", driver=NAME, deletionPolicy="Delete", metadata={"annotations": mark}
        )
        await here.eventually(lambda: is_ready(here, "nameless"))
        assert len(here.driver.snapshots) == len(here.driver.requests("CreateSnapshot")) == 2

    play(test)


@pytest.mark.parametrize("listed", [True, False])
def test_a_snapshot_that_was_taken_before_is_bound(listed: bool) -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        here.driver.snapshots["old"] = csi.Snapshot(2 * GIB, "old", "volume-1", 1_000_000_000, True)
        reference = {"name": "snap", "namespace": "default"}
        spec = {"driver": NAME, "deletionPolicy": "Delete", "source": {"snapshotHandle": "old"}}
        await take(here, source={"volumeSnapshotContentName": "old-content"}, volumeSnapshotClassName=None)
        await post(here, "VolumeSnapshotContent", "old-content", spec={**spec, "volumeSnapshotRef": reference})
        await here.eventually(lambda: is_ready(here))
        found = await snapshot_of(here)
        assert found["status"]["boundVolumeSnapshotContentName"] == "old-content"
        assert found["status"]["restoreSize"] == ("2Gi" if listed else "0")
        assert here.driver.requests("CreateSnapshot") == []
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: missing(here, "volumesnapshotcontents/old-content"))
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))
        assert here.driver.snapshots == {}

    kept = CONTROLLER if listed else CONTROLLER - {csi.ControllerCapability.LIST_SNAPSHOTS}
    play(test, controller=kept)


def test_a_content_of_another_snapshot_is_not_taken() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        reference = {"name": "theirs", "namespace": "default"}
        spec = {"driver": NAME, "deletionPolicy": "Delete", "source": {"snapshotHandle": "old"}}
        await post(here, "VolumeSnapshotContent", "old-content", spec={**spec, "volumeSnapshotRef": reference})
        await take(here, source={"volumeSnapshotContentName": "old-content"}, volumeSnapshotClassName=None)

        async def told() -> bool:
            error = (await snapshot_of(here)).get("status", {}).get("error")
            return error is not None and "bound to a different snapshot" in error["message"]

        await here.eventually(told)
        content = await get(here, "volumesnapshotcontents/old-content")
        assert "uid" not in content["spec"]["volumeSnapshotRef"]

    play(test)


def test_a_deletion_that_fails_is_tried_again() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        await take(here)
        await here.eventually(lambda: is_ready(here))
        here.driver.fail("DeleteSnapshot", "UNAVAILABLE", "busy", times=2)
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: here.told("SnapshotDeleteError", "busy"))
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))
        assert here.driver.snapshots == {}

    play(test)


def test_a_snapshot_stays_while_a_volume_is_made_from_it() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        await take(here)
        await here.eventually(lambda: is_ready(here))
        here.driver.fail("CreateVolume", "INTERNAL", "slow", times=4)
        source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
        await here.create(claim("restored", dataSource=source))
        await here.eventually(lambda: here.told("ProvisioningFailed", "slow"))
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: here.told("SnapshotDeletePending", "used to restore"))
        assert here.driver.snapshots != {}
        await here.client.delete(core_v1.PersistentVolumeClaim, "restored", "default")
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))

    play(test)


def test_instances_on_nodes_take_the_snapshots_of_their_volumes() -> None:
    async def test(here: Scenario) -> None:
        drivers = {name: FakeDriver(here.cluster.clock, topology={ZONE: name}) for name in ("node-1", "node-2")}
        await define(here)
        await here.place({name: name for name in drivers})
        for name, driver in drivers.items():
            await here.start(driver, node_deployment=True, node_name=name)
        term = [{"matchLabelExpressions": [{"key": ZONE, "values": ["node-2"]}]}]
        await here.create(storage_class(allowedTopologies=term))
        await here.create(claim())
        await here.bound()
        await post(here, "VolumeSnapshotClass", "snaps", driver=NAME, deletionPolicy="Delete")
        await take(here)
        await here.eventually(lambda: is_ready(here))
        assert [len(one.snapshots) for one in drivers.values()] == [0, 1]
        source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
        await here.create(storage_class("anywhere"))
        await here.create(claim("restored", storage_class_name="anywhere", dataSource=source))
        await here.bound("restored")
        assert [len(one.volumes) for one in drivers.values()] == [0, 2]
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))
        assert [len(one.snapshots) for one in drivers.values()] == [0, 0]

    play(test, nodes=2)


def test_the_instance_that_has_a_snapshot_takes_a_content_that_names_no_node() -> None:
    async def test(here: Scenario) -> None:
        drivers = {name: FakeDriver(here.cluster.clock, topology={ZONE: name}) for name in ("node-1", "node-2")}
        await define(here)
        await here.place({name: name for name in drivers})
        for name, driver in drivers.items():
            await here.start(driver, node_deployment=True, node_name=name)
        drivers["node-2"].snapshots["old"] = csi.Snapshot(GIB, "old", "volume-1", 1_000_000_000, True)
        reference = {"name": "snap", "namespace": "default"}
        spec = {"driver": NAME, "deletionPolicy": "Delete", "source": {"snapshotHandle": "old"}}
        await post(here, "VolumeSnapshotContent", "old-content", spec={**spec, "volumeSnapshotRef": reference})
        await take(here, source={"volumeSnapshotContentName": "old-content"}, volumeSnapshotClassName=None)
        await here.eventually(lambda: is_ready(here))
        content = await get(here, "volumesnapshotcontents/old-content")
        assert content["metadata"]["labels"] == {"snapshot.storage.kubernetes.io/managed-by": "node-2"}
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: missing(here, "volumesnapshotcontents/old-content"))
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))
        assert drivers["node-2"].snapshots == {}
        assert drivers["node-1"].requests("DeleteSnapshot") == []

    play(test, nodes=2)


def test_without_definitions_all_else_works_and_snapshots_follow_them() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        await here.create(claim())
        await here.bound()
        await define(here)
        await post(here, "VolumeSnapshotClass", "snaps", driver=NAME, deletionPolicy="Delete")
        await take(here)
        await here.eventually(lambda: is_ready(here))
        assert [one.source_volume_id for one in here.driver.requests("CreateSnapshot")] == list(here.driver.volumes)

    play(test)


def test_secrets_for_snapshots_are_given_to_the_driver() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        keys = {
            "csi.storage.k8s.io/snapshotter-secret-name": "for-${volumesnapshot.name}",
            "csi.storage.k8s.io/snapshotter-secret-namespace": "${volumesnapshot.namespace}",
        }
        await post(here, "VolumeSnapshotClass", "secret", driver=NAME, deletionPolicy="Delete", parameters=keys)
        await here.create(make(core_v1.Secret, "for-snap", stringData={"key": "hunter2"}))
        await take(here, volumeSnapshotClassName="secret")
        await here.eventually(lambda: is_ready(here))
        assert here.driver.requests("CreateSnapshot")[0].secrets == {"key": "hunter2"}
        await delete(here, "namespaces/default/volumesnapshots/snap")
        await here.eventually(lambda: missing(here, "namespaces/default/volumesnapshots/snap"))
        assert here.driver.requests("DeleteSnapshot")[0].secrets == {"key": "hunter2"}

    play(test)


def test_a_snapshot_that_fails_is_tried_again_later_and_later() -> None:
    async def test(here: Scenario) -> None:
        await prepared(here)
        here.driver.fail("CreateSnapshot", "INTERNAL", "broken", times=10_000)
        await take(here)
        await here.cluster.advance(minutes=10)
        assert 8 <= len(here.driver.requests("CreateSnapshot")) <= 14

    play(test)
