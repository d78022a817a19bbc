"""The agent of a node: keeps replicas on the node's disks, is the head of the volumes that pods of the node use, and is the node's half of the CSI driver.

A staged volume is a FUSE file, whose reads and writes are the head's, with an ext4 file system on it that is mounted through a loop device.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.client.errors import TransportError
from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument
from bayplan.csi.registration import RegistrationServer
from bayplan.csi.server import csi_server, handlers
from bayplan.csi_local.operations import Operations
from bayplan.support.blocking import in_thread
from bayplan.support.clock import Clock, SystemClock
from bayplan.support.system.mounts import MountError, SystemMounter, clean_up_mount_point, mount_at
from bayplan.support.system.programs import ProgramError, run

from .discover import LABEL, is_usable, size_of
from .fuse import FuseFile
from .head import Fenced, Head, Member
from .objects import DRIVER, NODES, VOLUMES, Api, path, pod_client, time_text
from .provisioning import IdentityService, check_capabilities
from .replica import PORT, ReplicaStore
from .rules import Volume, may_take

logger = logging.getLogger(__name__)

RUN: Final = Path("/run/replicated-storage")
"""Where disks and FUSE files are mounted: nobody outside the container sees them."""
_TICK_SECONDS: Final = 2.0
_FIRST_MEBIBYTE: Final = 1 << 20
_EXT4_MAGIC: Final = (1080, b"\x53\xef")
"""Where the superblock of ext4 has its mark."""


class StatusRecord:
    """The record of replicas in sync in a ReplicatedVolume's status (see head.Record)."""

    def __init__(self, api: Api, volume: str, node: str, epoch: int, clock: Clock) -> None:
        self._api, self._volume, self._node, self._epoch, self._clock = api, volume, node, epoch, clock

    async def put(self, in_sync: Iterable[str], rebuilding: Iterable[str]) -> None:
        """See Record."""
        await self._change({"inSync": sorted(in_sync), "rebuilding": sorted(rebuilding)})

    async def release(self) -> None:
        """Record that nobody is the head. Raises Fenced."""
        await self._change({"holder": "", "rebuilding": []})

    async def _change(self, fields: dict[str, Any]) -> None:
        while True:
            try:
                now, version = await self._api.volume(self._volume)
                if (now.epoch, now.holder) != (self._epoch, self._node):
                    raise Fenced
                patch = {"metadata": {"resourceVersion": version}, "status": fields}
                await self._api.merge(path(VOLUMES, self._volume, "status"), patch)
                return
            except ApiError as error:
                if error.code == 404:
                    raise Fenced from error
                if error.code != 409:
                    logger.warning("%s: %s", self._volume, error)
                    await self._clock.sleep(1)
            except TransportError as error:  # writes wait until it is recorded that a replica has missed one
                logger.warning("%s: %s", self._volume, error)
                await self._clock.sleep(1)


@dataclass(slots=True)
class StagedVolume:
    """A volume whose head is here."""

    head: Head
    file: FuseFile
    keeper: asyncio.Task[None]
    """Follows where replicas ought to be, and rebuilds."""


class Agent:
    """See the module. address: where heads of other nodes reach this node's replicas."""

    def __init__(self, api: Api, node: str, address: str, lost_after: float, clock: Clock) -> None:
        self.staged: dict[str, StagedVolume] = {}
        self._api, self._node, self._address, self._lost_after, self._clock = api, node, address, lost_after, clock
        self._disks: dict[str, Path] = {}
        self._mounter = SystemMounter(in_thread)
        self.replicas = ReplicaStore(self._disks.get)

    # Disks and replicas

    async def tick(self) -> None:
        """Make discovered disks ready, say that this agent lives, and remove replicas of volumes that have gone. Raises ApiError, TransportError."""
        status = (await self._api.get(path(NODES, self._node))).get("status") or {}
        for disk in status.get("disks", ()):
            if disk["path"] not in self._disks:
                try:
                    await self._make_ready(disk["path"])
                except (ProgramError, OSError) as error:
                    logger.warning("disk %s: %s", disk["path"], error)
        ready = [{"path": disk, "size": size_of(Path(disk))} for disk in sorted(self._disks)]
        report = {"address": self._address, "heartbeatTime": time_text(self._clock.now()), "ready": ready}
        await self._api.merge(path(NODES, self._node, "status"), {"status": report})
        await self._remove_unwanted()

    async def _make_ready(self, disk: str) -> None:
        """Mount a disk, with a file system of ours if there is nothing on it. Raises ProgramError, OSError."""
        if not await in_thread(lambda: is_usable(Path(disk))):
            raise OSError(f"{disk} has something on it")
        if not await in_thread(lambda: _has_ext4(Path(disk))):
            await run("mkfs.ext4", "-q", "-F", "-L", LABEL, "-E", "nodiscard", disk)
        target = RUN / "disks" / disk.strip("/").replace("/", "_")
        _make_directory(target)
        await run("mount", *(() if disk.startswith("/dev/") else ("-o", "loop")), "-t", "ext4", disk, str(target))
        self._disks[disk] = target
        logger.info("disk %s is ready", disk)

    async def _remove_unwanted(self) -> None:
        for disk, directory in self._disks.items():
            for image in directory.glob("*.img"):
                if self.replicas.is_open(image):
                    continue
                try:
                    volume, _ = await self._api.volume(image.stem)
                    wanted = any((one.node, one.disk) == (self._node, disk) for one in volume.placement)
                except ApiError as error:
                    if error.code != 404:
                        raise
                    wanted = False
                if not wanted and not self.replicas.is_open(image):
                    image.unlink()
                    image.with_suffix(".epoch").unlink(missing_ok=True)
                    logger.info("removed the replica of %s", image.stem)

    # Heads

    async def _take(self, name: str) -> tuple[Volume, StatusRecord]:
        """Become the head: from now on replicas and record refuse the head before. Raises DriverError."""
        while True:
            volume, version = await self._api.volume(name)
            if not may_take(volume, self._node, await self._api.nodes(), self._clock.now(), self._lost_after):
                raise DriverError(f"volume {name} is in use on node {volume.holder}", "FAILED_PRECONDITION")
            status = {"epoch": volume.epoch + 1, "holder": self._node, "rebuilding": []}
            patch = {"metadata": {"resourceVersion": version}, "status": status}
            try:
                await self._api.merge(path(VOLUMES, name, "status"), patch)
                return volume, StatusRecord(self._api, name, self._node, volume.epoch + 1, self._clock)
            except ApiError as error:
                if error.code != 409:
                    raise

    async def _open(self, volume: Volume, epoch: int, node: str, *, create: bool) -> Member:
        """Connect to a replica. Raises OSError."""
        (disk,) = [one.disk for one in volume.placement if one.node == node] or [""]
        known = (await self._api.nodes()).get(node)
        if known is None or not disk:
            raise OSError(f"there is no node {node} for {volume.name}")
        return await Member.open(
            node, known.address, PORT, disk=disk, volume=volume.name, size=volume.size, epoch=epoch, create=create
        )

    async def _start_head(self, name: str) -> tuple[Head, int]:
        volume, record = await self._take(name)
        members, epoch = [], volume.epoch + 1
        is_new = volume.in_sync is None
        for node in volume.in_sync if volume.in_sync is not None else [one.node for one in volume.placement]:
            try:
                members.append(await self._open(volume, epoch, node, create=is_new))
            except OSError as error:
                logger.warning("%s: the replica on %s cannot be reached: %s", name, node, error)
        head = Head(volume.size, volume.min_in_sync, record, self._node)
        try:
            await head.start(members)
        except BaseException:
            await head.close()
            raise
        return head, epoch

    async def _keep(self, name: str, head: Head, epoch: int) -> None:
        """Follow the placement: drop what has no place, rebuild what is missing."""
        while True:
            await self._clock.sleep(_TICK_SECONDS / 2)
            try:
                volume, _ = await self._api.volume(name)
                places = {one.node for one in volume.placement}
                await head.drop_unwanted(places)
                for node in sorted(places - set(head.in_sync)):
                    await head.rebuild(await self._open(volume, epoch, node, create=True))
            except Fenced:
                logger.error("%s: another node is its head now", name)
                return
            except (ApiError, TransportError, OSError) as error:
                logger.warning("%s: %s", name, error)

    # Staging

    async def stage(self, name: str, staging: Path) -> None:
        """Mount a volume. Raises DriverError, OSError, ProgramError, MountError."""
        mounted = mount_at(self._mounter.list(), staging)
        if name in self.staged and mounted is not None:
            return
        if mounted is not None:  # of an agent that has died: its file has gone
            await self._mounter.unmount(staging)
        staged = self.staged.get(name) or await self._attach(name)
        magic = await staged.head.read(_EXT4_MAGIC[0], len(_EXT4_MAGIC[1]))
        if magic != _EXT4_MAGIC[1]:
            if any(await staged.head.read(0, _FIRST_MEBIBYTE)):
                raise DriverError(f"volume {name} has something other than ext4 on it", "FAILED_PRECONDITION")
            await run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", str(staged.file.path))
        _make_directory(staging)
        await run("mount", "-o", "loop", "-t", "ext4", str(staged.file.path), str(staging))

    async def _attach(self, name: str) -> StagedVolume:
        head, epoch = await self._start_head(name)
        try:
            file = FuseFile(head, RUN / "volumes" / name)
            _make_directory(file.path.parent)
            file.mount()
        except BaseException:
            await head.close()
            raise
        keeper = asyncio.create_task(self._keep(name, head, epoch), name=f"keep {name}")
        self.staged[name] = StagedVolume(head, file, keeper)
        return self.staged[name]

    async def unstage(self, name: str, staging: Path) -> None:
        """Undo that. Raises OSError, MountError."""
        await clean_up_mount_point(self._mounter, staging)
        staged = self.staged.pop(name, None)
        if staged is not None:
            staged.keeper.cancel()
            await asyncio.gather(staged.keeper, return_exceptions=True)
            await staged.file.unmount()
            await staged.head.close()
        await self._release(name)

    async def _release(self, name: str) -> None:
        """Record that this node has no head of the volume, also for one that an agent had which has died."""
        try:
            volume, _ = await self._api.volume(name)
        except ApiError as error:
            if error.code != 404:
                raise
            return
        if volume.holder == self._node:
            with contextlib.suppress(Fenced):  # another node has taken it meanwhile
                await StatusRecord(self._api, name, self._node, volume.epoch, self._clock).release()

    async def publish(self, name: str, staging: Path, target: Path, *, read_only: bool) -> None:
        """Bring a staged volume to a pod. Raises what `stage` does.

        What an agent staged that has died gives but errors. A kubelet takes it for staged as long as pods of the node follow each other, so it is staged anew.
        """
        if name not in self.staged or mount_at(self._mounter.list(), staging) is None:
            await self.stage(name, staging)
        if mount_at(self._mounter.list(), target) is None:
            _make_directory(target)
            await self._mounter.bind(str(staging), target, read_only=read_only)

    async def unpublish(self, target: Path) -> None:
        """Undo that. Raises OSError, MountError."""
        await clean_up_mount_point(self._mounter, target)


class NodeService:
    """The node service of CSI."""

    def __init__(self, agent: Agent, node: str) -> None:
        self._agent, self._node, self._operations = agent, node, Operations()

    async def node_get_capabilities(self, request: csi.Empty) -> csi.CapabilitiesResponse:
        """Volumes are staged."""
        return csi.CapabilitiesResponse((csi.RpcCapability(csi.Enumerated(csi.NodeCapability.STAGE_UNSTAGE_VOLUME)),))

    async def node_get_info(self, request: csi.Empty) -> csi.NodeGetInfoResponse:
        """This node. It has no topology: volumes can be used on every node."""
        return csi.NodeGetInfoResponse(self._node)

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.Empty:
        """See Agent."""
        if request.volume_capability is None:
            raise InvalidArgument("volume_capability is missing")
        check_capabilities((request.volume_capability,))
        work = self._agent.stage(request.volume_id, Path(request.staging_target_path))
        await self._operations.run(work, request.volume_id)
        return csi.Empty()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.Empty:
        """See Agent."""
        work = self._agent.unstage(request.volume_id, Path(request.staging_target_path))
        await self._operations.run(work, request.volume_id)
        return csi.Empty()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.Empty:
        """See Agent."""
        staging, target = Path(request.staging_target_path), Path(request.target_path)
        work = self._agent.publish(request.volume_id, staging, target, read_only=request.readonly)
        await self._operations.run(work, request.volume_id)
        return csi.Empty()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.Empty:
        """See Agent."""
        await self._operations.run(self._agent.unpublish(Path(request.target_path)), request.volume_id)
        return csi.Empty()


def answers(*services: Any) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """The calls of services by their names; what fails on the node or at the API server is an error for the caller."""
    found = {name: one for service in services for name, one in handlers(service).items()}
    return {name: partial(_answer, name, one) for name, one in found.items()}


async def _answer(name: str, handler: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
    try:
        return await handler(request)
    except (ApiError, TransportError, ProgramError, MountError, OSError) as error:
        logger.warning("%s: %s", name, error)
        raise DriverError(f"{name}: {error}", "INTERNAL") from error


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _has_ext4(disk: Path) -> bool:
    with disk.open("rb") as file:
        file.seek(_EXT4_MAGIC[0])
        return file.read(len(_EXT4_MAGIC[1])) == _EXT4_MAGIC[1]


async def main() -> None:
    """Serve until SIGTERM."""
    environment = os.environ
    api, clock, node = Api(pod_client()), SystemClock(), environment["NODE_NAME"]
    agent = Agent(api, node, environment["POD_IP"], float(environment["LOST_AFTER_SECONDS"]), clock)
    kubelet = Path(environment["KUBELET_DIRECTORY"])
    endpoint = kubelet / "plugins" / DRIVER / "csi.sock"
    driver = csi_server(endpoint, answers(IdentityService(with_controller=False), NodeService(agent, node)))
    registration = RegistrationServer(kubelet / "plugins_registry", DRIVER, endpoint)
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    replicas = await asyncio.start_server(agent.replicas.serve, port=PORT)
    await driver.start()
    await registration.start()
    logger.info("the agent of %s listens", node)
    try:
        while not stop.is_set():
            try:
                await agent.tick()
            except (ApiError, TransportError) as error:
                logger.warning("%s", error)
            with contextlib.suppress(TimeoutError):  # the next tick
                async with asyncio.timeout(_TICK_SECONDS):
                    await stop.wait()
    finally:
        await registration.stop()
        await driver.stop()
        replicas.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(main())
