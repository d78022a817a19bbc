"""Files that change all at once (pkg/volume/util/atomic_writer.go).

The files are in a directory of their own, which the link `..data` names; what users see are links through `..data`. A new version is written into a new
directory, and renaming a new link over `..data` makes all of it visible at one moment. Worked example, for the payload {"a": ..., "d/b": ...}:

    VOLUME/..2026_01_02_03_04_05.123/a
    VOLUME/..2026_01_02_03_04_05.123/d/b
    VOLUME/..data -> ..2026_01_02_03_04_05.123
    VOLUME/a -> ..data/a
    VOLUME/d -> ..data/d
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bayplan.kubelet.volumes.errors import SetUpError

DATA, NEW_DATA = "..data", "..data_tmp"
_MAX_FILE_NAME, _MAX_PATH = 255, 4096


@dataclass(frozen=True, slots=True)
class FileProjection:
    """One file: its bytes, its permission bits, and the user that owns it where that is not the kubelet's."""

    data: bytes
    mode: int
    user: int | None = None


def checked_payload(payload: Mapping[str, FileProjection]) -> dict[str, FileProjection]:
    """The payload with clean paths. Raises SetUpError for paths that lead elsewhere."""
    clean = {}
    for path, file in payload.items():
        _check_path(path)
        normal = posixpath.normpath(path)
        _check_path(normal)  # `./..data` would take the place of the link
        clean[normal] = file
    return clean


def _check_path(path: str) -> None:
    if not path:
        raise SetUpError('invalid path: must not be empty: ""')
    if path.startswith("/"):
        raise SetUpError(f"invalid path: must be relative path: {path}")
    if len(os.fsencode(path)) > _MAX_PATH:
        raise SetUpError(f"invalid path: must be less than or equal to {_MAX_PATH} characters")
    items = path.split("/")
    for item in items:
        if item == "..":
            raise SetUpError(f"invalid path: must not contain '..': {path}")
        if len(os.fsencode(item)) > _MAX_FILE_NAME:
            raise SetUpError(f"invalid path: filenames must be less than or equal to {_MAX_FILE_NAME} characters")
    if items[0].startswith("..") and len(items[0]) > 2:
        raise SetUpError(f"invalid path: must not start with '..': {path}")


def write_payload(
    directory: Path,
    payload: Mapping[str, FileProjection],
    version: str,
    set_permissions: Callable[[Path], None] | None = None,
) -> bool:
    """Make the files visible, if anything differs from what is visible. Whether it did.

    version: a name for the new data directory that was never used, which begins with `..`. set_permissions: called with the data directory before it is
    seen. Raises SetUpError, OSError.
    """
    clean = checked_payload(payload)
    data = directory / DATA
    try:
        old = os.readlink(data)
    except FileNotFoundError:
        old = ""
    stale = _paths(directory / old) - _visible(clean) if old else set()
    changed = not old or bool(stale) or _differs(directory / old, clean)
    if changed:
        _publish(directory, clean, version, set_permissions)
    _link_visible(directory, clean)
    for path in stale:
        if "/" not in path:
            (directory / path).unlink(missing_ok=True)
    if changed:
        _remove_versions(directory, version)
    return changed


def _publish(
    directory: Path,
    payload: Mapping[str, FileProjection],
    version: str,
    set_permissions: Callable[[Path], None] | None,
) -> None:
    """Write a data directory and let `..data` name it."""
    target, link = directory / version, directory / NEW_DATA
    target.mkdir()
    try:
        target.chmod(0o755)
        for path, file in payload.items():
            _write(target / path, file)
        if set_permissions is not None:
            set_permissions(target)
        link.unlink(missing_ok=True)
        link.symlink_to(version)
        link.rename(directory / DATA)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        link.unlink(missing_ok=True)
        raise


def _write(path: Path, file: FileProjection) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    path.chmod(file.mode & 0o7777)
    if file.user is not None:
        os.chown(path, file.user, -1, follow_symlinks=False)


def _visible(payload: Mapping[str, FileProjection]) -> set[str]:
    """All files and the directories above them."""
    found = set()
    for path in payload:
        while path:
            found.add(path)
            path = posixpath.dirname(path)
    return found


def _paths(version: Path) -> set[str]:
    """All files and directories of a data directory."""
    found = set()
    for parent, directories, files in os.walk(version):
        prefix = os.path.relpath(parent, version)
        for name in (*directories, *files):
            found.add(name if prefix == "." else f"{prefix}/{name}")
    return found


def _differs(version: Path, payload: Mapping[str, FileProjection]) -> bool:
    for path, file in payload.items():
        try:
            if (version / path).read_bytes() != file.data:
                return True
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return True
    return False


def _link_visible(directory: Path, payload: Mapping[str, FileProjection]) -> None:
    for path, file in payload.items():
        name = path.split("/", 1)[0]
        visible = directory / name
        if visible.is_symlink():
            continue
        visible.symlink_to(f"{DATA}/{name}")
        if file.user is not None:
            os.chown(visible, file.user, -1, follow_symlinks=False)


def _remove_versions(directory: Path, kept: str) -> None:
    """Remove data directories that nothing names, also those that a kubelet left that was killed while it wrote."""
    for entry in os.scandir(directory):
        if entry.name.startswith("..") and entry.name != kept and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
