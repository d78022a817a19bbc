"""The images of a simulated runtime, and what each of its calls goes through: faults, time limits, late answers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

from bayplan.kubelet.runtime.behaviour import Faults, SimulatedImage
from bayplan.kubelet.runtime.errors import (
    NotFoundError,
    RuntimeRequestError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
)
from bayplan.kubelet.runtime.simulated_state import NANOSECONDS, PendingCalls
from bayplan.kubelet.runtime.types import Credentials, FilesystemUsage, Image, SandboxConfig
from bayplan.support.clock import Clock

DISK_FULL = "write /var/lib/simulated/data: no space left on device"


class SimulatedImages:
    """Image service in memory; base of `SimulatedRuntime`.

    images: what a registry has; with `any_image` it has every image. request_timeout: seconds after which calls that hang fail.
    """

    def __init__(self, clock: Clock, images: Iterable[SimulatedImage], any_image: bool, request_timeout: float) -> None:
        self.registry = {image.name: image for image in images}
        self.faults = Faults()
        self.pulls: list[tuple[str, Credentials | None]] = []
        """Every pull that was asked for, with its credentials."""
        self._any_image = any_image
        self._clock = clock
        self._seconds = request_timeout
        self._images: dict[str, Image] = {}
        self._pending = PendingCalls(clock)
        self._is_down = False

    def add_image(self, image: SimulatedImage) -> None:
        """Have an image on the node without a pull."""
        self.registry[image.name] = image
        self._images[image.name] = _present(image)

    async def _begin(self, method: str, seconds: float = 0.0) -> None:
        """Fail or wait as faults say. seconds: what the call may take more than the usual limit."""
        if self._is_down:
            raise RuntimeUnavailableError("connection error: desc = the simulated runtime is down")
        faults = self.faults
        if method in faults.hanging or "*" in faults.hanging:
            limit = self._seconds + seconds
            await self._pending.wait(limit, RuntimeTimeoutError("context deadline exceeded"))
        error = faults.errors.get(method) or faults.errors.get("*")
        if error is not None:
            raise error

    async def _finish(self, method: str) -> None:
        """Let the answer come late if faults say so."""
        delay = self.faults.late.get(method) or self.faults.late.get("*") or 0.0
        if delay:
            error = RuntimeTimeoutError("context deadline exceeded") if delay > self._seconds else None
            await self._pending.wait(min(delay, self._seconds), error)

    def _now(self) -> int:
        return int(self._clock.now() * NANOSECONDS)

    async def images(self) -> Sequence[Image]:
        """See Runtime."""
        await self._begin("images")
        await self._finish("images")
        return list(self._images.values())

    async def image_status(self, image: str, *, runtime_handler: str = "") -> Image | None:
        """See Runtime."""
        await self._begin("image_status")
        await self._finish("image_status")
        return self._image(image)

    def _image(self, name: str) -> Image | None:
        """An image by one of its names, or by its id."""
        return self._images.get(name) or next((each for each in self._images.values() if each.id == name), None)

    async def pull_image(
        self,
        image: str,
        credentials: Credentials | None,
        sandbox: SandboxConfig | None = None,
        *,
        runtime_handler: str = "",
    ) -> str:
        """See Runtime."""
        self.pulls.append((image, credentials))
        await self._begin("pull_image", math.inf)
        found = self.registry.get(image) or (SimulatedImage(image) if self._any_image else None)
        if found is None:
            text = f"failed to pull and unpack image {_quoted(image)}: failed to resolve reference {_quoted(image)}: {image}: not found"
            raise NotFoundError(text)
        await self._pending.wait(math.inf if image in self.faults.never_pulled else found.pull_seconds)
        if self.faults.disk_full:
            raise RuntimeRequestError(f"failed to pull and unpack image {_quoted(image)}: {DISK_FULL}")
        self.registry[image] = found
        self._images[image] = _present(found)
        await self._finish("pull_image")
        return self._images[image].id

    async def remove_image(self, image: str) -> None:
        """See Runtime."""
        await self._begin("remove_image")
        found = self._image(image)
        if found is not None:
            for name in found.tags:
                self._images.pop(name, None)
        await self._finish("remove_image")

    async def image_filesystems(self) -> tuple[Sequence[FilesystemUsage], Sequence[FilesystemUsage]]:
        """See Runtime."""
        await self._begin("image_filesystems")
        used = sum(each.size for each in self._images.values())
        await self._finish("image_filesystems")
        usage = [FilesystemUsage(self._now(), "/simulated", used, len(self._images))]
        return usage, usage


def _present(image: SimulatedImage) -> Image:
    """An image as the runtime shows it once it is there."""
    digest = hashlib.sha256(image.name.encode()).hexdigest()
    repository = image.name.partition("@")[0]
    if ":" in repository.rpartition("/")[2]:
        repository = repository.rpartition(":")[0]
    return Image(
        id=f"sha256:{digest}",
        tags=(image.name,),
        digests=(f"{repository}@sha256:{digest}",),
        size=image.size,
        user_id=image.user_id,
        username=image.username,
        pinned=image.pinned,
    )


def _quoted(text: str) -> str:
    return f'"{text}"'
