"""The local driver with real directories, images, loop devices and mounts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bayplan.csi import messages as csi
from bayplan.csi_local.manifests import objects
from bayplan.csi_local.settings import DRIVER_NAME, TOPOLOGY_KEY
from tests.csi_local.machine import (
    BLOCK,
    MI,
    Machine,
    capability_of,
    loops,
    may_grow_ext4_online,
    mounts,
    needs_images,
    needs_root,
    on,
    refused,
)

SINGLE_POD = capability_of(csi.Access.SINGLE_NODE_SINGLE_WRITER)


def test_the_driver_says_who_and_where_it_is(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        info = await machine.client.info()
        assert (info.name, info.has_topology) == (DRIVER_NAME, True)
        assert info.expansion == {csi.Expansion.ONLINE}
        assert csi.ControllerCapability.PUBLISH_UNPUBLISH_VOLUME not in info.controller
        assert csi.ControllerCapability.CLONE_VOLUME in info.controller
        assert csi.NodeCapability.STAGE_UNSTAGE_VOLUME in info.node
        here = csi.Topology({TOPOLOGY_KEY: "n1"})
        assert await machine.client.node_get_info() == csi.NodeGetInfoResponse("n1", 0, here)
        assert await machine.client.probe()

    on(short_path, test)


@needs_root
def test_a_directory_is_made_used_and_removed(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "directory")
        assert (volume.volume_id, volume.capacity_bytes) == ("pvc-1", 32 * MI)
        assert volume.accessible_topology == (csi.Topology({TOPOLOGY_KEY: "n1"}),)
        assert volume.volume_context == {"type": "directory"}
        target = await machine.use(volume, "a")
        (target / "file").write_text("kept")
        other = await machine.publish(volume, "b", readonly=True)
        assert (other / "file").read_text() == "kept"
        with pytest.raises(OSError, match="Read-only"):
            (other / "more").write_text("no")
        assert (await refused(machine.delete(volume)))[0] == "FAILED_PRECONDITION"
        await machine.unpublish("pvc-1", other)
        assert not other.exists()
        await machine.give_back(volume, target)
        again = await machine.use(volume, "c")
        assert (again / "file").read_text() == "kept"
        await machine.give_back(volume, again)
        await machine.delete(volume)
        assert list((machine.data / "volumes").iterdir()) == []
        await machine.delete(volume)

    on(short_path, test)


@needs_images
def test_an_image_has_a_file_system_of_its_size(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "image", 32 * MI - 5)
        assert volume.capacity_bytes == 32 * MI
        target = await machine.use(volume, "a")
        stats = os.statvfs(target)
        assert 24 * MI < stats.f_blocks * stats.f_frsize <= 32 * MI
        elsewhere = csi.NodeGetVolumeStatsRequest("pvc-1", str(machine.root))
        assert (await refused(machine.client.node_get_volume_stats(elsewhere)))[0] == "NOT_FOUND"
        with pytest.raises(OSError, match="No space left"):
            (target / "big").write_bytes(bytes(40 * MI))
        (target / "big").write_text("small")
        usage = (await machine.client.node_get_volume_stats(csi.NodeGetVolumeStatsRequest("pvc-1", str(target)))).usage
        assert [one.unit for one in usage] == [csi.Unit.BYTES, csi.Unit.INODES]
        assert usage[0].total == stats.f_blocks * stats.f_frsize
        assert 0 < usage[0].used < usage[0].total
        assert (await refused(machine.delete(volume)))[0] == "FAILED_PRECONDITION"
        await machine.unpublish("pvc-1", target)
        assert (await refused(machine.delete(volume)))[0] == "FAILED_PRECONDITION"
        await machine.unstage("pvc-1")
        assert loops(machine.root) == []
        target = await machine.use(volume, "a")
        assert (target / "big").read_text() == "small"
        await machine.give_back(volume, target)
        await machine.delete(volume)

    on(short_path, test)


@needs_images
def test_every_call_may_be_repeated(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "image")
        assert await machine.make("pvc-1", "image") == volume
        for _ in range(2):
            await machine.stage(volume)
        target = await machine.publish(volume, "a")
        assert await machine.publish(volume, "a") == target
        assert len(mounts(machine.root)) == 2
        assert len(loops(machine.root)) == 1
        code, text = await refused(machine.publish(volume, "a", readonly=True))
        assert (code, "published already" in text) == ("ALREADY_EXISTS", True)
        for _ in range(2):
            await machine.unpublish("pvc-1", target)
        for _ in range(2):
            await machine.unstage("pvc-1")
        for _ in range(2):
            await machine.delete(volume)
        await machine.unpublish("pvc-1", target)
        await machine.unstage("pvc-1")

    on(short_path, test)


def test_requests_that_make_no_sense_are_refused(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        await machine.make("pvc-1", "directory")
        for request, code in (
            (machine.request("pvc-1", "directory", 33 * MI), "ALREADY_EXISTS"),
            (machine.request("pvc-1", "image"), "ALREADY_EXISTS"),
            (machine.request("", "directory"), "INVALID_ARGUMENT"),
            (machine.request("pvc-2", "tape"), "INVALID_ARGUMENT"),
            (machine.request("pvc-2", "directory", capability=BLOCK), "INVALID_ARGUMENT"),
            (machine.request("pvc-2", "directory", mutable_parameters={"a": "b"}), "INVALID_ARGUMENT"),
            (csi.CreateVolumeRequest("pvc-2"), "INVALID_ARGUMENT"),
            (machine.request("pvc-2", "image", 1 << 60), "RESOURCE_EXHAUSTED"),
            (machine.request("pvc-2", "directory", 1 << 60), "RESOURCE_EXHAUSTED"),
            (machine.request("pvc-2", "image", volume_content_source=_volume("none")), "NOT_FOUND"),
            (machine.request("pvc-2", "image", volume_content_source=_volume("pvc-1")), "INVALID_ARGUMENT"),
            (machine.request("pvc-2", "image", accessibility_requirements=_at("n2")), "RESOURCE_EXHAUSTED"),
        ):
            assert (await refused(machine.client.create_volume(request)))[0] == code, request
        missing = csi.Volume(1, "none")
        assert (await refused(machine.stage(missing)))[0] == "NOT_FOUND"
        assert (await refused(machine.publish(missing, "a")))[0] == "NOT_FOUND"
        assert (await refused(machine.expand(missing, MI)))[0] == "NOT_FOUND"
        assert (await refused(machine.snapshot(missing, "s")))[0] == "NOT_FOUND"
        assert (await refused(machine.client.controller_get_volume("none")))[0] == "NOT_FOUND"
        assert (await refused(machine.delete(csi.Volume())))[0] == "INVALID_ARGUMENT"
        bad = csi.NodeStageVolumeRequest("pvc-1", {}, "relative", capability_of())
        assert (await refused(machine.client.node_stage_volume(bad)))[0] == "INVALID_ARGUMENT"
        assert [one.name for one in (machine.data / "volumes").iterdir()] == ["pvc-1"]

    on(short_path, test)


def _volume(volume_id: str) -> csi.VolumeContentSource:
    return csi.VolumeContentSource(volume=csi.VolumeSource(volume_id))


def _snapshot(snapshot_id: str) -> csi.VolumeContentSource:
    return csi.VolumeContentSource(snapshot=csi.SnapshotSource(snapshot_id))


def _at(node: str) -> csi.TopologyRequirement:
    return csi.TopologyRequirement((csi.Topology({TOPOLOGY_KEY: node}),))


@needs_images
def test_publishing_needs_staging(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "image")
        code, text = await refused(machine.publish(volume, "a"))
        assert (code, "is not staged" in text) == ("FAILED_PRECONDITION", True)
        assert (await refused(machine.publish(volume, "a", BLOCK)))[0] == "FAILED_PRECONDITION"

    on(short_path, test)


@needs_images
@pytest.mark.parametrize("kind", ["directory", "image"])
def test_a_volume_for_one_pod_is_published_once(short_path: Path, kind: str) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", kind)
        target = await machine.use(volume, "a", SINGLE_POD)
        assert await machine.publish(volume, "a", SINGLE_POD) == target
        code, text = await refused(machine.publish(volume, "b", SINGLE_POD))
        assert (code, "one path only" in text) == ("FAILED_PRECONDITION", True)
        await machine.give_back(volume, target)
        target = await machine.use(volume, "b", SINGLE_POD)
        await machine.give_back(volume, target)

    on(short_path, test)


@needs_images
def test_a_block_volume_is_the_device_itself(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "image", 4 * MI, capability=BLOCK)
        target = await machine.use(volume, "a", BLOCK)
        assert target.is_block_device()
        with target.open("r+b") as device:
            device.write(b"raw data")
        usage = await machine.client.node_get_volume_stats(csi.NodeGetVolumeStatsRequest("pvc-1", str(target)))
        assert usage.usage == (csi.VolumeUsage(total=4 * MI, unit=csi.Unit.BYTES),)
        code, text = await refused(machine.snapshot(volume, "s"))
        assert (code, "in use" in text) == ("FAILED_PRECONDITION", True)
        expanded = await machine.expand(volume, 6 * MI)
        assert expanded == csi.ControllerExpandVolumeResponse(6 * MI, True)
        grown = await machine.client.node_expand_volume(csi.NodeExpandVolumeRequest("pvc-1", str(target)))
        assert grown.capacity_bytes == 6 * MI
        with target.open("rb") as device:
            assert device.seek(0, os.SEEK_END) == 6 * MI
        await machine.unpublish("pvc-1", target)
        assert not target.exists()
        await machine.unstage("pvc-1")
        assert loops(machine.root) == []
        await machine.snapshot(volume, "s")
        copied = await machine.make("pvc-2", "image", 6 * MI, capability=BLOCK, volume_content_source=_snapshot("s"))
        target = await machine.use(copied, "b", BLOCK)
        with target.open("rb") as device:
            assert device.read(8) == b"raw data"
        await machine.give_back(copied, target)

    on(short_path, test)


@needs_images
@pytest.mark.parametrize("kind", ["directory", "image"])
def test_snapshots_and_clones_are_copies_of_their_moment(short_path: Path, kind: str) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", kind)
        target = await machine.use(volume, "a")
        (target / "file").write_text("before")
        snapshot = await machine.snapshot(volume, "snap-1")
        assert (snapshot.size_bytes, snapshot.source_volume_id, snapshot.ready_to_use) == (32 * MI, "pvc-1", True)
        assert snapshot.creation_time > 1_700_000_000_000_000_000
        assert await machine.snapshot(volume, "snap-1") == snapshot
        (target / "file").write_text("after")
        clone = await machine.make("pvc-2", kind, volume_content_source=_volume("pvc-1"))
        assert clone.content_source == _volume("pvc-1")
        restored = await machine.make("pvc-3", kind, 48 * MI, volume_content_source=_snapshot("snap-1"))
        (target / "file").write_text("later")
        for copied, text in ((clone, "after"), (restored, "before")):
            place = await machine.use(copied, f"of-{copied.volume_id}")
            assert (place / "file").read_text() == text
            if kind == "image" and copied is restored:
                stats = os.statvfs(place)
                assert stats.f_blocks * stats.f_frsize > 34 * MI
            await machine.give_back(copied, place)
        await machine.give_back(volume, target)
        smaller = machine.request("pvc-4", kind, 16 * MI, volume_content_source=_snapshot("snap-1"))
        assert (await refused(machine.client.create_volume(smaller)))[0] == "OUT_OF_RANGE"
        await machine.delete(volume)
        found = await machine.client.list_snapshots(csi.ListSnapshotsRequest(source_volume_id="pvc-1"))
        assert [one.snapshot for one in found.entries] == [snapshot]
        assert await machine.client.get_snapshot(csi.SnapshotRequest("snap-1")) == snapshot
        for _ in range(2):
            await machine.client.delete_snapshot(csi.SnapshotRequest("snap-1"))
        assert list((machine.data / "snapshots").iterdir()) == []
        assert (await refused(machine.client.get_snapshot(csi.SnapshotRequest("snap-1"))))[0] == "NOT_FOUND"

    on(short_path, test)


def test_a_snapshot_name_belongs_to_one_volume(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        one, two = await machine.make("pvc-1", "directory"), await machine.make("pvc-2", "directory")
        await machine.snapshot(one, "s")
        assert (await refused(machine.snapshot(two, "s")))[0] == "ALREADY_EXISTS"
        found = await machine.client.list_volumes(max_entries=1)
        assert [entry.volume.volume_id for entry in found if entry.volume] == ["pvc-1", "pvc-2"]

    on(short_path, test)


@needs_images
def test_a_file_system_grows_when_it_is_mounted_next(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "image")
        target = await machine.use(volume, "a")
        (target / "file").write_text("kept")
        await machine.give_back(volume, target)
        assert await machine.expand(volume, 64 * MI) == csi.ControllerExpandVolumeResponse(64 * MI, True)
        assert await machine.expand(volume, 48 * MI) == csi.ControllerExpandVolumeResponse(64 * MI, True)
        target = await machine.use(volume, "a")
        stats = os.statvfs(target)
        assert stats.f_blocks * stats.f_frsize > 48 * MI
        assert (target / "file").read_text() == "kept"
        await machine.give_back(volume, target)

    on(short_path, test)


@needs_images
def test_a_file_system_grows_while_it_is_used(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "image")
        target = await machine.use(volume, "a")
        await machine.expand(volume, 64 * MI)
        request = csi.NodeExpandVolumeRequest("pvc-1", str(target), csi.CapacityRange(64 * MI))
        if may_grow_ext4_online():
            assert (await machine.client.node_expand_volume(request)).capacity_bytes == 64 * MI
        else:
            code, text = await refused(machine.client.node_expand_volume(request))
            assert (code, "CAP_SYS_RESOURCE" in text) == ("FAILED_PRECONDITION", True)
            await machine.give_back(volume, target)
            await machine.use(volume, "a")
            assert (await machine.client.node_expand_volume(request)).capacity_bytes == 64 * MI
        stats = os.statvfs(target)
        assert stats.f_blocks * stats.f_frsize > 48 * MI
        await machine.give_back(volume, target)

    on(short_path, test)


@needs_images
@pytest.mark.parametrize("kind", ["directory", "image"])
def test_an_inline_volume_lives_as_long_as_it_is_published(short_path: Path, kind: str) -> None:
    async def test(machine: Machine) -> None:
        context = {
            "csi.storage.k8s.io/ephemeral": "true",
            "csi.storage.k8s.io/pod.name": "web",
            "type": kind,
            "size": "16Mi",
        }
        volume = csi.Volume(0, "csi-123", context)
        for _ in range(2):
            target = await machine.publish(volume, "a")
        (target / "file").write_text("scratch")
        assert len(mounts(machine.root)) == (2 if kind == "image" else 1)
        assert await machine.client.list_volumes() == []
        for _ in range(2):
            await machine.unpublish("csi-123", target)
        assert list((machine.data / "volumes").iterdir()) == []
        bad = csi.Volume(0, "csi-124", {**context, "size": "much"})
        assert (await refused(machine.publish(bad, "b")))[0] == "INVALID_ARGUMENT"

    on(short_path, test)


def test_capacity_is_what_is_free(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        async def capacity(**fields: object) -> int:
            request = csi.GetCapacityRequest(parameters={"type": "image"}, **fields)  # type: ignore[arg-type]
            return (await machine.client.get_capacity(request)).available_capacity

        before = await capacity()
        stats = os.statvfs(machine.data)
        assert abs(before - stats.f_bavail * stats.f_frsize) < 256 * MI
        await machine.make("pvc-1", "image", 512 * MI)
        assert 256 * MI < before - await capacity() < 768 * MI
        assert await capacity(accessible_topology=csi.Topology({TOPOLOGY_KEY: "n2"})) == 0
        many = capability_of(csi.Access.MULTI_NODE_MULTI_WRITER)
        assert await capacity(volume_capabilities=(many,)) == 0

    on(short_path, test)


def test_one_thing_at_a_time_is_done_about_a_volume(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        calls = [machine.make("pvc-1", "directory") for _ in range(8)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        made = [one for one in results if isinstance(one, csi.Volume)]
        assert {getattr(one, "code", "OK") for one in results} <= {"OK", "ABORTED"}
        assert len({one.volume_id for one in made}) == 1
        assert (await machine.make("pvc-1", "directory")).volume_id == "pvc-1"

    on(short_path, test)


def test_capabilities_of_a_volume_are_confirmed_or_not(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        await machine.make("pvc-1", "directory")
        for capability, text in ((capability_of(), ""), (BLOCK, "no block device")):
            request = csi.ValidateVolumeCapabilitiesRequest("pvc-1", volume_capabilities=(capability,))
            found = await machine.client.validate_volume_capabilities(request)
            assert (found.confirmed is None) == bool(text)
            assert text in found.message

    on(short_path, test)


def test_the_manifests_fit_what_the_driver_says() -> None:
    driver, directory, image = objects()
    assert driver["metadata"]["name"] == directory["provisioner"] == image["provisioner"] == DRIVER_NAME
    assert driver["spec"]["attachRequired"] is False
    assert driver["spec"]["podInfoOnMount"] is True
    assert directory["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert "annotations" not in objects(default=False)[1]["metadata"]
    assert image["parameters"]["type"] == "image"
