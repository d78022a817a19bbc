"""Mounts of the node: what is mounted where, and how that is changed (mount(2), and mount(8) for file systems that need a helper, such as NFS)."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bayplan.support.blocking import Blocking
from bayplan.support.system.programs import output_of

MOUNT_INFO = Path("/proc/self/mountinfo")

_MS_BIND, _MS_REC, _MS_REMOUNT, _MS_SHARED = 0x1000, 0x4000, 0x20, 1 << 20
_FLAGS = {
    "ro": 0x1,
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "sync": 0x10,
    "dirsync": 0x80,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "relatime": 1 << 21,
    "strictatime": 1 << 24,
}
"""Options of mount(8) that mount(2) takes as flags."""
_UMOUNT_NOFOLLOW = 8
_IN_KERNEL = frozenset({"tmpfs", "hugetlbfs"})
"""File systems that need no helper program."""
_ESCAPE = re.compile(r"\\([0-7]{3})")
_NOTHING_FOUND = 2
"""Exit code of blkid(8) where a device has no signature of a file system or of partitions."""
_MAKE_OPTIONS = {"ext3": ("-F", "-m0"), "ext4": ("-F", "-m0")}
"""As Kubernetes makes file systems: on whole devices, and nothing kept for root."""
_PROGRAM_SECONDS = 120.0
"""How long mount(8), umount(8) and blkid(8) may take."""
_FORMAT_SECONDS = 1800.0
"""How long a file system may take to be made: others wait for it."""


class MountError(Exception):
    """Something could not be mounted or unmounted; the text is for events."""


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A line of mountinfo. `root` is the directory within the file system that is mounted, `source` its device or server."""

    path: str
    source: str
    type: str
    root: str = "/"
    options: tuple[str, ...] = ()
    device: str = ""

    def is_below(self, top: Path) -> bool:
        """Whether it is at a directory or below it."""
        return self.path == str(top) or self.path.startswith(f"{top}/")


class Mounter(Protocol):
    """What is mounted on the node, and how to change it."""

    def list(self, top: Path | None = None) -> Sequence[MountPoint]:
        """All mounts, or those at a directory and below it, in the order in which they were made; of several at one path the last is seen."""

    def is_mounted(self, target: Path) -> bool:
        """Whether something is mounted at a directory of this machine's own file systems, where a server that is gone cannot hold up the answer."""

    async def mount(self, source: str, target: Path, kind: str, options: Sequence[str] = ()) -> None:
        """Mount a file system. Raises MountError."""

    async def format_and_mount(self, device: str, target: Path, kind: str, options: Sequence[str] = ()) -> None:
        """Mount the file system of a block device; first one is made, where the device holds nothing that is known. Raises MountError."""

    async def grow(self, device: str, target: Path) -> None:
        """Make the file system of a block device that is mounted at a path as large as the device. Raises MountError."""

    async def bind(self, source: str, target: Path, *, read_only: bool = False) -> None:
        """Show a directory or file in a second place, without what is mounted below it. Raises MountError."""

    async def unmount(self, target: Path) -> None:
        """Unmount what was mounted last. Raises MountError."""

    async def make_shared(self, target: Path) -> None:
        """See that mounts made below a directory are seen by containers, and theirs here. Raises MountError."""


def parse_mount_info(text: str) -> list[MountPoint]:
    """The mounts of a mountinfo file (proc(5)). Worked example: `36 35 98:0 /mnt1 /mnt2 rw master:1 - ext3 /dev/root rw,errors=continue`."""
    found = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6 or len(tail) < 2:
            continue
        found.append(
            MountPoint(
                path=_unescaped(fields[4]),
                source=_unescaped(tail[1]),
                type=tail[0],
                root=_unescaped(fields[3]),
                options=tuple(fields[5].split(",")) + tuple(tail[2].split(",") if len(tail) > 2 else ()),
                device=fields[2],
            )
        )
    return found


def mount_info_below(text: str, top: Path) -> list[MountPoint]:
    """The mounts at a directory and below it, of a mountinfo file with thousands of others, of which no more is read than has to be."""
    wanted = f" {_escaped(str(top))}"
    lines = "\n".join(line for line in text.splitlines() if wanted in line) if wanted in text else ""
    return [each for each in parse_mount_info(lines) if each.is_below(top)]


def _escaped(text: str) -> str:
    """As mountinfo writes a path: blanks, line ends and backslashes are octal numbers."""
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match.group()):03o}", text)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)


def mount_at(mounts: Iterable[MountPoint], path: Path) -> MountPoint | None:
    """The mount that is seen at a path; None if nothing is mounted there."""
    wanted, found = str(path), None
    for each in mounts:
        if each.path == wanted:
            found = each
    return found


def mounts_below(mounts: Iterable[MountPoint], directory: Path) -> list[MountPoint]:
    """What is mounted at a directory and below it, the innermost and latest first: the order in which to unmount."""
    return [each for each in mounts if each.is_below(directory)][::-1]


async def clean_up_mount_point(mounter: Mounter, path: Path) -> None:
    """Unmount all that is mounted at a path, then remove it: an empty file or directory. Raises MountError, OSError."""
    for _ in [each for each in mounter.list(path) if each.path == str(path)]:
        await mounter.unmount(path)
    if mount_at(mounter.list(path), path) is not None:
        raise MountError(f"failed to unmount path {path}")
    _remove_empty(path)


def _remove_empty(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    except FileNotFoundError:
        return


def _grow_command(kind: str, device: str, target: Path) -> tuple[str, ...]:
    """What makes a mounted file system as large as its device; empty for a kind that cannot grow."""
    commands = {
        "ext3": ("resize2fs", device),
        "ext4": ("resize2fs", device),
        "xfs": ("xfs_growfs", "-d", str(target)),
        "btrfs": ("btrfs", "filesystem", "resize", "max", str(target)),
    }
    return commands.get(kind, ())


async def _holds_nothing(device: str) -> bool:
    """Whether a device holds neither a file system nor partitions. Raises MountError where that cannot be told."""
    looked_for = ("-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device)
    code, said = await _ended("blkid", looked_for, _PROGRAM_SECONDS, f"device: {device}")
    if code not in (0, _NOTHING_FOUND):
        raise MountError(f"blkid of {device} failed: {said.strip()}")
    return code == _NOTHING_FOUND


async def _ended(program: str, arguments: Sequence[str], seconds: float, shown: str) -> tuple[int, str]:
    """The exit code of a program, and what it printed. shown: what an error tells of the arguments. Raises MountError where it cannot be run, or takes longer."""
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise MountError(f"{program} failed: {error.strerror}\n{shown}") from error
    try:
        output, _ = await output_of(process, seconds)
    except TimeoutError:
        raise MountError(f"{program} timed out\n{shown}") from None
    return process.returncode or 0, output.decode(errors="replace")


class SystemMounter:
    """The mounts of this process's mount namespace."""

    def __init__(self, blocking: Blocking) -> None:
        self._blocking = blocking
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._formatting = asyncio.Lock()

    def list(self, top: Path | None = None) -> Sequence[MountPoint]:
        """See Mounter. No path is looked at, as that may take for ever where a server of files is gone."""
        text = MOUNT_INFO.read_text(errors="surrogateescape")
        return parse_mount_info(text) if top is None else mount_info_below(text, top)

    def is_mounted(self, target: Path) -> bool:
        """See Mounter. Only a mount of the file system that its parent is in, such as a bind mount, needs a look at the list, which has a line for each mount of
        all pods."""
        try:
            if target.lstat().st_dev != target.parent.lstat().st_dev:
                return True
        except FileNotFoundError:
            return False
        return mount_at(self.list(target), target) is not None

    async def mount(self, source: str, target: Path, kind: str, options: Sequence[str] = ()) -> None:
        """See Mounter."""
        if kind not in _IN_KERNEL:
            await self._run("mount", ["-t", kind, *(("-o", ",".join(options)) if options else ()), source, str(target)])
            return
        flags, data = 0, []
        for option in options:
            flags |= _FLAGS.get(option, 0)
            if option not in _FLAGS and option != "rw":
                data.append(option)
        await self._blocking(lambda: self._mount(source, target, kind, flags, ",".join(data)))

    async def format_and_mount(self, device: str, target: Path, kind: str, options: Sequence[str] = ()) -> None:
        """See Mounter."""
        async with self._formatting:  # two pods may want the same device
            if await _holds_nothing(device):
                program, arguments = f"mkfs.{kind}", (*_MAKE_OPTIONS.get(kind, ()), device)
                code, said = await _ended(program, arguments, _FORMAT_SECONDS, f"device: {device}")
                if code:
                    raise MountError(f"{program} of {device} failed: exit status {code}\nOutput: {said}")
        await self.mount(device, target, kind, options)

    async def grow(self, device: str, target: Path) -> None:
        """See Mounter."""
        mounted = mount_at(self.list(target), target)
        kind = mounted.type if mounted is not None else ""
        command = _grow_command(kind, device, target)
        if not command:
            raise MountError(
                f"ResizeFS.Resize - resize of format {kind} is not supported for device {device} mounted at {target}"
            )
        code, said = await _ended(command[0], command[1:], _FORMAT_SECONDS, f"device: {device}")
        if code:
            raise MountError(f"resize of device {device} failed: exit status {code}. {command[0]} output: {said}")

    async def bind(self, source: str, target: Path, *, read_only: bool = False) -> None:
        """See Mounter."""
        await self._blocking(lambda: self._mount(source, target, "", _MS_BIND, ""))
        if not read_only:
            return
        kept = mount_at(self.list(target), target)
        flags = _MS_BIND | _MS_REMOUNT | _FLAGS["ro"]
        for option in kept.options if kept is not None else ():
            flags |= _FLAGS.get(option, 0)
        try:
            await self._blocking(lambda: self._mount("none", target, "", flags, ""))
        except MountError:
            await self.unmount(target)
            raise

    async def unmount(self, target: Path) -> None:
        """See Mounter."""
        mounted = mount_at(self.list(target), target)
        if mounted is not None and mounted.type.startswith("nfs"):
            await self._run("umount", [str(target)])  # may hang when the server is gone
            return
        await self._blocking(lambda: self._unmount(target))

    async def make_shared(self, target: Path) -> None:
        """See Mounter."""
        if mount_at(self.list(target), target) is None:
            await self._blocking(lambda: self._mount(str(target), target, "", _MS_BIND | _MS_REC, ""))
        await self._blocking(lambda: self._mount("", target, "", _MS_SHARED | _MS_REC, ""))

    def _mount(self, source: str, target: Path, kind: str, flags: int, data: str) -> None:
        answer = self._libc.mount(
            os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode()
        )
        if answer != 0:
            number = ctypes.get_errno()
            raise MountError(f"mount {source} on {target} failed: {os.strerror(number).lower()}")

    def _unmount(self, target: Path) -> None:
        if self._libc.umount2(os.fsencode(target), _UMOUNT_NOFOLLOW) != 0:
            number = ctypes.get_errno()
            if number != errno.EINVAL or mount_at(self.list(target), target) is not None:
                raise MountError(f"unmount {target} failed: {os.strerror(number).lower()}")

    async def _run(self, program: str, arguments: Sequence[str]) -> None:
        shown = f"{'Mounting' if program == 'mount' else 'Unmounting'} arguments: {' '.join(arguments)}"
        code, said = await _ended(program, arguments, _PROGRAM_SECONDS, shown)
        if code:
            raise MountError(f"{program} failed: exit status {code}\n{shown}\nOutput: {said}")
