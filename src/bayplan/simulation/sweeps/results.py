"""Results of a sweep by the digest of what was run, so that none is counted twice, whoever ran it and how often."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bayplan import __version__

Result = dict[str, Any]
"""Plain data in the form of JSON."""


class ResultsError(Exception):
    """Results cannot be kept or read: it names the file."""


class Results(Protocol):
    """Where results are kept."""

    def get(self, digest: str) -> Result | None:
        """The result of a unit; None if there is none yet. Raises ResultsError."""

    def put(self, digest: str, result: Result) -> None:
        """Keep a result; one that is there already stays. Raises ResultsError."""


class MemoryResults:
    """Results of one process."""

    def __init__(self) -> None:
        self._found: dict[str, Result] = {}

    def get(self, digest: str) -> Result | None:
        return self._found.get(digest)

    def put(self, digest: str, result: Result) -> None:
        self._found.setdefault(digest, result)


class DirectoryResults:
    """A file for each result, in directories by the first two digits of its digest. Those of several shards can be copied together.

    A file is written beside its place and then renamed, so that one which is there is whole.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, digest: str) -> Result | None:
        path = self._path(digest)
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ResultsError(f"{path}: {error.strerror or error}") from error
        except msgspec.DecodeError as error:
            raise ResultsError(f"{path}: no result: {error}; remove the file, and it is worked out again") from error

    def put(self, digest: str, result: Result) -> None:
        path = self._path(digest)
        beside = path.with_suffix(".part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(msgspec.json.encode(result))
            beside.replace(path)
        except OSError as error:
            raise ResultsError(f"{path}: {error.strerror or error}") from error

    def _path(self, digest: str) -> Path:
        return self._directory / digest[:2] / f"{digest}.json"


def digest_of(key: Result) -> str:
    """The digest of everything that decides a result, and of this version of Bayplan: 64 hexadecimal digits."""
    text = msgspec.json.encode({"bayplan": __version__, **key}, order="sorted")
    return hashlib.sha256(text).hexdigest()


def digest_of_files(paths: list[Path]) -> str:
    """The digest of the content of files, and of those in directories, wherever they lie. Raises OSError."""
    found = hashlib.sha256()
    for path in paths:
        for file in sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]:
            content = file.read_bytes()
            found.update(b"%d:" % len(content))
            found.update(content)
    return found.hexdigest()


class ShardError(Exception):
    """A shard is none: it says what is expected."""


def shard_in(text: str) -> tuple[int, int]:
    """`2/5` as the second of five shards. Raises ShardError."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ShardError(f"{text!r}: expected I/N with I from 1 to N, such as 2/5")
    return int(found[1]), int(found[2])
