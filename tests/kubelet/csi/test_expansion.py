"""Volumes grow on the node, and the claim says how far that is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.quantity import parse
from bayplan.api.types import core_v1
from bayplan.kubelet.core.volume_sizes import given_size, is_other_size_requested, wanted_size
from tests.kubelet.csi.scenario import CsiNode, play, pod_of


async def claim(here: CsiNode) -> core_v1.PersistentVolumeClaim:
    return await here.client.get(core_v1.PersistentVolumeClaim, "pv", "default")


async def grow(here: CsiNode) -> None:
    """What the controller writes when it has made a volume larger."""
    await here.client.patch(core_v1.PersistentVolume, "pv", "", {"spec": {"capacity": {"storage": "2Gi"}}})
    status = {
        "allocatedResources": {"storage": "2Gi"},
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
    }
    await here.client.patch(core_v1.PersistentVolumeClaim, "pv", "default", {"status": status}, subresource="status")


async def refreshed(here: CsiNode) -> None:
    """Two minutes of the volume manager."""
    running = asyncio.ensure_future(here.manager.run())
    await asyncio.sleep(120)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_volume_grows_while_a_pod_has_it(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume()))
        await grow(here)
        await refreshed(here)
        (asked,) = here.driver.requests("NodeExpandVolume")
        assert (asked.volume_path, asked.capacity_range.required_bytes) == (str(here.target()), 2 << 30)
        found = await claim(here)
        assert str(found.status.capacity["storage"]) == "2Gi"
        assert found.status.allocated_resource_statuses == {}
        assert found.status.conditions == ()
        text = 'Normal FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv"'
        assert here.events == [text]

    play(tmp_path, test)


def test_a_size_that_failed_is_given_up_when_the_user_asks_for_another(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume()))
        here.driver.fail("NodeExpandVolume", "PERMISSION_DENIED", "no", times=9)
        await grow(here)
        running = asyncio.ensure_future(here.manager.run())
        while not here.driver.requests("NodeExpandVolume"):  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert (await claim(here)).status.allocated_resource_statuses == {"storage": "NodeResizeInProgress"}
        await asyncio.sleep(120)  # the claim requests 1Gi by now
        assert (await claim(here)).status.allocated_resource_statuses == {"storage": "NodeResizeInfeasible"}
        assert len(here.driver.requests("NodeExpandVolume")) == 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play(tmp_path, test)


@pytest.mark.parametrize(("requested", "expected"), [("2Gi", False), ("2048Mi", False), ("1Gi", True), ("3Gi", True)])
def test_another_size_than_the_one_that_is_tried(requested: str, expected: bool) -> None:
    tree = {"spec": {"resources": {"requests": {"storage": requested}}}}
    assert is_other_size_requested(from_tree(core_v1.PersistentVolumeClaim, tree), parse("2Gi")) is expected


async def grown_elsewhere(here: CsiNode, annotations: dict[str, str]) -> None:
    """What controller and another node have written when a volume has become larger there."""
    await here.client.patch(core_v1.PersistentVolume, "pv", "", {"spec": {"capacity": {"storage": "2Gi"}}})
    await here.client.patch(core_v1.PersistentVolumeClaim, "pv", "default", {"metadata": {"annotations": annotations}})
    status = {"capacity": {"storage": "2Gi"}}
    await here.client.patch(core_v1.PersistentVolumeClaim, "pv", "default", {"status": status}, subresource="status")


@pytest.mark.parametrize(
    ("access", "annotations", "asked"),
    [
        ("ReadWriteMany", {}, 1),
        ("ReadWriteOnce", {}, 0),
        ("ReadWriteMany", {"volume.kubernetes.io/node-expansion-not-required": "true"}, 0),
    ],
)
def test_a_shared_volume_that_grew_on_another_node_grows_here_once(
    tmp_path: Path, access: str, annotations: dict[str, str], asked: int
) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume(access=access)))
        await grown_elsewhere(here, annotations)
        before = await claim(here)
        await refreshed(here)
        await refreshed(here)
        sizes = [each.capacity_range.required_bytes for each in here.driver.requests("NodeExpandVolume")]
        assert sizes == [2 << 30] * asked
        assert (await claim(here)).metadata.resource_version == before.metadata.resource_version

    play(tmp_path, test)


def test_a_shared_volume_is_as_large_as_others_made_it_where_the_driver_has_nothing_to_do(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume(access="ReadWriteMany")))
        here.driver.fail("NodeExpandVolume", "UNIMPLEMENTED", "no", times=9)
        await grown_elsewhere(here, {})
        await refreshed(here)
        await refreshed(here)
        assert len(here.driver.requests("NodeExpandVolume")) == 1
        assert (await claim(here)).status.conditions == ()

    play(tmp_path, test)


def test_a_volume_that_grew_without_pods_grows_when_it_is_mounted(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        volume = await here.volume()
        await grow(here)
        await here.manager.wait_for_mounts(pod_of(volume))
        assert str((await claim(here)).status.capacity["storage"]) == "2Gi"

    play(tmp_path, test)


def test_a_driver_that_cannot_grow_what_is_used_is_asked_again_the_next_time(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        pod = pod_of(await here.volume())
        await here.manager.wait_for_mounts(pod)
        await grow(here)
        here.driver.fail("NodeExpandVolume", "FAILED_PRECONDITION", "it is in use", times=1)
        await refreshed(here)
        assert len(here.driver.requests("NodeExpandVolume")) == 1
        (condition,) = [each for each in (await claim(here)).status.conditions if each.type == "NodeResizeError"]
        assert "it is in use" in condition.message
        await here.register()  # the manager has ended, and with it the connection
        await here.manager.unmount("u1")
        await here.manager.wait_for_mounts(pod)
        assert str((await claim(here)).status.capacity["storage"]) == "2Gi"
        assert (await claim(here)).status.conditions == ()

    play(tmp_path, test)


def test_what_can_never_be_is_said_and_left(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume()))
        await grow(here)
        here.driver.fail("NodeExpandVolume", "OUT_OF_RANGE", "too large", times=9)
        await refreshed(here)
        assert len(here.driver.requests("NodeExpandVolume")) == 1
        assert (await claim(here)).status.allocated_resource_statuses == {"storage": "NodeResizeInfeasible"}
        assert any("MountVolume.NodeExpandVolume failed" in each and "too large" in each for each in here.events)

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, None),
        ({"capacity": {"storage": "1Gi"}}, None),
        ({"capacity": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}, "2Gi"),
        ({"capacity": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}, "2Gi"),
        ({"capacity": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"}}, None),
        ({"allocatedResources": {"storage": "3Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}, "3Gi"),
        ({"capacity": {"storage": "1Gi"}, "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}, "2Gi"),
        ({"capacity": {"storage": "2Gi"}, "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}, None),
    ],
)  # fmt: skip
def test_which_size_a_volume_is_to_have(status: dict[str, Any], expected: str | None) -> None:
    volume = from_tree(core_v1.PersistentVolume, {"spec": {"capacity": {"storage": "2Gi"}}})
    found = wanted_size(volume, from_tree(core_v1.PersistentVolumeClaim, {"status": status}))
    assert (None if found is None else str(found)) == expected
    assert wanted_size(volume, None) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"capacity": {"storage": "1Gi"}}, "2Gi"),
        ({"capacity": {"storage": "2Gi"}}, None),
        ({"capacity": {"storage": "1Gi"}, "allocatedResources": {"storage": "2Gi"}}, None),
        ({"capacity": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}, "2Gi"),
    ],
)
def test_a_volume_without_a_controller_is_as_large_as_it_says(status: dict[str, Any], expected: str | None) -> None:
    volume = from_tree(core_v1.PersistentVolume, {"spec": {"capacity": {"storage": "2Gi"}}})
    found = given_size(volume, from_tree(core_v1.PersistentVolumeClaim, {"status": status}))
    assert (None if found is None else str(found)) == expected
