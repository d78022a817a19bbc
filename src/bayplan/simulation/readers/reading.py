"""A cluster from whatever people have of it: a copy, what `kubectl get -o yaml|json` prints, directories of manifests,
must-gathers, `kubectl cluster-info dump` in both its forms, any of these in an archive (tar, gzip'd tar, zip) or gzip'd, or on
standard input.

A file, directory or archive that somebody wrote must be readable in full, or it is an error. A dump is taken as far as it
goes: what cannot be read is named in `left_out`.
"""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

from bayplan.simulation.readers.archive import (
    GZIP,
    LIMITS,
    Limits,
    PackedFile,
    files_of_tar,
    files_of_zip,
    head_of_gzip,
    is_tar,
    is_zip,
    unpacked,
)
from bayplan.simulation.readers.gathering import Gathered, text_of
from bayplan.simulation.snapshots.snapshot import COPIED, ClusterSnapshot, SnapshotError, from_bytes, is_snapshot

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_ENDINGS: Final = (*_SUFFIXES, *(f"{suffix}.gz" for suffix in _SUFFIXES))
_DUMP_MARKS: Final = ("cluster-scoped-resources", "namespaces", "nodes.json", "nodes.yaml")
"""Entries that the directory of a must-gather or of a `cluster-info dump` has."""
_MARK_DEPTH: Final = 3
"""How deep in an archive they may be: it has the directory itself, in which a must-gather has one per image."""
_LOOK: Final = 4096
"""Bytes of a file that tell what it is."""

Told = Callable[[str, int, int | None], object]
"""Told what is being done, how many files were read, and how many there are if that is known."""


def read(
    path: str | Path, include: Iterable[str] = (), *, told: Told | None = None, limits: Limits = LIMITS
) -> ClusterSnapshot:
    """The cluster that a path holds; `-` is standard input. `include`: further kinds. Raises SnapshotError."""
    wanted = frozenset((*COPIED, *include))
    if str(path) == "-":
        return _Reader("standard input", wanted, told, limits).of_stream(sys.stdin.buffer)
    found = Path(path)
    reader = _Reader(str(found), wanted, told, limits)
    if found.is_dir():
        return reader.of_directory(found)
    try:
        with found.open("rb") as file:
            return reader.of_stream(file)
    except OSError as error:
        raise SnapshotError(f"{found}: {error.strerror or error}") from error


class _Reader:
    """Reads one source."""

    def __init__(self, where: str, wanted: frozenset[str], told: Told | None, limits: Limits) -> None:
        self._where, self._wanted, self._told, self._limits = where, wanted, told, limits

    def of_stream(self, file: IO[bytes]) -> ClusterSnapshot:
        """What a file or stream holds, whatever its form. Raises SnapshotError."""
        where, limits = self._where, self._limits
        head = file.read(_LOOK)
        whole = cast("IO[bytes]", _Rejoined(head, file))
        if is_zip(head):
            return self._of_archive(files_of_zip(self._seekable(file, head), where, _is_of_interest, limits))
        if head.startswith(GZIP):
            if is_tar(head_of_gzip(head)):
                stream = cast("IO[bytes]", gzip.GzipFile(fileobj=whole))
                return self._of_archive(files_of_tar(stream, where, _is_of_interest, limits))
            return self._of_bytes(unpacked(whole, where, limits))
        if is_tar(head):
            return self._of_archive(files_of_tar(whole, where, _is_of_interest, limits))
        return self._of_bytes(head + file.read())

    def _seekable(self, file: IO[bytes], head: bytes) -> IO[bytes]:
        """A zip archive has its table of contents at the end. Raises SnapshotError."""
        if file.seekable():
            return file
        data = head + file.read(self._limits.file)
        if file.read(1):
            raise SnapshotError(
                f"{self._where}: zip archive larger than {self._limits.file:,} bytes; name it as a file"
            )
        return io.BytesIO(data)

    def _of_bytes(self, data: bytes) -> ClusterSnapshot:
        where = self._where
        if is_snapshot(data):
            return from_bytes(data, where)
        gathered = Gathered(self._wanted, where)
        gathered.take_text(text_of(data, where), where)
        if gathered.is_empty:
            raise SnapshotError(f"{where}: holds no object of a kind that bears on placement")
        return gathered.copy()

    def of_directory(self, root: Path) -> ClusterSnapshot:
        """What a directory and those below it hold. Raises SnapshotError."""
        files = sorted(file for file in root.rglob("*") if _is_of_interest(file.name) and file.is_file())
        if not files:
            raise SnapshotError(f"{root}: no {', '.join(_SUFFIXES)} files in this directory or below it")
        gathered = Gathered(self._wanted, str(root), tolerant=_is_dump(root))
        for number, file in enumerate(files, 1):
            try:
                gathered.take_file(self._plain(file.read_bytes(), str(file)), str(file))
            except OSError as error:
                gathered.cannot_read(str(file), SnapshotError(f"{file}: {error.strerror or error}"))
            except SnapshotError as error:
                gathered.cannot_read(str(file), error)
            self._tell(number, len(files))
        return self._gathered(gathered, len(files))

    def _of_archive(self, files: Iterator[PackedFile]) -> ClusterSnapshot:
        gathered = Gathered(self._wanted, self._where)
        count = 0
        for file in files:
            parts = [part for part in file.name.split("/") if part not in ("", ".")]
            gathered.tolerant = gathered.tolerant or any(part in _DUMP_MARKS for part in parts[:_MARK_DEPTH])
            if _is_of_interest(file.name):
                count += 1
                where = f"{self._where}/{file.name}"
                try:
                    gathered.take_file(self._plain(file.data, where), where)
                except SnapshotError as error:
                    gathered.cannot_read(where, error)
                self._tell(count, None)
        if not count:
            raise SnapshotError(f"{self._where}: no {', '.join(_SUFFIXES)} files in this archive")
        return self._gathered(gathered, count)

    def _plain(self, data: bytes, where: str) -> bytes:
        return unpacked(io.BytesIO(data), where, self._limits) if data.startswith(GZIP) else data

    def _gathered(self, gathered: Gathered, files: int) -> ClusterSnapshot:
        gathered.check()
        if not gathered.objects:
            raise SnapshotError(
                f"{self._where}: none of {files} files holds an object of a kind that bears on placement"
            )
        return gathered.copy()

    def _tell(self, done: int, of: int | None) -> None:
        if self._told is not None:
            self._told("reading files", done, of)


def _is_of_interest(name: str) -> bool:
    return name.endswith(_ENDINGS)


def _is_dump(root: Path) -> bool:
    """Whether a directory is a must-gather (whose content may be one level down) or a `cluster-info dump`."""
    return any((place / mark).exists() for place in (root, *_directories(root)) for mark in _DUMP_MARKS)


def _directories(root: Path) -> list[Path]:
    return sorted(one for one in root.iterdir() if one.is_dir())


class _Rejoined:
    """A stream from which the beginning has been read, with that before it again."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head, self._file = head, file

    def read(self, size: int = -1) -> Any:
        """As of a file."""
        if not self._head:
            return self._file.read(size)
        if size < 0:
            data, self._head = self._head + self._file.read(), b""
            return data
        data, self._head = self._head[:size], self._head[size:]
        return data
