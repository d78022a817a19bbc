"""The local driver on this machine, with its mounts and loop devices, and what is needed to see and to remove these."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bayplan.csi import messages as csi
from bayplan.csi.client import CsiClient
from bayplan.csi.errors import CsiError
from bayplan.csi_local.loop_devices import LoopDevices
from bayplan.csi_local.service import LocalDriverService
from bayplan.csi_local.settings import LocalDriverSettings
from bayplan.support.blocking import in_thread
from bayplan.support.clock import SystemClock
from bayplan.support.grpc.calls import Connection
from bayplan.support.randomness import SeededRandomness
from bayplan.support.system.mounts import MOUNT_INFO, MountPoint, mounts_below, parse_mount_info

MI = 1 << 20
_CAP_SYS_RESOURCE = 24


def why_no_images() -> str:
    """What this machine lacks for images on loop devices; "" if nothing."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not Path("/dev/loop-control").exists():
        return "this machine has no loop devices"
    needed = ("losetup", "setpriv", "mkfs.ext4", "resize2fs", "e2fsck", "fsfreeze")
    missing = [one for one in needed if shutil.which(one) is None]
    return f"{missing[0]} is not installed" if missing else ""


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
needs_images = pytest.mark.skipif(bool(why_no_images()), reason=why_no_images() or "never")


def may_grow_ext4_online() -> bool:
    """Whether the kernel lets this process resize a mounted ext4."""
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)


def mounts(directory: Path) -> list[MountPoint]:
    return mounts_below(parse_mount_info(MOUNT_INFO.read_text()), directory)


def loops(directory: Path) -> list[str]:
    """The image files below a directory that have loop devices."""
    found = Path("/sys/block").glob("loop*/loop/backing_file")
    return [text for one in found if (text := one.read_text().strip()).startswith(str(directory))]


def are_detached(directory: Path, seconds: float = 10.0) -> bool:
    """Whether no image below a directory has a loop device: soon, as the kernel keeps one as long as anybody has it open, such as a container that is being made."""
    until = time.monotonic() + seconds
    while loops(directory) and time.monotonic() < until:
        time.sleep(0.1)
    return not loops(directory)


def clean_up(directory: Path) -> None:
    """Remove what a test that failed has left."""
    for each in mounts(directory):
        subprocess.run(["umount", "--lazy", each.path], check=False)
    devices = LoopDevices()
    for image in loops(directory):
        for device in devices.of(Path(image.removesuffix(" (deleted)"))):
            subprocess.run(["losetup", "--detach", str(device)], check=False)


class Machine:
    """A driver and its client, below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        self.settings = LocalDriverSettings(node_name="n1", data_dir=self.data, endpoint=root / "csi.sock")
        self.client: CsiClient

    @asynccontextmanager
    async def driver(self) -> AsyncIterator[CsiClient]:
        service = LocalDriverService(
            self.settings, clock=SystemClock(), randomness=SeededRandomness(os.getpid()), blocking=in_thread
        )
        async with service:
            self.client = CsiClient(Connection(self.settings.endpoint), seconds=30.0, clock=SystemClock())
            try:
                yield self.client
            finally:
                await self.client.close()

    def request(self, name: str, kind: str, size: int = 32 * MI, **fields: Any) -> csi.CreateVolumeRequest:
        capability = fields.pop("capability", capability_of())
        return csi.CreateVolumeRequest(name, csi.CapacityRange(size), (capability,), {"type": kind}, **fields)

    async def make(self, name: str, kind: str, size: int = 32 * MI, **fields: Any) -> csi.Volume:
        return await self.client.create_volume(self.request(name, kind, size, **fields))

    def staging(self, volume: str) -> Path:
        return self.root / "staging" / volume

    async def stage(self, volume: csi.Volume, capability: csi.VolumeCapability | None = None) -> None:
        path = str(self.staging(volume.volume_id))
        await self.client.node_stage_volume(
            csi.NodeStageVolumeRequest(volume.volume_id, {}, path, capability or capability_of())
        )

    async def publish(
        self, volume: csi.Volume, pod: str, capability: csi.VolumeCapability | None = None, *, readonly: bool = False
    ) -> Path:
        target = self.root / "pods" / pod
        target.parent.mkdir(exist_ok=True)
        await self.client.node_publish_volume(
            csi.NodePublishVolumeRequest(
                volume.volume_id,
                {},
                str(self.staging(volume.volume_id)),
                str(target),
                capability or capability_of(),
                readonly,
                volume_context=volume.volume_context,
            )
        )
        return target

    async def unpublish(self, volume_id: str, target: Path) -> None:
        await self.client.node_unpublish_volume(csi.NodeUnpublishVolumeRequest(volume_id, str(target)))

    async def unstage(self, volume_id: str) -> None:
        await self.client.node_unstage_volume(csi.NodeUnstageVolumeRequest(volume_id, str(self.staging(volume_id))))

    async def use(self, volume: csi.Volume, pod: str, capability: csi.VolumeCapability | None = None) -> Path:
        await self.stage(volume, capability)
        return await self.publish(volume, pod, capability)

    async def give_back(self, volume: csi.Volume, target: Path) -> None:
        await self.unpublish(volume.volume_id, target)
        await self.unstage(volume.volume_id)

    async def delete(self, volume: csi.Volume) -> None:
        await self.client.delete_volume(csi.DeleteVolumeRequest(volume.volume_id))

    async def expand(self, volume: csi.Volume, size: int) -> csi.ControllerExpandVolumeResponse:
        return await self.client.controller_expand_volume(
            csi.ControllerExpandVolumeRequest(volume.volume_id, csi.CapacityRange(size))
        )

    async def snapshot(self, volume: csi.Volume, name: str) -> csi.Snapshot:
        return await self.client.create_snapshot(csi.CreateSnapshotRequest(volume.volume_id, name))


def capability_of(mode: int = csi.Access.SINGLE_NODE_WRITER, fs_type: str = "") -> csi.VolumeCapability:
    return csi.VolumeCapability(mount=csi.MountVolume(fs_type), access_mode=csi.AccessMode(mode))


BLOCK = csi.VolumeCapability(block=csi.Empty(), access_mode=csi.AccessMode(csi.Access.SINGLE_NODE_WRITER))


async def refused(call: Awaitable[Any]) -> tuple[str, str]:
    """Code and text of a call that must fail."""
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value.code, caught.value.message


def on(root: Path, test: Callable[[Machine], Awaitable[None]]) -> None:
    """Run a test with a driver, and see that nothing is left mounted."""

    async def main() -> None:
        machine = Machine(root)
        async with machine.driver():
            await test(machine)

    try:
        asyncio.run(main())
        assert mounts(root) == []
        assert are_detached(root)
    finally:
        clean_up(root)
