"""Volumes for claims: a whole cluster in virtual time, with a driver that does what it should, and one that does not."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi_controller.errors import StartError
from bayplan.csi_controller.provision_rules import FINALIZER, SELECTED_NODE
from bayplan.testing.csi_driver import CONTROLLER, NAME, FakeDriver
from tests.csi_controller.scenario import GIB, ZONE, Scenario, claim, make, play, pod, storage_class

DELAYED = "WaitForFirstConsumer"


def test_a_claim_gets_a_volume_and_takes_it_along() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class(parameters={"tier": "gold", "csi.storage.k8s.io/fstype": "xfs"}))
        await here.create(claim())
        volume = await here.bound()
        assert volume.metadata.name == f"pvc-{(await here.claim()).metadata.uid}"
        assert volume.metadata.annotations["pv.kubernetes.io/provisioned-by"] == NAME
        assert FINALIZER in volume.metadata.finalizers
        assert volume.spec.csi is not None
        assert (volume.spec.csi.volume_handle, volume.spec.csi.fs_type) == ("volume-1", "xfs")
        assert volume.spec.csi.volume_attributes["made-by"] == NAME
        assert str(volume.spec.capacity["storage"]) == "1Gi"
        assert volume.spec.node_affinity is None
        (request,) = here.driver.requests("CreateVolume")
        assert request.parameters == {"tier": "gold"}
        assert request.capacity_range == csi.CapacityRange(GIB)
        assert request.volume_capabilities == (
            csi.VolumeCapability(
                mount=csi.MountVolume("xfs"), access_mode=csi.AccessMode(csi.Access.SINGLE_NODE_WRITER)
            ),
        )
        assert await here.told("ProvisioningSucceeded", f"Successfully provisioned volume {volume.metadata.name}")
        assert await here.told("Provisioning", 'is provisioning volume for claim "default/data"')
        await here.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        await here.eventually(here.has_no_volumes)
        text = here.metrics.render().decode()
        assert 'persistentvolumeclaim_provision_total{class="fast",source=""} 1\n' in text
        assert 'method_name="/csi.v1.Controller/CreateVolume"' in text

    play(test)


def test_a_volume_that_is_retained_stays() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class(reclaimPolicy="Retain"))
        await here.create(claim())
        volume = await here.bound()
        assert FINALIZER not in volume.metadata.finalizers
        await here.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        await here.cluster.settle()
        (left,) = await here.volumes()
        assert left.status.phase == "Released"
        assert list(here.driver.volumes) == ["volume-1"]
        assert here.driver.requests("DeleteVolume") == []
        patch = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
        await here.client.patch(core_v1.PersistentVolume, left.metadata.name, "", patch)
        await here.eventually(here.has_no_volumes)
        assert [each.volume_id for each in here.driver.requests("DeleteVolume")] == ["volume-1"]

    play(test)


def test_the_finalizer_follows_the_reclaim_policy() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        await here.create(claim())
        name = (await here.bound()).metadata.name
        for policy, has in (("Retain", False), ("Delete", True)):
            patch = {"spec": {"persistentVolumeReclaimPolicy": policy}}
            await here.client.patch(core_v1.PersistentVolume, name, "", patch)

            async def follows(has: bool = has) -> bool:
                found = await here.client.get(core_v1.PersistentVolume, name)
                return (FINALIZER in found.metadata.finalizers) is has

            await here.eventually(follows)
            await here.cluster.settle()
            assert await follows(), "it stays so"

    play(test)


def test_a_volume_of_a_claim_that_waits_is_made_where_its_pod_is_put() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a", "node-2": "b", "node-3": "b"})
        await here.start(strict_topology=True)
        await here.create(storage_class(mode=DELAYED))
        await here.create(claim())
        await here.cluster.settle()
        assert here.driver.requests("CreateVolume") == []
        await here.create(pod("web", "data", nodeSelector={ZONE: "a"}))
        volume = await here.bound()
        (request,) = here.driver.requests("CreateVolume")
        zone = (csi.Topology({ZONE: "a"}),)
        assert request.accessibility_requirements == csi.TopologyRequirement(zone, zone)
        assert volume.spec.node_affinity is not None
        assert volume.spec.node_affinity.required is not None
        (term,) = volume.spec.node_affinity.required.node_selector_terms
        assert [(one.key, one.operator, one.values) for one in term.match_expressions] == [(ZONE, "In", ("a",))]

        async def runs() -> bool:
            return (await here.client.get(core_v1.Pod, "web", "default")).spec.node_name == "node-1"

        await here.eventually(runs)

    play(test, topology={ZONE: "a"})


def test_without_room_the_scheduler_chooses_again() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a", "node-2": "b"})
        await here.start()
        await here.create(storage_class(mode=DELAYED))
        await here.create(claim())
        here.driver.fail("CreateVolume", "RESOURCE_EXHAUSTED", "no room in this zone", times=2)
        await here.create(pod("web", "data"))
        await here.bound()
        assert len(here.driver.requests("CreateVolume")) == 3
        assert await here.told("ProvisioningFailed", "no room in this zone")

    play(test, nodes=2, topology={ZONE: "a"})


def test_without_room_and_choice_it_is_tried_again() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        here.driver.room = GIB // 2
        await here.create(claim())
        await here.eventually(lambda: here.told("ProvisioningFailed", "there is no room"))
        here.driver.room = GIB
        await here.bound()
        assert SELECTED_NODE not in (await here.claim()).metadata.annotations

    play(test)


@pytest.mark.parametrize("fault", ["lost", "hangs", "dead", "twice"])
def test_one_volume_is_made_whatever_becomes_of_the_answer(fault: str) -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        if fault == "lost":
            here.driver.lose("CreateVolume", times=3)
        elif fault == "hangs":
            here.driver.delay("CreateVolume", 40.0, times=2)
        elif fault == "dead":
            here.driver.is_alive = False
        else:
            here.driver.lose("CreateVolume", "ALREADY_EXISTS")
        await here.create(claim())
        if fault == "dead":
            await here.eventually(lambda: here.told("ProvisioningFailed", "nobody listens"))
            here.driver.is_alive = True
        await here.bound()
        await here.cluster.settle()
        assert list(here.driver.volumes) == ["volume-1"]
        assert len({one.name for one in here.driver.requests("CreateVolume")}) == 1

    play(test)


def test_a_volume_whose_claim_goes_while_it_is_made_is_found_and_removed() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        here.driver.delay("CreateVolume", 40.0)
        await here.create(claim())
        await here.eventually(lambda: here.told("ProvisioningFailed", "DeadlineExceeded"))
        await here.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        await here.eventually(lambda: here.gone(core_v1.PersistentVolumeClaim, "data"))

        async def made_and_removed() -> bool:
            return bool(here.driver.requests("DeleteVolume")) and await here.has_no_volumes()

        await here.eventually(made_and_removed)
        first, *others = here.driver.requests("CreateVolume")
        assert others
        assert all(one == first for one in others)

    play(test)


def test_a_claim_that_goes_after_a_final_error_is_forgotten() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        here.driver.fail("CreateVolume", "INVALID_ARGUMENT", "nonsense", times=50)
        await here.create(claim())
        await here.eventually(lambda: here.told("ProvisioningFailed", "nonsense"))
        await here.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        await here.cluster.advance(minutes=1)
        before = len(here.driver.calls)
        await here.cluster.advance(hours=1)
        assert len(here.driver.calls) == before

    play(test)


def test_another_instance_goes_on_where_one_was_killed() -> None:
    async def test(here: Scenario) -> None:
        first = await here.start()
        await here.create(storage_class())
        here.driver.delay("CreateVolume", 10.0)
        await here.create(claim())
        await here.cluster.advance(seconds=5)
        await here.stop(first)
        await here.cluster.advance(seconds=20)
        assert await here.volumes() == []
        assert list(here.driver.volumes) == ["volume-1"]
        await here.start()
        await here.bound()
        assert list(here.driver.volumes) == ["volume-1"]

    play(test)


def test_a_deletion_that_fails_is_told_and_tried_again() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        await here.create(claim())
        await here.bound()
        here.driver.fail("DeleteVolume", "INTERNAL", "the disk is stuck", times=2)
        await here.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        await here.eventually(lambda: here.told("VolumeFailedDelete", "the disk is stuck"))
        await here.eventually(here.has_no_volumes)
        assert len(here.driver.requests("DeleteVolume")) == 3

    play(test)


def test_a_volume_that_is_too_small_is_not_kept() -> None:
    class Stingy(FakeDriver):
        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.VolumeResponse:
            response = await super().create_volume(request)
            assert response.volume is not None
            small = csi.Volume(response.volume.capacity_bytes - 1, response.volume.volume_id)
            return csi.VolumeResponse(small)

    async def test(here: Scenario) -> None:
        here.driver = Stingy(here.cluster.clock)
        await here.start()
        await here.create(storage_class())
        await here.create(claim())
        await here.eventually(
            lambda: here.told("ProvisioningFailed", "1073741823 less than requested capacity 1073741824")
        )
        assert await here.volumes() == []
        assert here.driver.volumes == {}

    play(test)


def test_secrets_are_given_to_the_driver_and_named_in_the_volume() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        keys = {
            "csi.storage.k8s.io/provisioner-secret-name": "make-${pvc.name}",
            "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
            "csi.storage.k8s.io/node-stage-secret-name": "stage",
            "csi.storage.k8s.io/node-stage-secret-namespace": "default",
        }
        await here.create(storage_class(parameters=keys))
        await here.create(claim())
        await here.eventually(lambda: here.told("ProvisioningFailed", "secret default/make-data: not found"))
        assert here.driver.requests("CreateVolume") == []
        await here.create(make(core_v1.Secret, "make-data", stringData={"key": "hunter2"}))
        volume = await here.bound()
        assert here.driver.requests("CreateVolume")[0].secrets == {"key": "hunter2"}
        assert here.driver.requests("CreateVolume")[0].parameters == {}
        assert volume.spec.csi is not None
        assert volume.spec.csi.node_stage_secret_ref is not None
        assert volume.spec.csi.node_stage_secret_ref.name == "stage"
        await here.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        await here.eventually(here.has_no_volumes)
        assert here.driver.requests("DeleteVolume")[0].secrets == {"key": "hunter2"}
        events = (await here.client.list(core_v1.Event)).items
        assert not any("hunter2" in one.message for one in events)

    play(test)


def test_a_clone_names_its_source_and_waits_for_it() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        source = {"kind": "PersistentVolumeClaim", "name": "data"}
        await here.create(claim("copy", dataSource=source))
        await here.eventually(lambda: here.told("ProvisioningFailed", "error getting PVC data"))
        await here.create(claim())
        await here.bound("copy")
        request = here.driver.requests("CreateVolume")[-1]
        assert request.volume_content_source == csi.VolumeContentSource(volume=csi.VolumeSource("volume-1"))

    play(test)


def test_a_driver_that_cannot_clone_is_not_asked_to() -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        await here.create(claim())
        await here.bound()
        await here.create(claim("copy", dataSource={"kind": "PersistentVolumeClaim", "name": "data"}))
        await here.eventually(lambda: here.told("ProvisioningFailed", "CLONE_VOLUME capability is not reported"))
        assert len(here.driver.requests("CreateVolume")) == 1

    play(test, controller=CONTROLLER - {csi.ControllerCapability.CLONE_VOLUME})


def test_claims_of_other_drivers_and_populators_are_left_alone() -> None:
    async def test(here: Scenario) -> None:
        await here.start(extra_create_metadata=True)
        await here.create(storage_class())
        await here.create(storage_class("other", provisioner="other.example.com"))
        await here.create(claim("theirs", storage_class_name="other"))
        filled = {"apiGroup": "fill.example.com", "kind": "Picture", "name": "cat"}
        await here.create(claim("filled", dataSourceRef=filled))
        await here.create(claim())
        await here.bound()
        await here.cluster.settle()
        (request,) = here.driver.requests("CreateVolume")
        assert request.parameters["csi.storage.k8s.io/pvc/name"] == "data"
        assert await here.told("Provisioning", "data source (Picture) is not handled by the provisioner")

    play(test)


def test_instances_on_nodes_make_the_volumes_of_their_nodes() -> None:
    async def test(here: Scenario) -> None:
        nodes = {
            name: FakeDriver(here.cluster.clock, topology={ZONE: name}, room=3 * GIB) for name in ("node-1", "node-2")
        }
        await here.place({name: name for name in nodes})
        for name, driver in nodes.items():
            await here.start(driver, node_deployment=True, node_name=name)
        await here.create(storage_class(mode=DELAYED))
        await here.create(claim())
        await here.create(pod("web", "data", nodeSelector={ZONE: "node-2"}))
        await here.bound()
        assert {name: len(driver.volumes) for name, driver in nodes.items()} == {"node-1": 0, "node-2": 1}
        await here.create(storage_class("now"))
        for number in range(5):
            await here.create(claim(f"now-{number}", storage_class_name="now"))
        for number in range(5):
            await here.bound(f"now-{number}")
        assert {name: len(driver.volumes) for name, driver in nodes.items()} == {"node-1": 3, "node-2": 3}
        for number in range(5):
            await here.client.delete(core_v1.PersistentVolumeClaim, f"now-{number}", "default")

        async def only_one_left() -> bool:
            return sum(len(driver.volumes) for driver in nodes.values()) == 1

        await here.eventually(only_one_left)
        assert nodes["node-1"].requests("DeleteVolume") != []

    play(test, nodes=2)


def test_an_instance_on_a_node_needs_its_name() -> None:
    async def test(here: Scenario) -> None:
        with pytest.raises(StartError, match="NODE_NAME"):
            await (await here.start(node_deployment=True))
        here._instances.clear()

    play(test, topology={ZONE: "a"})


def test_capacity_is_told_for_each_class_and_place() -> None:
    async def test(here: Scenario) -> None:
        await here.place({"node-1": "a", "node-2": "b"})
        running = await here.start(enable_capacity=True)
        await here.create(storage_class(mode=DELAYED))
        await here.create(storage_class("now"))

        async def told() -> dict[str, str]:
            found = (await here.client.list(storage_v1.CSIStorageCapacity, "default")).items
            return (
                {
                    one.node_topology.match_labels[ZONE]: str(one.capacity)
                    for one in found
                    if one.node_topology is not None and one.storage_class_name == "fast"
                }
                if len(found) == 2
                else {}
            )

        assert await here.eventually(told) == {"a": "1Ti", "b": "1Ti"}
        here.driver.room = GIB

        async def follows() -> bool:
            return (await told()) == {"a": "1Gi", "b": "1Gi"}

        await here.eventually(follows)
        await here.client.delete(storage_v1.StorageClass, "fast")

        async def removed() -> bool:
            return not (await here.client.list(storage_v1.CSIStorageCapacity, "default")).items

        await here.eventually(removed)
        assert not running.done()

    play(test, nodes=2, topology={ZONE: "a"})


def test_a_driver_that_starts_late_is_waited_for() -> None:
    async def test(here: Scenario) -> None:
        here.driver.is_alive = False
        starting = asyncio.ensure_future(here.start())
        await here.create(storage_class())
        await here.create(claim())
        await here.cluster.advance(minutes=1)
        assert not starting.done()
        here.driver.is_alive = True
        await here.bound()
        await starting

    play(test)


@pytest.mark.parametrize("code", ["INTERNAL", "UNAVAILABLE"])
def test_a_volume_that_fails_is_tried_again_later_and_later(code: str) -> None:
    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        here.driver.fail("CreateVolume", code, "broken", times=10_000)
        await here.create(claim())
        await here.cluster.advance(minutes=10)
        assert 8 <= len(here.driver.requests("CreateVolume")) <= 14

    play(test)
