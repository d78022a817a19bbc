"""A log file that is set aside when it is full; of those set aside some are kept. For a thread of its own: everything here blocks.

    audit.log -> audit-2026-01-02T03-04-05.678.log -> audit-2026-01-02T03-04-05.678.log.gz

Source of names and rules: the library lumberjack, with which kube-apiserver writes its audit log.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path

from bayplan.apiserver.audit.settings import LogSettings
from bayplan.support.system.private_files import create_private, make_private_directory

logger = logging.getLogger(__name__)

_MEGABYTE = 1 << 20
_COMPRESSED = ".gz"
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)\.(\d{3})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RotatingFile:
    """The log file and those set aside."""

    def __init__(self, path: Path, settings: LogSettings, now: Callable[[], float]) -> None:
        """now: Unix seconds, from any thread. Raises OSError if the file cannot be written."""
        self._path = path
        self._settings = settings
        self._now = now
        self._most = settings.max_size * _MEGABYTE
        """Bytes; 0 for no limit."""
        self._size = 0
        make_private_directory(path.parent)
        self._file = self._open()
        if self._most:
            self._clean_up()

    def write(self, data: bytes) -> None:
        """Add to the file, or to a new one if it is full. Raises OSError."""
        if self._most and len(data) > self._most:
            raise OSError(f"write length {len(data)} exceeds maximum file size {self._most}")
        if self._most and self._size + len(data) > self._most:
            self._rotate()
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._size += len(data)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _open(self) -> FileIO:
        """The file, made if there is none. Raises OSError."""

        def existing(name: str, flags: int) -> int:
            return os.open(name, flags & ~os.O_CREAT)

        create_private(self._path)
        file = open(self._path, "ab", buffering=0, opener=existing)  # noqa: SIM115  # stays open
        self._size = os.fstat(file.fileno()).st_size
        return file

    def _rotate(self) -> None:
        mode = self._path.stat().st_mode if self._path.exists() else 0
        self._file.close()
        if mode:
            self._path.rename(self._path.with_name(self._name_aside()))
        self._file = self._open()
        if mode:
            self._path.chmod(mode & 0o777)
        self._clean_up()

    def _name_aside(self) -> str:
        moment = _EPOCH + timedelta(seconds=self._now())
        stamp = f"{moment:%Y-%m-%dT%H-%M-%S}.{moment.microsecond // 1000:03d}"
        return f"{self._path.stem}-{stamp}{self._path.suffix}"

    def _clean_up(self) -> None:
        """Remove what is too much or too old of what was set aside, and compress the rest."""
        try:
            self._thin_out()
        except OSError as error:
            logger.warning("old audit logs beside %s cannot be cleaned up: %s", self._path, error)

    def _thin_out(self) -> None:
        """Raises OSError."""
        aside = sorted(self._aside(), key=lambda one: one[1], reverse=True)
        names = list(dict.fromkeys(path.name.removesuffix(_COMPRESSED) for path, _ in aside))
        most, days = self._settings.max_backups, self._settings.max_age
        kept = set(names[:most] if most else names)
        oldest = self._now() - days * 86400 if days else None
        for path, moment in aside:
            if path.name.removesuffix(_COMPRESSED) not in kept or (oldest is not None and moment < oldest):
                path.unlink()
            elif self._settings.compress and path.suffix != _COMPRESSED:
                _compress(path)

    def _aside(self) -> list[tuple[Path, float]]:
        """Files that were set aside, with the moment in their names."""
        prefix, suffix = f"{self._path.stem}-", self._path.suffix
        found = []
        for path in self._path.parent.iterdir():
            name = path.name.removesuffix(_COMPRESSED)
            if not (name.startswith(prefix) and name.endswith(suffix)) or path.is_dir():
                continue
            moment = _moment(name[len(prefix) : len(name) - len(suffix)])
            if moment is not None:
                found.append((path, moment))
        return found


def _moment(text: str) -> float | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, millis = map(int, match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second, millis * 1000, tzinfo=UTC)
    except ValueError:
        return None  # it looks like a moment and is none
    return (moment - _EPOCH).total_seconds()


def _compress(path: Path) -> None:
    """Replace a file by its compressed form, which appears when it is whole. Raises OSError."""
    target = path.with_name(path.name + _COMPRESSED)
    unfinished = path.with_name(f".{target.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    create_private(unfinished)
    with path.open("rb") as source, gzip.open(unfinished, "wb") as packed:
        shutil.copyfileobj(source, packed)
    unfinished.chmod(path.stat().st_mode & 0o777)
    unfinished.rename(target)
    path.unlink()
