"""Parts of volumes: `subPath` of a volume mount (pkg/volume/util/subpath).

A container that runs may put a link where a part of the volume was, to make the kubelet mount something of the node into the next container. So a part
is opened beneath the volume by the kernel (openat2 with RESOLVE_BENEATH; step by step where the kernel does not have it), what was opened is bound to a
directory that only the kubelet can write, and the runtime mounts that: nothing looks at the path a second time.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import posixpath
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bayplan.kubelet.volumes.errors import SubPathError
from bayplan.support.blocking import Blocking
from bayplan.support.system.mounts import Mounter, MountError, clean_up_mount_point, mount_at

logger = logging.getLogger(__name__)

DIRECTORY = "volume-subpaths"
_OPENAT2 = 437
"""The system call's number, the same on every architecture."""
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_NOT_AVAILABLE = (errno.ENOSYS, errno.EPERM)
"""An old kernel, or a seccomp filter that does not know the call."""
_TRIES = 64
"""openat2 gives up when something is renamed meanwhile; so often it is tried again."""


@dataclass(frozen=True, slots=True)
class SubPath:
    """A part of a volume that is to be mounted into a container. `index` is the place among the container's mounts."""

    pod_directory: Path
    volume: str
    volume_path: str
    path: str
    mount_name: str
    container: str
    index: int

    @property
    def target(self) -> Path:
        """Where it is bound to: ROOT/pods/UID/volume-subpaths/VOLUME/CONTAINER/INDEX."""
        return self.pod_directory / DIRECTORY / self.volume / self.container / str(self.index)


def check_sub_path(path: str) -> None:
    """Raises SubPathError for a path that is none within a volume."""
    if path.startswith("/"):
        raise SubPathError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise SubPathError(f"unable to provision SubPath `{path}`: must not contain '..'")


async def prepare_sub_path(mounter: Mounter, blocking: Blocking, wanted: SubPath) -> str:
    """Make a part of a volume if it is not there, and bind it; the path to mount into the container. Raises SubPathError."""
    check_sub_path(wanted.path)
    of = f'for volumeMount "{wanted.mount_name}" of container "{wanted.container}"'
    doing = "prepare subPath"
    try:
        try:
            descriptor = await blocking(lambda: open_part(wanted.volume_path, wanted.path))
        except FileNotFoundError:
            doing = "create subPath directory"
            descriptor = await blocking(lambda: make_part(wanted.volume_path, wanted.path))
            doing = "prepare subPath"
        try:
            return await _bind(mounter, blocking, wanted, descriptor)
        finally:
            os.close(descriptor)
    except (OSError, MountError) as error:
        logger.error("failed to %s %s: %s", doing, of, error)
        raise SubPathError(f"failed to {doing} {of}", str(error)) from error


async def _bind(mounter: Mounter, blocking: Blocking, wanted: SubPath, descriptor: int) -> str:
    target = wanted.target
    if mount_at(mounter.list(target), target) is not None:
        if await blocking(lambda: _is_same(descriptor, target)):
            return str(target)
        await mounter.unmount(target)
    await blocking(lambda: _make_target(descriptor, target))
    await mounter.bind(f"/proc/{os.getpid()}/fd/{descriptor}", target)
    return str(target)


def _is_same(descriptor: int, target: Path) -> bool:
    opened, bound = os.fstat(descriptor), os.lstat(target)
    return (opened.st_dev, opened.st_ino) == (bound.st_dev, bound.st_ino)


def _make_target(descriptor: int, target: Path) -> None:
    """Something of the same type to mount on."""
    target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        if target.exists() and not target.is_dir():
            target.unlink()
        target.mkdir(mode=0o750, exist_ok=True)
    else:
        if target.is_dir():
            target.rmdir()
        target.touch(mode=0o640)


async def clean_up_sub_paths(mounter: Mounter, pod_directory: Path) -> None:
    """Unmount and remove all parts of volumes that a pod's containers used. Raises MountError, OSError."""
    top = pod_directory / DIRECTORY
    for parent, directories, files in os.walk(top, topdown=False):
        depth = len(Path(parent).relative_to(top).parts)
        if depth == 2:  # VOLUME/CONTAINER: what is in it are mount points
            for name in (*directories, *files):
                await clean_up_mount_point(mounter, Path(parent, name))
    _remove_empty_directories(top)


def _remove_empty_directories(top: Path) -> None:
    for parent, _, _ in os.walk(top, topdown=False):
        os.rmdir(parent)


def open_part(volume_path: str, path: str) -> int:
    """Open a part of a volume, whatever it is; a descriptor with O_PATH. Raises OSError, with EXDEV or ELOOP if the path leads out of the volume."""
    base = _open_volume(volume_path)
    try:
        return open_beneath(base, posixpath.normpath(path))
    finally:
        os.close(base)


def make_part(volume_path: str, path: str) -> int:
    """Make the directories of a path within a volume that are missing, with the volume's mode, and open the last. Raises OSError."""
    base = _open_volume(volume_path)
    try:
        mode = stat.S_IMODE(os.fstat(base).st_mode)
        return _make_beneath(base, posixpath.normpath(path), mode)
    finally:
        os.close(base)


def _open_volume(path: str) -> int:
    """The volume itself may be behind links: these are the node's own."""
    return os.open(os.path.realpath(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _make_beneath(base: int, path: str, mode: int) -> int:
    """Make the directories that are missing, each in the one that was opened before."""
    segments = path.split("/")
    current = os.dup(base)
    try:
        for index in range(len(segments), 0, -1):
            try:
                existing = open_beneath(base, "/".join(segments[:index]), os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            os.close(current)
            current, segments = existing, segments[index:]
            break
        for segment in segments:
            os.mkdir(segment, mode & 0o777, dir_fd=current)
            child = os.open(segment, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = child
            os.fchmod(current, mode)
        return os.dup(current)
    finally:
        os.close(current)


def open_beneath(base: int, path: str, flags: int = 0) -> int:
    """Open a path with O_PATH, following links only as long as they stay beneath the directory. Raises OSError."""
    if _has_openat2():
        return _openat2(base, path, os.O_PATH | os.O_CLOEXEC | flags)
    return _open_step_by_step(base, path, flags)


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _openat2(base: int, path: str, flags: int) -> int:
    how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    call = _libc().syscall
    for _ in range(_TRIES):
        found: int = call(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(base),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@lru_cache(maxsize=1)
def _has_openat2() -> bool:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, ".", os.O_PATH | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in _NOT_AVAILABLE:
            return False
        raise
    finally:
        os.close(root)
    return True


def _open_step_by_step(base: int, path: str, flags: int) -> int:
    """As openat2 does it, without its help: resolve first, then open what was found without following any link, so that one put there meanwhile is an error."""
    top = os.readlink(f"/proc/self/fd/{base}")
    resolved = os.path.realpath(os.path.join(top, path), strict=True)
    if resolved != top and not resolved.startswith(top.rstrip("/") + "/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    current = os.dup(base)
    segments = [each for each in os.path.relpath(resolved, top).split("/") if each != "."]
    try:
        for index, segment in enumerate(segments):
            last = index == len(segments) - 1
            wanted = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | (flags if last else os.O_DIRECTORY)
            child = os.open(segment, wanted, dir_fd=current)
            os.close(current)
            current = child
            if stat.S_ISLNK(os.fstat(current).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.dup(current)
    finally:
        os.close(current)
