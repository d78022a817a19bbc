"""Volumes that are attached, made larger and modified, in virtual time."""

from __future__ import annotations

from typing import Any

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi_controller.attach_rules import NODE_ID
from bayplan.testing.csi_driver import CONTROLLER, NAME, NODE
from tests.csi_controller.scenario import GIB, Scenario, claim, make, play, pod, storage_class

FINALIZER = "external-attacher/fake-csi-bayplan-dev"


async def with_volume(here: Scenario, **settings: Any) -> core_v1.PersistentVolume:
    await here.start(**settings)
    await here.create(storage_class())
    await here.create(claim())
    return await here.bound()


async def attachment(here: Scenario) -> storage_v1.VolumeAttachment | None:
    found = (await here.client.list(storage_v1.VolumeAttachment)).items
    return found[0] if found else None


async def attach(here: Scenario, node: str = "node-1") -> storage_v1.VolumeAttachment:
    source = {"persistentVolumeName": (await here.volumes())[0].metadata.name}
    spec = {"attacher": NAME, "nodeName": node, "source": source}
    found: storage_v1.VolumeAttachment = await here.create(make(storage_v1.VolumeAttachment, "va", "", spec=spec))
    return found


async def grow(here: Scenario, size: str) -> None:
    patch = {"spec": {"resources": {"requests": {"storage": size}}}}
    await here.client.patch(core_v1.PersistentVolumeClaim, "data", "default", patch)


def test_the_volume_of_a_pod_is_attached_to_its_node_and_detached_from_it() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a"})
        await with_volume(here)
        await here.create(pod("web", "data"))

        async def attached() -> bool:
            found = await attachment(here)
            return found is not None and found.status.attached

        await here.eventually(attached)
        found = await attachment(here)
        assert found is not None
        assert found.metadata.finalizers == (FINALIZER,)
        assert found.metadata.annotations[NODE_ID] == "id-of-node-1"
        assert found.status.attachment_metadata == {"device": "/dev/volume-1"}
        assert here.driver.published == {"volume-1": {"id-of-node-1"}}
        assert FINALIZER in (await here.bound()).metadata.finalizers
        (request,) = here.driver.requests("ControllerPublishVolume")
        assert request.volume_context["made-by"] == NAME
        await here.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        await here.client.delete(core_v1.Pod, "web", "default")

        async def all_gone() -> bool:
            return await attachment(here) is None and await here.has_no_volumes()

        await here.eventually(all_gone, 1200.0)
        order = [name for name, _ in here.driver.calls if name in ("ControllerUnpublishVolume", "DeleteVolume")]
        assert order == ["ControllerUnpublishVolume", "DeleteVolume"]

    play(test, nodes=1)


def test_errors_of_attaching_and_detaching_stand_in_the_status_until_they_are_over() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a"})
        await with_volume(here)
        here.driver.fail("ControllerPublishVolume", "RESOURCE_EXHAUSTED", "too many disks", times=3)
        await attach(here)

        async def refused() -> bool:
            found = await attachment(here)
            error = found.status.attach_error if found is not None else None
            return error is not None and "too many disks" in error.message and error.error_code == 8

        await here.eventually(refused)

        async def attached() -> bool:
            found = await attachment(here)
            return found is not None and found.status.attached and found.status.attach_error is None

        await here.eventually(attached)
        here.driver.fail("ControllerUnpublishVolume", "INTERNAL", "it is stuck", times=3)
        await here.client.delete(storage_v1.VolumeAttachment, "va")

        async def stuck() -> bool:
            found = await attachment(here)
            error = found.status.detach_error if found is not None else None
            return error is not None and "it is stuck" in error.message

        await here.eventually(stuck)
        await here.eventually(lambda: here.gone(storage_v1.VolumeAttachment, "va", ""))
        assert here.driver.published == {"volume-1": set()}

    play(test, nodes=1)


def test_a_volume_is_detached_from_a_node_that_has_gone() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a"})
        await with_volume(here)
        await attach(here)

        async def attached() -> bool:
            return bool(here.driver.published["volume-1"])

        await here.eventually(attached)
        await here.cluster.settle()
        await here.client.delete(storage_v1.CSINode, "node-1")
        await here.client.delete(storage_v1.VolumeAttachment, "va")
        await here.eventually(lambda: here.gone(storage_v1.VolumeAttachment, "va", ""))
        assert here.driver.requests("ControllerUnpublishVolume")[-1].node_id == "id-of-node-1"

    play(test, nodes=1)


def test_nothing_is_attached_to_a_node_without_the_driver() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a"})
        await with_volume(here)
        await attach(here, "elsewhere")

        async def refused() -> bool:
            found = await attachment(here)
            error = found.status.attach_error if found is not None else None
            return error is not None and 'csinode.storage.k8s.io "elsewhere" not found' in error.message

        await here.eventually(refused)
        found = await attachment(here)
        assert found is not None
        assert found.metadata.finalizers == ()
        assert here.driver.requests("ControllerPublishVolume") == []

    play(test, nodes=1)


def test_without_a_driver_that_attaches_attachments_are_carried_out_at_once() -> None:
    async def test(here: Scenario) -> None:
        await with_volume(here)
        await attach(here)

        async def attached() -> bool:
            found = await attachment(here)
            return found is not None and found.status.attached and not found.metadata.finalizers

        await here.eventually(attached)
        await here.client.delete(storage_v1.VolumeAttachment, "va")
        await here.eventually(lambda: here.gone(storage_v1.VolumeAttachment, "va", ""))
        for name in ("ControllerPublishVolume", "ControllerUnpublishVolume"):
            assert here.driver.requests(name) == []

    play(test, controller=CONTROLLER - {csi.ControllerCapability.PUBLISH_UNPUBLISH_VOLUME})


def test_a_claim_that_asks_for_more_gets_it_and_the_node_does_the_rest() -> None:
    async def test(here: Scenario) -> None:
        await with_volume(here)
        await grow(here, "2Gi")

        async def waits() -> bool:
            return (await here.claim()).status.allocated_resource_statuses == {"storage": "NodeResizePending"}

        await here.eventually(waits)
        found = await here.claim()
        assert str(found.status.allocated_resources["storage"]) == "2Gi"
        assert str(found.status.capacity["storage"]) == "1Gi"
        assert {one.type for one in found.status.conditions} == {"Resizing", "FileSystemResizePending"}
        assert str((await here.bound()).spec.capacity["storage"]) == "2Gi"
        assert here.driver.volumes["volume-1"].capacity_bytes == 2 * GIB
        assert await here.told("FileSystemResizeRequired", "Require file system resize")
        await here.cluster.settle()
        assert len(here.driver.requests("ControllerExpandVolume")) == 1

    play(test)


def test_without_work_for_the_node_the_claim_has_its_size_at_once() -> None:
    async def test(here: Scenario) -> None:
        await with_volume(here)
        await grow(here, "2Gi")

        async def done() -> bool:
            status = (await here.claim()).status
            return str(status.capacity["storage"]) == "2Gi" and not status.conditions

        await here.eventually(done)
        assert (await here.claim()).status.allocated_resource_statuses == {}
        assert await here.told("VolumeResizeSuccessful", "Resize volume succeeded")

    play(test, node=NODE - {csi.NodeCapability.EXPAND_VOLUME})


def test_a_size_that_cannot_be_is_taken_back_and_another_one_tried() -> None:
    async def test(here: Scenario) -> None:
        await with_volume(here)
        here.driver.fail("ControllerExpandVolume", "OUT_OF_RANGE", "too large")
        await grow(here, "100Gi")

        async def infeasible() -> bool:
            status = (await here.claim()).status
            return status.allocated_resource_statuses == {"storage": "ControllerResizeInfeasible"}

        await here.eventually(infeasible)
        await here.cluster.advance(minutes=2)
        assert len(here.driver.requests("ControllerExpandVolume")) == 1
        found = await here.claim()
        assert any("too large" in one.message for one in found.status.conditions if one.type == "ControllerResizeError")
        await grow(here, "2Gi")

        async def grown() -> bool:
            return here.driver.volumes["volume-1"].capacity_bytes == 2 * GIB

        await here.eventually(grown)
        assert str((await here.bound()).spec.capacity["storage"]) == "2Gi"

    play(test)


def test_an_infeasible_size_is_tried_again_after_five_minutes() -> None:
    async def test(here: Scenario) -> None:
        await with_volume(here)
        here.driver.fail("ControllerExpandVolume", "INVALID_ARGUMENT", "not today")
        await grow(here, "2Gi")
        await here.cluster.advance(minutes=4)
        assert here.driver.volumes["volume-1"].capacity_bytes == GIB
        await here.cluster.advance(minutes=4)
        assert here.driver.volumes["volume-1"].capacity_bytes == 2 * GIB

    play(test)


def test_while_the_outcome_is_not_known_no_other_size_is_tried() -> None:
    async def test(here: Scenario) -> None:
        await with_volume(here)
        here.driver.fail("ControllerExpandVolume", "DEADLINE_EXCEEDED", "slow", times=4)
        await grow(here, "4Gi")
        await here.eventually(lambda: here.told("VolumeResizeFailed", "slow"))
        await grow(here, "3Gi")

        async def grown() -> bool:
            return here.driver.volumes["volume-1"].capacity_bytes > GIB

        await here.eventually(grown)
        sizes = {one.capacity_range.required_bytes for one in here.driver.requests("ControllerExpandVolume")}
        assert sizes == {4 * GIB}

    play(test)


def test_a_driver_that_grows_nothing_in_use_is_asked_again_when_the_pod_is_gone() -> None:
    async def test(here: Scenario) -> None:
        await with_volume(here)
        await here.create(pod("web", "data", nodeName="node-1"))
        here.driver.fail("ControllerExpandVolume", "FAILED_PRECONDITION", "in use")
        await grow(here, "2Gi")
        await here.eventually(lambda: here.told("VolumeResizeFailed", "only supports offline expansion"))
        assert len(here.driver.requests("ControllerExpandVolume")) == 1
        await here.client.delete(core_v1.Pod, "web", "default")

        async def grown() -> bool:
            return here.driver.volumes["volume-1"].capacity_bytes == 2 * GIB

        await here.eventually(grown, 1200.0)

    play(test)


def attributes(name: str, **parameters: str) -> Any:
    return make(storage_v1.VolumeAttributesClass, name, "", driverName=NAME, parameters=parameters)


async def wants(here: Scenario, name: str) -> None:
    patch = {"spec": {"volumeAttributesClassName": name}}
    await here.client.patch(core_v1.PersistentVolumeClaim, "data", "default", patch)


async def has(here: Scenario, name: str) -> bool:
    status = (await here.claim()).status
    return status.current_volume_attributes_class_name == name and status.modify_volume_status is None


def test_a_volume_gets_the_attributes_of_the_class_that_its_claim_names() -> None:
    async def test(here: Scenario) -> None:
        await here.create(attributes("slow", iops="100"))
        await here.start()
        await here.create(storage_class())
        await here.create(claim(volumeAttributesClassName="slow"))
        await here.bound()
        assert here.driver.requests("CreateVolume")[0].mutable_parameters == {"iops": "100"}
        await wants(here, "quick")

        async def pending() -> bool:
            status = (await here.claim()).status.modify_volume_status
            return status is not None and (status.status, status.target_volume_attributes_class_name) == (
                "Pending",
                "quick",
            )

        await here.eventually(pending)
        here.driver.fail("ControllerModifyVolume", "INTERNAL", "not now")
        await here.create(attributes("quick", iops="900"))
        await here.eventually(lambda: has(here, "quick"))
        assert here.driver.modified == {"volume-1": {"iops": "900"}}
        assert (await here.bound()).spec.volume_attributes_class_name == "quick"
        assert (await here.claim()).status.conditions == ()
        assert await here.told("VolumeModifyFailed", "not now")

    play(test)


def test_attributes_that_cannot_be_are_told_and_others_tried() -> None:
    async def test(here: Scenario) -> None:
        for name, iops in (("quick", "900"), ("absurd", "many"), ("slow", "100")):
            await here.create(attributes(name, iops=iops))
        await with_volume(here)
        here.driver.fail("ControllerModifyVolume", "INVALID_ARGUMENT", "no number")
        await wants(here, "absurd")

        async def infeasible() -> bool:
            found = (await here.claim()).status
            told = {one.type: one.reason for one in found.conditions}
            status = found.modify_volume_status
            return (
                status is not None and status.status == "Infeasible" and told["ModifyVolumeError"] == "InvalidArgument"
            )

        await here.eventually(infeasible)
        await here.cluster.advance(minutes=2)
        assert len(here.driver.requests("ControllerModifyVolume")) == 1
        here.driver.fail("ControllerModifyVolume", "UNAVAILABLE", "gone", times=3)
        await wants(here, "quick")
        await here.eventually(lambda: here.told("VolumeModifyFailed", "Still modifying to VAC quick"))
        await wants(here, "slow")
        await here.eventually(lambda: has(here, "slow"))
        values = [one.mutable_parameters["iops"] for one in here.driver.requests("ControllerModifyVolume")]
        assert values == ["many", "900", "900", "900", "900", "100"]

    play(test)


def test_what_fails_is_tried_again_later_and_later() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a"})
        await here.create(attributes("quick", iops="900"))
        await with_volume(here)
        for call in ("ControllerPublishVolume", "ControllerExpandVolume", "ControllerModifyVolume"):
            here.driver.fail(call, "INTERNAL", "broken", times=10_000)
        await attach(here)
        await grow(here, "2Gi")
        await wants(here, "quick")
        await here.cluster.advance(minutes=10)
        for call in ("ControllerPublishVolume", "ControllerExpandVolume", "ControllerModifyVolume"):
            assert 6 <= len(here.driver.requests(call)) <= 14, call

    play(test, nodes=1)
