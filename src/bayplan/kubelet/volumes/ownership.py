"""Who owns a volume's files: fsGroup (pkg/volume/volume_linux.go).

A container that runs may change its volume at the same time. So files are opened by name within their directory, links are not followed, and only what was
opened is changed: a link that takes the place of a file never leads out of the volume.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

logger = logging.getLogger(__name__)

_READ_WRITE, _READ_ONLY, _EXECUTE = 0o660, 0o440, 0o110
ON_ROOT_MISMATCH = "OnRootMismatch"


def set_ownership(directory: Path, fs_group: int | None, *, read_only: bool, policy: str = "") -> bool:
    """Give everything in a volume to a group that may use it; whether anything was done. Raises OSError.

    policy: `OnRootMismatch` leaves a volume alone whose top is right already. The top comes last, so that a change that broke off begins again.
    """
    if fs_group is None or (policy == ON_ROOT_MISMATCH and not _top_differs(directory, fs_group, read_only)):
        return False
    for parent, directories, files, descriptor in os.fwalk(directory, topdown=False, onerror=_raise):
        for name in files:
            _change(f"{parent}/{name}", name, descriptor, fs_group, read_only=read_only)
        for name in directories:  # walked already, unless they are links
            _change(f"{parent}/{name}", name, descriptor, fs_group, read_only=read_only)
    _change(str(directory), str(directory), None, fs_group, read_only=read_only)
    return True


def _raise(error: OSError) -> None:
    raise error


def _change(path: str, name: str, parent: int | None, group: int, *, read_only: bool) -> None:
    """Kubernetes goes on where a single file refuses, such as one of a read-only file system."""
    try:
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError as error:
        logger.error("cannot give %s to group %d: %s", path, group, error)
        return
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISLNK(mode):
            os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
            return
        opened = f"/proc/self/fd/{descriptor}"
        os.chown(opened, -1, group)
        mask = _READ_ONLY if read_only else _READ_WRITE
        if stat.S_ISDIR(mode):
            mask |= stat.S_ISGID | _EXECUTE
        os.chmod(opened, stat.S_IMODE(mode) | mask)
    except OSError as error:
        logger.error("cannot give %s to group %d: %s", path, group, error)
    finally:
        os.close(descriptor)


def _top_differs(directory: Path, group: int, read_only: bool) -> bool:
    """Whether the top of a volume shows that the group may not use it."""
    try:
        found = directory.stat()
    except OSError:
        return True
    if found.st_gid != group or not stat.S_ISDIR(found.st_mode):
        return True
    wanted = (_READ_ONLY if read_only else _READ_WRITE) | _EXECUTE | stat.S_ISGID
    return found.st_mode & wanted != wanted
