"""The files in an archive (tar, gzip'd tar, zip), one after the other; nothing is unpacked to disk.

An archive may come from anybody. Names are labels and never paths, links and devices are passed over, and nothing is
held but one file at a time, up to limits beyond which reading ends with an error: a few kilobytes can claim to be terabytes.
"""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, cast

from bayplan.simulation.snapshots.snapshot import SnapshotError

GZIP: Final = b"\x1f\x8b"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_MARK: Final = slice(257, 262)
HEAD: Final = 512
"""Bytes that tell an archive from other files."""
_HEADERS: Final = 1 << 20
"""Bytes that may come between the contents of two files of a tar: padding, long names, attributes."""
_CHUNK: Final = 1 << 20
_BROKEN: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    ValueError,
    LookupError,
    OverflowError,
)
"""What the library raises for archives and gzip'd files that are damaged: numbers, names and places that cannot be."""

Wanted = Callable[[str], bool]
"""Whether the content of a file of this name is of interest."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is read of what is packed. All sizes are bytes when unpacked."""

    file: int = 2 << 30
    """Of one file."""
    files: int = 16 << 30
    """Of all files that are of interest."""
    archive: int = 256 << 30
    """Of a whole tar, which has to be unpacked in passing."""
    count: int = 5_000_000
    """Files in an archive."""


LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file of an archive."""

    name: str
    """As the archive has it, with `/`; what cannot be printed is replaced."""
    data: bytes
    """Empty if nobody wants it."""


def unpacked(file: IO[bytes], where: str, limits: Limits = LIMITS) -> bytes:
    """The content of a gzip'd stream. Raises SnapshotError."""
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            return _content(stream, where, limits)
    except _BROKEN as error:
        raise SnapshotError(f"{where}: the file is damaged or cut off: {error}; take the copy again") from error


def is_zip(head: bytes) -> bool:
    """Whether a file that begins so is a zip archive."""
    return head.startswith(_ZIP)


def is_tar(head: bytes) -> bool:
    """Whether a file that begins so (unpacked, at least `HEAD` bytes) is a tar archive."""
    return head[_TAR_MARK] == b"ustar"


def head_of_gzip(head: bytes) -> bytes:
    """What the content of a gzip'd file begins with, as far as that follows from the file's own first bytes."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD)
    except zlib.error:
        return b""


def files_of_zip(file: IO[bytes], where: str, wanted: Wanted, limits: Limits = LIMITS) -> Iterator[PackedFile]:
    """The files of a zip archive. Raises SnapshotError."""
    budget = _Budget(where, limits)
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.is_dir():
                    continue
                name = _printable(entry.filename)
                if budget.take(name, entry.file_size, wanted):
                    with archive.open(entry) as stream:
                        yield PackedFile(name, _content(stream, f"{where}/{name}", limits))
                else:
                    yield PackedFile(name, b"")
    except _BROKEN as error:
        raise SnapshotError(f"{where}: the archive is damaged or cut off: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or packed in a way that nobody here knows
        raise SnapshotError(
            f"{where}: the archive cannot be unpacked: {error}; pack it anew, without a password"
        ) from error


def files_of_tar(file: IO[bytes], where: str, wanted: Wanted, limits: Limits = LIMITS) -> Iterator[PackedFile]:
    """The files of a tar archive, which may come as a stream. Raises SnapshotError."""
    budget, metered = _Budget(where, limits), _Metered(file, where)
    unpacked_bytes = 0
    try:
        archive: Any
        with tarfile.open(fileobj=cast("Any", metered), mode="r|") as archive:
            while (entry := archive.next()) is not None:
                archive.members = []  # tarfile would keep all that it has seen,
                archive.pax_headers.clear()  # and what headers say for all files to come
                unpacked_bytes += entry.size
                if unpacked_bytes > limits.archive:
                    raise SnapshotError(
                        f"{where}: holds more than {limits.archive:,} bytes; unpack it and name the directory"
                    )
                metered.allow(entry.size)
                if not entry.isreg():
                    continue
                name = _printable(entry.name)
                stream = archive.extractfile(entry) if budget.take(name, entry.size, wanted) else None
                yield PackedFile(name, _content(stream, f"{where}/{name}", limits) if stream is not None else b"")
    except _BROKEN as error:
        raise SnapshotError(f"{where}: the archive is damaged or cut off: {error}") from error


class _Budget:
    """Counts what an archive has."""

    def __init__(self, where: str, limits: Limits) -> None:
        self._where, self._limits = where, limits
        self._count = self._bytes = 0

    def take(self, name: str, size: int, wanted: Wanted) -> bool:
        """Whether the content of the next file is wanted. Raises SnapshotError if there has been too much."""
        self._count += 1
        if self._count > self._limits.count:
            raise SnapshotError(f"{self._where}: holds more than {self._limits.count:,} files")
        if not wanted(name):
            return False
        self._bytes += size
        if self._bytes > self._limits.files:
            raise SnapshotError(f"{self._where}: holds more than {self._limits.files:,} bytes of YAML and JSON")
        return True


def _content(stream: Any, where: str, limits: Limits) -> bytes:
    """All of a file, if it is not too large. Raises SnapshotError."""
    content = io.BytesIO()
    while chunk := stream.read(_CHUNK):
        if content.tell() + len(chunk) > limits.file:
            raise SnapshotError(f"{where}: larger than {limits.file:,} bytes when unpacked")
        content.write(chunk)
    return content.getvalue()


class _Metered:
    """A stream that ends with an error where headers go on and on, which would all be kept in memory."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file, self._where = file, where
        self._left = _HEADERS

    def allow(self, size: int) -> None:
        """A file of this size comes next, and then headers."""
        self._left = size + _HEADERS

    def read(self, size: int = -1) -> bytes:
        """As of a file. Raises SnapshotError."""
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise SnapshotError(f"{self._where}: the archive is damaged: more than {_HEADERS:,} bytes of headers")
        return data


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
