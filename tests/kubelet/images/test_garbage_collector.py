"""Which images go, and which never do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from bayplan.kubelet.images.garbage_collector import (
    Disk,
    ImageGarbageCollectionError,
    ImageGarbageCollector,
    ImagePolicy,
    ImagePolicyError,
    bytes_to_free,
    node_images,
)
from bayplan.kubelet.runtime.behaviour import SimulatedImage
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import ContainerConfig, Image, ImageMount, Mount, SandboxConfig
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

OLD = 600.0
"""Seconds after which an image is no longer young."""


class Node:
    """A runtime with images a, b, c of 100 bytes each, on a disk of 1,000 bytes."""

    def __init__(self, available: int = 1000, **policy: Any) -> None:
        clock = LoopClock(0.0)
        self.runtime = SimulatedRuntime(clock, SeededRandomness(1))
        for name in ("a", "b", "c"):
            self.runtime.add_image(SimulatedImage(name, size=100))
        self.available = available

        async def disk() -> Disk:
            return Disk(1000, self.available)

        self.collector = ImageGarbageCollector(self.runtime, clock, disk, ImagePolicy(**policy))

    async def left(self) -> list[str]:
        """Names of the images that are there."""
        return [image.tags[0] for image in await self.runtime.images()]

    async def use(self, image: str, *, mounted: bool = False) -> str:
        """Make a container of an image, or one that mounts it; its id."""
        config = SandboxConfig(image, "default", image, 0, image, "/logs")
        sandbox = await self.runtime.run_sandbox(config)
        found = await self.runtime.image_status(image)
        assert found is not None
        mounts = (Mount("/data", image=ImageMount(found.id)),) if mounted else ()
        name = "c" if mounted else image
        return await self.runtime.create_container(
            sandbox, ContainerConfig("main", 0, name, name, mounts=mounts), config
        )


def check(test: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    run(test)


@pytest.mark.parametrize(
    ("available", "wanted", "percent"), [(160, 0, 84), (150, 50, 85), (100, 100, 90), (0, 200, 100), (5000, 0, 0)]
)
def test_disk_is_to_be_freed_from_the_high_threshold_down_to_the_low_one(
    available: int, wanted: int, percent: int
) -> None:
    assert bytes_to_free(ImagePolicy(), Disk(1000, available)) == (wanted, percent)


def test_nothing_goes_below_the_threshold() -> None:
    async def steps() -> None:
        node = Node(160)
        await node.collector.detect()
        await asyncio.sleep(OLD)
        assert len(await node.collector.collect()) == 3

    check(steps())


def test_what_was_not_used_for_longest_goes_first_and_no_more_than_needed() -> None:
    async def steps() -> None:
        node = Node(100)
        container = await node.use("a")
        await node.collector.detect()
        await asyncio.sleep(OLD)
        await node.runtime.remove_container(container)
        other = await node.use("b")
        await node.collector.detect()
        await asyncio.sleep(OLD)
        await node.runtime.remove_container(other)
        await node.collector.collect()
        assert await node.left() == ["a", "b"]
        await node.collector.collect()
        assert await node.left() == ["b"]

    check(steps())


def test_images_that_are_used_mounted_pinned_or_young_stay() -> None:
    async def steps() -> None:
        node = Node(0)
        node.runtime.add_image(SimulatedImage("pinned", size=100, pinned=True))
        await node.use("a")
        await node.use("b", mounted=True)
        await node.collector.detect()
        await asyncio.sleep(OLD)
        node.runtime.add_image(SimulatedImage("young", size=100))
        with pytest.raises(ImageGarbageCollectionError) as caught:
            await node.collector.collect()
        assert caught.value.reason == "FreeDiskSpaceFailed"
        assert str(caught.value).startswith(
            "Insufficient free disk space on the node's image filesystem (100% of 1000 B used). "
        )
        assert "(freed 0 bytes)" in str(caught.value)  # c is what the container that mounts b was made of
        await node.collector.delete_unused()
        assert await node.left() == ["a", "b", "c", "pinned", "young"]
        await asyncio.sleep(OLD)
        assert len(await node.collector.delete_unused()) == 4
        assert await node.left() == ["a", "b", "c", "pinned"]

    check(steps())


def test_old_images_go_whatever_the_disk_says() -> None:
    async def steps() -> None:
        node = Node(maximum_age=1000.0)
        await node.collector.detect()
        await asyncio.sleep(999)
        await node.use("a")
        await node.collector.collect()
        assert await node.left() == ["a", "b", "c"]
        await asyncio.sleep(2)
        node.runtime.add_image(SimulatedImage("new", size=1))
        await node.collector.collect()
        assert await node.left() == ["a", "new"]

    check(steps())


def test_failures_are_told_and_the_rest_goes_on() -> None:
    async def steps() -> None:
        node = Node(0)
        await node.collector.detect()
        await asyncio.sleep(OLD)
        node.runtime.faults.errors["remove_image"] = RuntimeRequestError("busy")
        with pytest.raises(
            ImageGarbageCollectionError, match=r"wanted to free 200 bytes, but freed 0 bytes.*busy.*busy.*busy"
        ):
            await node.collector.collect()
        node.runtime.faults.errors.clear()
        await node.collector.collect()
        assert len(await node.left()) == 1

    check(steps())


@pytest.mark.parametrize(
    "thresholds", [{"high_percent": 101}, {"low_percent": -1}, {"high_percent": 50, "low_percent": 60}]
)
def test_thresholds_that_contradict_each_other_are_refused(thresholds: dict[str, int]) -> None:
    with pytest.raises(ImagePolicyError):
        ImagePolicy(**thresholds)


def test_a_node_shows_its_largest_images() -> None:
    many = [Image(f"i{number}", tags=(f"t{number}",), digests=tuple("dddddd"), size=number) for number in range(60)]
    shown = node_images(many)
    assert len(shown) == 50
    assert [each.size_bytes for each in shown[:2]] == [59, 58]
    assert shown[0].names == ("d",) * 5
    assert len(node_images(many, -1)) == 60
    assert node_images([Image("i", tags=("t",), digests=("d",))])[0].names == ("d", "t")
