"""Directories that volumes are made of: disk, memory or huge pages, and the mount points nested in them (pkg/volume/emptydir, util/nested_volumes.go)."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Mapping
from pathlib import Path

from bayplan.api.pods.resources import pod_level, pod_total
from bayplan.api.quantity import Quantity, parse
from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.field_values import every_container
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import SetUp, TearDown, VolumeHost
from bayplan.support.system.mounts import Mounter, clean_up_mount_point, mount_at, mounts_below

MEMORY = "Memory"
HUGE_PAGES = "HugePages"
_MODE = 0o777


def make_directory(directory: Path) -> bool:
    """Make a directory that everybody may use, whatever the umask says; whether it was not there. Raises OSError."""
    directory.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    try:
        directory.mkdir(mode=_MODE)
        is_new = True
    except FileExistsError:
        if not directory.is_dir():
            raise
        is_new = False
    if directory.stat().st_mode & 0o777 != _MODE:
        directory.chmod(_MODE)
    return is_new


def memory_size(pod: core_v1.Pod, allocatable: Mapping[str, str | int | float], limit: Quantity | None) -> int:
    """Bytes that a volume in memory may hold: the least of what the node has, the pod's memory limit and the volume's own."""
    size = parse(allocatable.get("memory", "0")).value()
    spec = pod.spec
    declared = all("memory" in each.resources.limits for each in (*spec.containers, *spec.init_containers))
    if "memory" in pod_level(spec, "limits") or declared:
        of_pod = pod_total(spec, "limits", overhead=True).get("memory", Quantity(0)).value()
        size = of_pod if 0 < of_pod <= size else size
    own = limit.value() if limit is not None else 0
    return own if 0 < own <= size else size


async def make_memory_directory(host: VolumeHost, directory: Path, size: int) -> None:
    """Mount a file system in memory, unless that is done. size: bytes, 0 for the kernel's default. Raises MountError, OSError."""
    is_new = await host.blocking(lambda: make_directory(directory))
    if not is_new and host.mounter.is_mounted(directory):
        return
    options = [f"size={size}"] if size > 0 else []
    if _can_forbid_swap():
        options.append("noswap")
    await host.mounter.mount("tmpfs", directory, "tmpfs", options)


def _can_forbid_swap() -> bool:
    """Linux knows `noswap` since 6.4, outside of user namespaces."""
    version = os.uname().release.split("-")[0].split(".")
    numbers = tuple(int(each) for each in version[:2] if each.isdigit())
    if numbers < (6, 4):
        return False
    try:
        mapping = Path("/proc/self/uid_map").read_text().split()
    except OSError:
        return False
    return mapping[:3] == ["0", "0", "4294967295"]


async def make_huge_page_directory(host: VolumeHost, pod: core_v1.Pod, directory: Path, medium: str) -> None:
    """Mount a file system of huge pages, unless that is done. Raises SetUpError, MountError, OSError."""
    await host.blocking(lambda: make_directory(directory))
    mounted = mount_at(host.mounter.list(directory), directory)
    size = page_size(pod, medium)
    if mounted is None:
        await host.mounter.mount("nodev", directory, "hugetlbfs", [f"pagesize={size}"])
        return
    found = next((each.partition("=")[2] for each in mounted.options if each.startswith("pagesize=")), "")
    if medium != HUGE_PAGES and _page_bytes(found) != size.value():
        shown = f"pagesize '{found}' and requested medium size '{size}' differ"
        raise SetUpError(f"pod {pod.metadata.uid}: mounted dir {directory} {shown}")


def _page_bytes(text: str) -> int:
    """Linux writes 2M where Kubernetes writes 2Mi."""
    return parse(text + "i" if text[-1:] in ("K", "M", "G") else text or "0").value()


def page_size(pod: core_v1.Pod, medium: str) -> Quantity:
    """The size of pages that a medium (`HugePages` or `HugePages-2Mi`) means for a pod. Raises SetUpError."""
    requests = [each.resources.requests for each in (*pod.spec.containers, *pod.spec.init_containers)]
    if pod.spec.resources is not None:
        requests.insert(0, pod.spec.resources.requests)
    sizes = [
        parse(name.removeprefix("hugepages-")) for each in requests for name in each if name.startswith("hugepages-")
    ]
    if medium != HUGE_PAGES:
        wanted = parse(medium.removeprefix(f"{HUGE_PAGES}-"))
        sizes = [each for each in sizes if each == wanted]
    if not sizes:
        text = "hugePages storage requested, but there is no resource request for huge pages"
        raise SetUpError(f"medium {medium}: {text}")
    if any(each != sizes[0] for each in sizes):
        raise SetUpError(f"medium: {medium} can't be used if container requests multiple huge page sizes")
    return sizes[0]


def nested_mount_points(pod: core_v1.Pod, volume: str) -> list[str]:
    """Where other volumes are mounted within a volume, relative to it: only the outermost, since the others are inside of these. Raises SetUpError."""
    found = []
    for container in every_container(pod.spec):
        paths = sorted(posixpath.normpath(each.mount_path) for each in container.volume_mounts)
        own = [posixpath.normpath(each.mount_path) for each in container.volume_mounts if each.name == volume]
        for mine in own:
            if mine.startswith("../"):
                raise SetUpError(f"invalid container mount point {mine}")
            outermost: list[str] = []
            for path in paths:
                if path.startswith(mine + "/") and not any(path.startswith(each + "/") for each in outermost):
                    outermost.append(path)
            found += [path[len(mine) + 1 :] for path in outermost]
    return found


def make_nested_mount_points(context: SetUp) -> None:
    """Make the directories that other volumes are mounted on, since containers may not. Raises SetUpError, OSError."""
    for path in nested_mount_points(context.pod, context.spec.outer_name):
        try:
            (context.directory / path).mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise SetUpError(f"unable to create nested volume mountpoints: {error}") from error


async def remove_directory(context: TearDown) -> None:
    """Unmount a volume's directory if something is mounted there, and remove it with its files. Raises MountError, OSError, SetUpError."""
    host = context.host
    await remove_tree(host, context.directory)
    ready = host.plugin_directory(context.pod_uid, "kubernetes.io/empty-dir") / context.name
    await host.blocking(lambda: shutil.rmtree(ready, ignore_errors=True))


async def remove_tree(host: VolumeHost, directory: Path) -> None:
    """Remove a directory with its files, but never the files of what is mounted in it, which a container may have done: that is unmounted.

    Raises MountError, OSError, SetUpError.
    """
    await unmount_tree(host.mounter, directory)
    left = mounts_below(host.mounter.list(directory), directory)
    if left:
        raise SetUpError(f"{left[0].path} is still mounted")
    await host.blocking(lambda: _remove(directory))


async def unmount_tree(mounter: Mounter, directory: Path) -> None:
    """Unmount a directory and what is mounted below it. Raises MountError."""
    for each in mounts_below(mounter.list(directory), directory):
        await mounter.unmount(Path(each.path))


def _remove(directory: Path) -> None:
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return


async def remove_mount(context: TearDown) -> None:
    """Unmount a volume and remove the empty directory. What is in the volume stays. Raises MountError, OSError."""
    await clean_up_mount_point(context.host.mounter, context.directory)
