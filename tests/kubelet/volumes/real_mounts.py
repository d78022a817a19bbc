"""Cases with real mounts: `python -m tests.kubelet.volumes.real_mounts CASE DIRECTORY`.

`test_real_mounts` runs each in a mount namespace that goes with the process.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from bayplan.api.types import core_v1
from bayplan.csi_local.loop_devices import LoopDevices
from bayplan.kubelet.volumes import subpath
from bayplan.kubelet.volumes.directories import unmount_tree
from bayplan.kubelet.volumes.errors import SubPathError, VolumeError
from bayplan.kubelet.volumes.interface import VolumeHost
from bayplan.kubelet.volumes.subpath import SubPath, clean_up_sub_paths, prepare_sub_path
from bayplan.support.blocking import in_thread
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.system.mounts import MountError, SystemMounter, mount_at, mounts_below
from tests.csi_local.machine import may_grow_ext4_online, why_no_images
from tests.kubelet.volumes.node import UID, Node, pod_with, shown
from tests.kubelet.volumes.test_manager import add_claim, claimed, empty_dir


class RealNode(Node):
    """A node with this process's mounts, and threads for what blocks."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.mounter = SystemMounter(in_thread)
        self.host = VolumeHost(
            root=root,
            node_name="n1",
            mounter=self.mounter,
            objects=self.objects,
            clock=SystemClock(),
            randomness=SeededRandomness(1),
            blocking=in_thread,
            allocatable=lambda: self.node.status.allocatable,
            event=lambda pod, kind, reason, message: self.events.append(f"{kind} {reason} {message}"),
        )
        self.manager = self.restarted()


def read(path: str) -> str:
    return Path(path).read_text()


def is_directory(path: str) -> bool:
    return Path(path).is_dir()


def shows(directory: Path, files: dict[str, str]) -> bool:
    """Whether a container would see these files; what it lists may go while it reads, when all of them change at once."""
    try:
        return shown(directory) == files
    except FileNotFoundError:
        return False


async def eventually(condition: Callable[[], bool]) -> None:
    """Return when something holds that another task sees to."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0)


async def secrets_are_in_memory_and_go(top: Path) -> None:
    node = RealNode(top)
    node.objects.put_secret("s", password="x")
    secret = core_v1.Volume(name="v", secret=core_v1.SecretVolumeSource(secret_name="s", default_mode=0o400))
    await node.manager.wait_for_mounts(pod_with(secret))
    directory = node.directory("secret")
    mount = mount_at(node.mounter.list(), directory)
    assert mount is not None
    assert mount.type == "tmpfs"
    assert "noswap" in mount.options or os.uname().release < "6.4"
    assert shown(directory) == {"password": "x"}
    node.objects.put_secret("s", password="y")
    await eventually(lambda: shows(directory, {"password": "y"}))
    await node.manager.unmount(UID)
    assert mounts_below(node.mounter.list(), top) == []
    assert not directory.exists()


async def memory_is_limited(top: Path) -> None:
    node = RealNode(top)
    volume = core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource(medium="Memory", size_limit="1Mi"))
    found = await node.manager.wait_for_mounts(pod_with(volume))
    file = Path(found["v"].host_path) / "file"
    file.write_bytes(b"x" * 900_000)
    with pytest.raises(OSError, match="No space left"):
        file.write_bytes(b"x" * 1_100_000)
    usage = (await node.manager.usage(UID))["v"]
    assert usage.capacity_bytes == 2**20
    await node.manager.unmount(UID)


async def local_volumes_are_bound_and_stay(top: Path) -> None:
    node = RealNode(top / "root")
    data = top / "data"
    data.mkdir()
    (data / "file").write_text("precious")
    add_claim(node, data)
    await node.manager.wait_for_mounts(pod_with(claimed(), security_context=core_v1.PodSecurityContext(fs_group=4321)))
    bound = node.directory("local-volume", "pv")
    assert (bound / "file").read_text() == "precious"
    assert (data / "file").stat().st_gid == 4321
    manager = node.restarted()
    await manager.remove_orphans(set())
    assert mounts_below(node.mounter.list(), top) == []
    assert (data / "file").read_text() == "precious"
    assert list((top / "root" / "pods").iterdir()) == []


async def local_devices_get_a_file_system_once(top: Path) -> None:
    node, loops, image = RealNode(top / "root"), LoopDevices(), top / "image"
    with image.open("wb") as file:
        file.truncate(8 << 20)
    device = await loops.attach(image)
    try:
        add_claim(node, device)
        found = await node.manager.wait_for_mounts(pod_with(claimed()))
        (Path(found["v"].host_path) / "file").write_text("precious")
        await node.manager.unmount(UID)
        assert mounts_below(node.mounter.list(), top) == []
        await node.restarted().wait_for_mounts(pod_with(claimed()))
        assert (node.directory("local-volume", "pv") / "file").read_text() == "precious"
        if may_grow_ext4_online():
            await a_larger_device_has_a_larger_file_system(node, loops, image)
        await node.manager.unmount(UID)
    finally:
        await loops.detach(image)


async def a_larger_device_has_a_larger_file_system(node: RealNode, loops: LoopDevices, image: Path) -> None:
    mounted = node.directory("local-volume", "pv")
    before = os.statvfs(mounted).f_blocks
    os.truncate(image, 32 << 20)
    for device in loops.of(image):
        await loops.refresh(device)
    volume = node.objects.volumes["pv"]
    spec = msgspec.structs.replace(volume.spec, capacity={"storage": "32Mi"})
    node.objects.volumes["pv"] = msgspec.structs.replace(volume, spec=spec)
    await node.restarted().wait_for_mounts(pod_with(claimed()))
    assert os.statvfs(mounted).f_blocks > 3 * before
    assert str(node.objects.claims["claim"].status.capacity["storage"]) == "32Mi"


async def read_only_volumes_cannot_be_written(top: Path) -> None:
    node = RealNode(top / "root")
    (top / "data").mkdir()
    add_claim(node, top / "data")
    volume = claimed()
    assert volume.persistent_volume_claim is not None
    volume.persistent_volume_claim.read_only = True
    found = await node.manager.wait_for_mounts(pod_with(volume))
    with pytest.raises(OSError, match="Read-only"):
        (Path(found["v"].host_path) / "file").write_text("x")
    await node.manager.unmount(UID)


async def what_is_mounted_within_a_volume_is_not_removed(top: Path) -> None:
    node = RealNode(top / "root")
    data = top / "data"
    data.mkdir()
    (data / "file").write_text("precious")
    await node.manager.wait_for_mounts(pod_with(empty_dir()))
    inner = node.directory("empty-dir") / "inner"
    inner.mkdir()
    await node.mounter.bind(str(data), inner)
    busy = await asyncio.create_subprocess_exec("sleep", "100", cwd=inner)
    with pytest.raises(VolumeError, match="device or resource busy"):
        await node.manager.unmount(UID)
    assert (data / "file").read_text() == "precious"
    busy.kill()
    await busy.wait()
    await node.manager.unmount(UID)
    assert mounts_below(node.mounter.list(), top) == []
    assert (data / "file").read_text() == "precious"


async def shared_directories_show_later_mounts_to_other_namespaces(top: Path) -> None:
    mounter = SystemMounter(in_thread)
    await mounter.make_shared(top)
    await mounter.make_shared(top)
    assert sum(each.path == str(top) for each in mounter.list()) == 1
    [line] = [line for line in read("/proc/self/mountinfo").splitlines() if f" {top} " in line]
    assert "shared:" in line
    other = await asyncio.create_subprocess_exec(
        "unshare", "-m", "--propagation", "unchanged", "sh", "-c", "echo; read _; cat /proc/self/mountinfo",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert other.stdout is not None
    await other.stdout.readline()
    (top / "later").mkdir()
    await mounter.mount("tmpfs", top / "later", "tmpfs", ["size=65536"])
    output, _ = await other.communicate(b"\n")
    assert f" {top}/later " in output.decode()


async def failures_have_a_text(top: Path) -> None:
    mounter = SystemMounter(in_thread)
    for attempt, text in (
        (mounter.bind(str(top / "missing"), top), "no such file or directory"),
        (mounter.mount("nowhere:/x", top, "nosuchfs", ["ro"]), "Mounting arguments: -t nosuchfs -o ro nowhere:/x"),
    ):
        with pytest.raises(MountError, match=text):
            await attempt
    await mounter.unmount(top)  # nothing is mounted there: that is what was wanted
    for path, kind in ((top / "a b\\c", "tmpfs"), (top / "a b\\c" / "deep", "tmpfs")):
        path.mkdir()
        await mounter.mount("tmpfs", path, kind)
    assert len(mounts_below(mounter.list(), top)) == 2
    assert mounter.is_mounted(top / "a b\\c" / "deep")
    (top / "plain").mkdir()
    assert not mounter.is_mounted(top / "plain")
    assert not mounter.is_mounted(top / "missing")
    await mounter.bind(str(top / "plain"), top / "plain")
    assert mounter.is_mounted(top / "plain")
    await mounter.unmount(top / "plain")
    await unmount_tree(mounter, top / "a b\\c")
    assert mounts_below(mounter.list(), top) == []


def part(top: Path, path: str, index: int = 0) -> SubPath:
    return SubPath(top / "pod", "v", str(top / "volume"), path, "v", "main", index)


async def parts_of_volumes_are_bound_and_go(top: Path) -> None:
    mounter = SystemMounter(in_thread)
    volume = top / "volume"
    volume.mkdir(mode=0o777)
    volume.chmod(0o2770)
    (volume / "file").write_text("f")
    (volume / "inside").symlink_to("sub/dir")
    directory = await prepare_sub_path(mounter, in_thread, part(top, "sub/dir"))
    file = await prepare_sub_path(mounter, in_thread, part(top, "file", 1))
    linked = await prepare_sub_path(mounter, in_thread, part(top, "inside", 2))
    assert stat.S_IMODE((volume / "sub").stat().st_mode) == 0o2770
    (volume / "sub" / "dir" / "x").write_text("x")
    assert read(f"{directory}/x") == read(f"{linked}/x") == "x"
    assert read(file) == "f"
    assert await prepare_sub_path(mounter, in_thread, part(top, "file", 1)) == file
    assert len(mounts_below(mounter.list(), top)) == 3, "a part was bound twice"
    (volume / "file").unlink()
    (volume / "file").mkdir()
    assert is_directory(await prepare_sub_path(mounter, in_thread, part(top, "file", 1)))
    await clean_up_sub_paths(mounter, top / "pod")
    assert mounts_below(mounter.list(), top) == []
    assert list((top / "pod").iterdir()) == []
    assert (volume / "sub" / "dir" / "x").read_text() == "x"


async def links_never_lead_out_while_they_change(top: Path) -> None:
    """Another process swaps a directory for a link to a secret of the node, again and again."""
    mounter = SystemMounter(in_thread)
    (top / "volume" / "dir").mkdir(parents=True)
    (top / "volume" / "dir" / "name").write_text("volume")
    (top / "node").mkdir()
    (top / "node" / "name").write_text("node")
    swap = (
        "import os,sys\nos.chdir(sys.argv[1])\nos.symlink('../node','link')\nprint(flush=True)\n"
        "import ctypes\nlibc=ctypes.CDLL(None)\n"
        "while True: libc.renameat2(-100,b'dir',-100,b'link',2)\n"
    )
    swapper = await asyncio.create_subprocess_exec(
        sys.executable, "-c", swap, str(top / "volume"), stdout=asyncio.subprocess.PIPE
    )
    assert swapper.stdout is not None
    await swapper.stdout.readline()
    bound, refused = 0, 0
    try:
        while bound < 100 or refused < 100:  # the time limit of the case ends it if one never happens
            try:
                found = await prepare_sub_path(mounter, in_thread, part(top, "dir", bound))
            except SubPathError:
                refused += 1
                continue
            bound += 1
            assert read(f"{found}/name") == "volume"
            await mounter.unmount(Path(found))
    finally:
        swapper.kill()
        await swapper.wait()


async def links_never_lead_out_without_openat2(top: Path) -> None:
    subpath._has_openat2 = lambda: False  # type: ignore[assignment]
    await links_never_lead_out_while_they_change(top)


CASES: dict[str, Callable[[Path], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        secrets_are_in_memory_and_go,
        memory_is_limited,
        local_volumes_are_bound_and_stay,
        *(() if why_no_images() else (local_devices_get_a_file_system_once,)),
        read_only_volumes_cannot_be_written,
        what_is_mounted_within_a_volume_is_not_removed,
        shared_directories_show_later_mounts_to_other_namespaces,
        failures_have_a_text,
        parts_of_volumes_are_bound_and_go,
        links_never_lead_out_while_they_change,
        links_never_lead_out_without_openat2,
    )
}


async def _run(name: str, directory: str) -> None:
    async with asyncio.timeout(60):
        await CASES[name](Path(directory))


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
