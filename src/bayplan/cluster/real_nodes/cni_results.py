"""What containerd remembers of pods' networks outside of its own directories: libcni's results, one file for each interface of a sandbox.

A containerd that is killed while it writes one leaves a file that no later one can read: it could never take the sandbox's network down. And files of sandboxes that
were never stopped would stay for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path("/var/lib/cni/results")
_WRITTEN_SECONDS = 0.2
"""How long a file may be incomplete that somebody is writing."""


def remove_torn(now: float, directory: Path = RESULTS) -> list[Path]:
    """Remove files that a killed containerd has not written to their end; without them, networks are taken down by their configuration. now: Unix time."""
    torn = [
        path for path, data in _read(directory) if not _is_whole(data) and now - _written_at(path) >= _WRITTEN_SECONDS
    ]
    for path in torn:
        path.unlink(missing_ok=True)
    return torn


def remove_results(state: Path, directory: Path = RESULTS) -> None:
    """Remove files about sandboxes whose network namespaces are below a directory. Nothing may run any more that has use for them."""
    mark = f'"{state}/'.encode()
    for path, data in _read(directory):
        if mark in data:
            path.unlink(missing_ok=True)


def _read(directory: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(directory.glob("*")):
        try:
            yield path, path.read_bytes()
        except FileNotFoundError:
            continue  # its sandbox has just been stopped


def _is_whole(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _written_at(path: Path) -> float:
    """When a file was written, as a Unix time; never for one that has just gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
