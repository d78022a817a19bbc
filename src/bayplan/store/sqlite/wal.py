"""Whether SQLite dropped committed transactions when it recovered the write-ahead log of a store that was not closed.

SQLite reads the log up to the first frame whose checksum is wrong. After a crash that is right for the last transaction,
which nobody was told of: a commit is acknowledged when the log is on disk, and only then the next one is written. A
transaction that more transactions follow was acknowledged, so if it is dropped, the log was damaged afterwards.

Source: https://www.sqlite.org/fileformat2.html#walformat and https://www.sqlite.org/walformat.html
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import BinaryIO

_HEADER_SIZE, _FRAME_HEADER_SIZE = 32, 24
_MAGIC = 0x377F0682
"""The last bit says in which byte order the checksums are computed."""
_FRAMES_OF_INDEX = 16
"""Where the index of the log, the file `-shm`, has the number of valid frames."""


def wal_error(database: Path) -> str:
    """Why the log of a database is damaged, "" if it is not. To be called after a connection has read something, while
    it is open and nobody else uses the database."""
    log = database.with_name(f"{database.name}-wal")
    try:
        size = log.stat().st_size
        if size <= _HEADER_SIZE + _FRAME_HEADER_SIZE:
            return ""
        with log.open("rb") as stream:
            header = stream.read(_HEADER_SIZE)
            if not _is_valid(header):
                # The header is on disk before anything that follows it. The file system may have made room for both.
                is_unwritten = not any(header) and not any(
                    any(part) for part in iter(lambda: stream.read(1 << 20), b"")
                )
                return "" if is_unwritten else "the header of the write-ahead log is damaged"
            page_size = int.from_bytes(header[8:12], "big")
            valid = _valid_frames(database)
            if valid is None:
                return ""
            frames = (size - _HEADER_SIZE) // (_FRAME_HEADER_SIZE + page_size)
            dropped = _has_two_transactions(stream, header[16:24], page_size, range(valid, frames))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"the write-ahead log cannot be read ({error.strerror})"
    return f"the write-ahead log is damaged after {valid} of {frames} pages" if dropped else ""


def _has_two_transactions(stream: BinaryIO, salts: bytes, page_size: int, numbers: range) -> bool:
    """Whether these frames belong to more than one transaction: something follows a commit, or (where the frame of a commit
    is damaged itself) a page comes a second time, which SQLite avoids within a transaction but for its last frame."""
    pages: set[bytes] = set()
    ended = False
    for number in numbers:
        stream.seek(_HEADER_SIZE + number * (_FRAME_HEADER_SIZE + page_size))
        frame = stream.read(_FRAME_HEADER_SIZE)
        if frame[8:16] != salts:
            continue  # left over from before the log last restarted, or damaged itself
        is_commit = any(frame[4:8])
        if ended or (frame[:4] in pages and not is_commit):
            return True
        pages.add(frame[:4])
        ended = is_commit
    return False


def _valid_frames(database: Path) -> int | None:
    """The number of frames that SQLite recovered; None if it did not say."""
    try:
        index = database.with_name(f"{database.name}-shm").read_bytes()
    except OSError:
        return None
    if len(index) < 48:
        return None
    return int.from_bytes(index[_FRAMES_OF_INDEX : _FRAMES_OF_INDEX + 4], sys.byteorder)


def _is_valid(header: bytes) -> bool:
    """Whether the checksum of the log's header fits."""
    magic = int.from_bytes(header[:4], "big")
    if magic & ~1 != _MAGIC:
        return False
    order = ">" if magic & 1 else "<"
    first = second = 0
    words = struct.unpack(f"{order}6I", header[:24])
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.unpack(">2I", header[24:]) == (first, second)
