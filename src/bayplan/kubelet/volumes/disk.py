"""What volumes left on disk: pod directories, and how they are removed without touching what may still be mounted in them (pkg/kubelet/kubelet_volumes.go)."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from bayplan.kubelet.volumes.directories import unmount_tree
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import DEVICES, TearDown, VolumeHost
from bayplan.kubelet.volumes.kinds import VolumeKinds
from bayplan.kubelet.volumes.subpath import DIRECTORY, clean_up_sub_paths
from bayplan.support.system.mounts import MountError, mounts_below


def pods_on_disk(root: Path) -> list[str]:
    """Uids of the pods that have a directory."""
    try:
        return sorted(each.name for each in (root / "pods").iterdir() if each.is_dir())
    except FileNotFoundError:
        return []


def make_pod_directories(directory: Path) -> None:
    """Make the directories of a pod, which nobody but the kubelet may enter. Raises OSError."""
    directory.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    for each in (directory, directory / "volumes", directory / "plugins"):
        each.mkdir(mode=0o750, exist_ok=True)


def volumes_on_disk(pod_directory: Path) -> list[tuple[str, Path]]:
    """(directory of the kind, the volume's own) of a pod's volumes, file systems and then devices."""
    found = []
    for part in ("volumes", DEVICES):
        try:
            for kind in sorted((pod_directory / part).iterdir()):
                found += [(kind.name, each) for each in sorted(kind.iterdir())]
        except FileNotFoundError:
            continue
    return found


async def tear_down_volumes(host: VolumeHost, kinds: VolumeKinds, pod_uid: str) -> list[str]:
    """Unmount and remove the volumes of a pod as they are found on disk; what went wrong, a text each."""
    directory = host.pod_directory(pod_uid)
    errors = []
    try:
        await clean_up_sub_paths(host.mounter, directory)
    except (MountError, OSError) as error:
        return [f"error cleaning subPath mounts for pod {pod_uid}: {error}"]
    for kind_directory, path in await host.blocking(lambda: volumes_on_disk(directory)):
        kind, name = kinds.of_directory(kind_directory), path.name
        try:
            if kind is None:
                await _remove_unknown(host, path)
            else:
                await kind.tear_down(TearDown(host, pod_uid, name, path))
        except (MountError, OSError, SetUpError) as error:
            errors.append(f'UnmountVolume.TearDown failed for volume "{name}" (pod {pod_uid}): {error}')
    return errors


async def _remove_unknown(host: VolumeHost, path: Path) -> None:
    """A volume of a kind that this kubelet does not have is removed only if it is an empty directory. Raises SetUpError, OSError."""
    if mounts_below(host.mounter.list(path), path):
        raise SetUpError("no volume plugin matched")
    await host.blocking(path.rmdir)


async def remove_pod_directory(host: VolumeHost, pod_uid: str) -> None:
    """Remove what a pod had on the node besides volumes, which must be gone. Raises SetUpError, MountError, OSError."""
    directory = host.pod_directory(pod_uid)
    for part in (DEVICES, "plugins", "containers"):
        if (directory / part).exists():
            await unmount_tree(host.mounter, directory / part)
    left = mounts_below(host.mounter.list(directory), directory)
    if left:
        raise SetUpError(f'orphaned pod "{pod_uid}" found, but volumes are still mounted: {left[0].path}')
    await host.blocking(lambda: _remove_pod_directory(directory))


def _remove_pod_directory(directory: Path) -> None:
    """Volumes and their parts lose empty directories only: whatever is in one now is somebody's data."""
    for part in ("volumes", DIRECTORY):
        for each in sorted((directory / part).rglob("*"), reverse=True):
            each.rmdir()
        _remove_if_there(directory / part)
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return


def _remove_if_there(directory: Path) -> None:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return


def orphans(root: Path, known: Collection[str]) -> list[str]:
    """Uids of pods that have a directory and are not known any more."""
    return [uid for uid in pods_on_disk(root) if uid not in known]
