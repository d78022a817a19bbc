"""Files and directories that only their owner may use, whatever the umask: keys, tokens, certificates, databases, logs.

A file has its mode before it has content, and content replaces older content in one step. Symbolic links are not followed:
a link where a file or directory should be is replaced (`write_private`) or refused (everything else).
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700
_OTHERS = 0o077
"""The bits of a mode that concern everybody but the owner."""


def create_private(path: Path) -> bool:
    """Make an empty file. Returns False if there is something of that name. Raises OSError."""
    try:
        os.close(_create(path, os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def open_private(path: Path, flags: int) -> int:
    """A descriptor of the file (`flags`: O_RDWR, O_WRONLY, O_APPEND), which is made if there is none. Raises OSError, also for
    a symbolic link."""
    for _ in range(3):
        try:
            return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                return _create(path, flags)
    raise FileNotFoundError(f"{path} comes and goes")


def _create(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)  # a umask can take even the owner's bits
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A private empty file beside `path`, that takes its place, safely on disk, when the context ends without an exception.
    durable: False for what a crash of the machine, not of the process, may take away or spoil. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        try:
            os.fchmod(descriptor, PRIVATE_FILE)
            yield unfinished
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def write_private(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file in one step: readers, and whoever starts after a crash, find the old content or the new one. durable:
    False for what a crash of the machine, not of the process, may take away or spoil. Raises OSError."""
    with replacing(path, durable=durable) as unfinished, unfinished.open("r+b") as stream:
        stream.write(data)


def sync_directory(directory: Path) -> None:
    """See that the names in a directory are on disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> None:
    """Make a directory, and those above it that are missing. One that exists is left as it is. Raises OSError."""
    if path.is_dir():
        return
    if path.parent != path:
        make_private_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(PRIVATE_DIRECTORY)
        path.chmod(PRIVATE_DIRECTORY)
    if not path.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(path))


def make_file_private(path: Path) -> bool:
    """Take the rights of everybody but the owner from a file; returns whether that changed anything. Nothing but files that
    belong to this user is touched. Raises OSError, also for a symbolic link."""
    return _make_private(path, os.O_NONBLOCK, PRIVATE_FILE, stat.S_ISREG)


def _make_private(path: Path, flags: int, owner: int, is_meant: Callable[[int], bool]) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags)
    try:
        found = os.fstat(descriptor)
        if not is_meant(found.st_mode) or found.st_uid != os.geteuid() or not found.st_mode & _OTHERS:
            return False
        os.fchmod(descriptor, found.st_mode & PRIVATE_DIRECTORY | owner)
        return True
    finally:
        os.close(descriptor)


def make_contents_private(
    directory: Path, is_own: Callable[[str], bool], is_left: Callable[[str], bool] = lambda _: False
) -> list[str]:
    """Take the rights of everybody but the owner from a directory and what is in it; returns the names of what was changed.

    is_own: whether a name in the directory is ours. is_left: whether a subdirectory is ours, but not to be looked into. The directory
    itself and files of other names are changed only if it looks like ours: it has no other subdirectories, and is not one that
    everybody may write to (sticky). Symbolic links, and what belongs to other users, are left alone. Raises OSError.
    """
    directory = directory.resolve()
    entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    is_dedicated = not directory.stat().st_mode & stat.S_ISVTX and all(
        is_own(entry.name) or is_left(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)
    )
    changed = []
    if is_dedicated and _make_private(directory, os.O_DIRECTORY, PRIVATE_DIRECTORY, stat.S_ISDIR):
        changed.append(str(directory))
    for entry in entries:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            if is_own(entry.name) and not is_left(entry.name):
                changed += make_contents_private(path, lambda _: True)
        elif entry.is_file(follow_symlinks=False) and (is_dedicated or is_own(entry.name)) and make_file_private(path):
            changed.append(entry.path)
    return changed


@contextlib.contextmanager
def temporary_private_file(data: bytes) -> Iterator[Path]:
    """A file with this content while the context lasts, for libraries that read secrets from files only."""
    descriptor, name = tempfile.mkstemp()
    try:
        try:
            os.fchmod(descriptor, PRIVATE_FILE)
            with os.fdopen(descriptor, "wb", closefd=False) as stream:
                stream.write(data)
        finally:
            os.close(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink()
