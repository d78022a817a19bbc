"""File systems in images: made, made larger, and held still while they are copied."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bayplan.csi.errors import DriverError
from bayplan.support.system.programs import ProgramError, run, succeeds

_MAKE: Final = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}

_ENDS_WITH_DRIVER: Final = ("setpriv", "--pdeathsig", "KILL")
"""Begins a command that the kernel kills when the process that started it ends."""


async def make(device: Path, fs_type: str) -> None:
    """Make a file system on a device. What was there is gone. Ends with a driver that is killed, as the next one makes another. Raises ProgramError."""
    await run(*_ENDS_WITH_DRIVER, *_MAKE[fs_type], str(device))


async def grow_unmounted(device: Path, fs_type: str) -> None:
    """Make a file system that is not mounted as large as its device, where that can be done so. Raises ProgramError."""
    if fs_type == "ext4":
        check = ("e2fsck", "-f", "-p", str(device))
        if not await succeeds(*check):  # also says so when it has repaired something
            await run(*check)
        await run("resize2fs", str(device))


async def grow_mounted(device: Path, fs_type: str, mounted_at: Path) -> None:
    """The same for one that is mounted. Raises DriverError where this machine cannot, ProgramError."""
    if fs_type == "xfs":
        await run("xfs_growfs", str(mounted_at))
        return
    try:
        await run("resize2fs", str(device))
    except ProgramError as error:
        if "Permission denied to resize" not in str(error):
            raise
        raise DriverError(
            "ext4 grows while it is mounted only where the driver has CAP_SYS_RESOURCE; it grows when it is mounted next: stop the pods that use it",
            "FAILED_PRECONDITION",
        ) from error


async def freeze(mounted_at: Path) -> None:
    """Write everything down and let writers wait, until `thaw`. Raises ProgramError."""
    await run("fsfreeze", "--freeze", str(mounted_at))


async def thaw(mounted_at: Path) -> None:
    """Let writers go on. Raises ProgramError."""
    await run("fsfreeze", "--unfreeze", str(mounted_at))
