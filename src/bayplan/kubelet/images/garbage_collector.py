"""Which images go when the disk is full or they are old, and the list of images that a node shows.

Source: https://kubernetes.io/docs/concepts/architecture/garbage-collection/#container-image-garbage-collection. Never removed: what a container has or
mounts, what the runtime pins, what came less than the minimum age ago.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import Image
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

NODE_IMAGES = 50
"""How many images a node's status shows: kubelet's nodeStatusMaxImages."""
_NAMES = 5
"""How many names of an image a node's status shows."""


class ImagePolicyError(ValueError):
    """Thresholds that contradict each other."""


class ImageGarbageCollectionError(Exception):
    """Not as much could be freed as was wanted; the message is that of kubelet's event, `reason` the event's, if there is one."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """KubeletConfiguration: imageGCHighThresholdPercent, imageGCLowThresholdPercent, imageMinimumGCAge, imageMaximumGCAge (seconds, 0 for none). Raises
    ImagePolicyError."""

    high_percent: int = 85
    low_percent: int = 80
    minimum_age: float = 120.0
    maximum_age: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.high_percent <= 100:
            raise ImagePolicyError(f"invalid HighThresholdPercent {self.high_percent}, must be in range [0-100]")
        if not 0 <= self.low_percent <= 100:
            raise ImagePolicyError(f"invalid LowThresholdPercent {self.low_percent}, must be in range [0-100]")
        if self.low_percent > self.high_percent:
            raise ImagePolicyError(
                f"LowThresholdPercent {self.low_percent} can not be higher than HighThresholdPercent {self.high_percent}"
            )


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of images, in bytes."""

    capacity: int
    available: int


@dataclass(slots=True)
class ImageUse:
    """What is known of an image: when it was first seen and last used (minus infinity for never), in seconds of the clock."""

    image: Image
    first_seen: float
    last_used: float = -math.inf
    is_used: bool = False


def removal_order(images: Iterable[ImageUse]) -> list[ImageUse]:
    """Images that may go, those first that have not been used for longest."""
    free = [each for each in images if not each.is_used and not each.image.pinned]
    return sorted(free, key=lambda each: (each.last_used, each.first_seen))


def bytes_to_free(policy: ImagePolicy, disk: Disk) -> tuple[int, int]:
    """(bytes that are to be freed, percent that are used). Nothing is to be freed below the high threshold."""
    available = min(disk.available, disk.capacity)
    used = 100 - available * 100 // disk.capacity
    if used < policy.high_percent:
        return 0, used
    return disk.capacity * (100 - policy.low_percent) // 100 - available, used


class ImageGarbageCollector:
    """Remembers when images were used and removes them. disk: the state of the images' file system now. The caller prunes the pull records."""

    def __init__(
        self, runtime: Runtime, clock: Clock, disk: Callable[[], Awaitable[Disk]], policy: ImagePolicy | None = None
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._disk = disk
        self._policy = policy or ImagePolicy()
        self._uses: dict[str, ImageUse] = {}
        self._started = clock.monotonic()

    async def detect(self) -> list[ImageUse]:
        """Look which images there are and which are used; to be called every five minutes, so that ages are right. Raises RuntimeRequestError."""
        now = self._clock.monotonic()
        images = await self._runtime.images()
        used = await self._used()
        uses = {}
        for image in images:
            use = self._uses.get(image.id) or ImageUse(image, now)
            use.image, use.is_used = image, image.id in used
            if use.is_used:
                use.last_used = now
            uses[image.id] = use
        self._uses = uses
        return list(uses.values())

    async def _used(self) -> set[str]:
        """Ids of images that containers have or mount."""
        used = set()
        for container in await self._runtime.containers():
            used |= {container.image_id, container.image_ref, container.image}
            try:
                status = await self._runtime.container_status(container.id)
            except NotFoundError:
                continue
            used |= {mount.image.image for mount in status.mounts if mount.image is not None}
        return used - {""}

    async def collect(self) -> list[str]:
        """Remove what is too old, and what is needed to get below the low threshold. Returns the ids of those that stay. Raises ImageGarbageCollectionError,
        RuntimeRequestError."""
        order = await self._remove_old(removal_order(await self.detect()))
        disk = await self._disk()
        if disk.capacity == 0:
            raise ImageGarbageCollectionError("invalid capacity 0 on image filesystem", "InvalidDiskCapacity")
        wanted, percent = bytes_to_free(self._policy, disk)
        if wanted > 0:
            freed = await self._free(order, wanted)
            if freed < wanted:
                raise ImageGarbageCollectionError(
                    f"Insufficient free disk space on the node's image filesystem ({percent}% of {_shown(disk.capacity)} used). "
                    f"Failed to free sufficient space by deleting unused images (freed {freed} bytes). "
                    "Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
                    "FreeDiskSpaceFailed",
                )
        return list(self._uses)

    async def delete_unused(self) -> list[str]:
        """Remove all that nothing uses, but for what is too young: the node is about to evict pods. Returns the ids of those that stay. Raises
        ImageGarbageCollectionError, RuntimeRequestError."""
        await self._free(removal_order(await self.detect()), math.inf)
        return list(self._uses)

    async def _remove_old(self, order: Sequence[ImageUse]) -> list[ImageUse]:
        """Remove what was not used for the maximum age. Ages begin with this process: before as much time has passed, nothing is old."""
        limit, now = self._policy.maximum_age, self._clock.monotonic()
        if not limit or now - self._started <= limit:
            return list(order)
        left, errors = [], []
        for use in order:
            if now - max(use.last_used, use.first_seen) <= limit:
                left.append(use)
                continue
            error = await self._remove(use)
            if error:
                left.append(use)
                errors.append(error)
        if errors:
            raise ImageGarbageCollectionError(
                f"wanted to free images older than {limit:g} s, encountered errors in image deletion: {'; '.join(errors)}"
            )
        return left

    async def _free(self, order: Sequence[ImageUse], wanted: float) -> int:
        """Remove images until so many bytes are freed; returns how many were."""
        now, freed, errors = self._clock.monotonic(), 0, []
        for use in order:
            if now - use.first_seen < self._policy.minimum_age:
                continue
            error = await self._remove(use)
            if error:
                errors.append(error)
                continue
            freed += use.image.size
            if freed >= wanted:
                break
        if errors:
            raise ImageGarbageCollectionError(
                f"wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: {'; '.join(errors)}"
            )
        return freed

    async def _remove(self, use: ImageUse) -> str:
        """Remove an image; returns why it did not work."""
        logger.info("removing image %s to free %d bytes", use.image.id, use.image.size)
        try:
            await self._runtime.remove_image(use.image.id)
        except RuntimeRequestError as error:
            return error.rpc_text
        del self._uses[use.image.id]
        return ""


def node_images(images: Iterable[Image], limit: int = NODE_IMAGES) -> tuple[core_v1.ContainerImage, ...]:
    """`status.images` of a node: the largest images with some of their names. limit: -1 for all of them."""
    ordered = sorted(images, key=lambda image: image.size, reverse=True)
    return tuple(
        core_v1.ContainerImage(names=(*image.digests, *image.tags)[:_NAMES], size_bytes=image.size)
        for image in (ordered if limit < 0 else ordered[:limit])
    )


def _shown(size: int) -> str:
    """A size as people read it, in kubelet's form."""
    number, unit = float(size), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if number < 1024:
            break
        number, unit = number / 1024, bigger
    return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"
