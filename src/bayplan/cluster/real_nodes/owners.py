"""Who the things of real nodes on this machine belong to, and what clusters have left whose process was killed.

A cluster's state directory has a file `owner` with the path of its data, which the cluster locks (`flock`) as long as it runs. The system frees the lock however
the owner dies, and sees it from every mount and process namespace.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from bayplan.cluster.real_nodes.leftovers import remove_leftovers
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.store.errors import StoreLocked, StoreUnavailable
from bayplan.store.file_lock import FileLock
from bayplan.support.clock import Clock
from bayplan.support.system.private_files import open_private

logger = logging.getLogger(__name__)

_OWNER = "owner"


def data_lock(directory: Path) -> FileLock:
    """The lock that lets one process at a time keep its nodes in a directory, which must exist."""
    return FileLock(directory / "real-nodes.lock", directory)


class Ownership:
    """The claim of a running cluster on its state directory, which must exist and be new. Raises OSError."""

    def __init__(self, settings: RealNodeSettings) -> None:
        self._descriptor = open_private(settings.state / _OWNER, os.O_RDWR)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Written after the lock is taken: a file without content has no owner yet, and is nobody's to remove.
        os.pwrite(self._descriptor, os.fsencode(settings.directory.absolute()), 0)

    def release(self) -> None:
        """Give the claim up."""
        os.close(self._descriptor)


async def remove_dead_clusters(settings: RealNodeSettings, clock: Clock) -> None:
    """Remove what other clusters with the same runtime directory have left whose processes have died. Their data stays. Raises RealNodeError."""
    for state in sorted(settings.runtime_directory.glob("*/")):
        if state == settings.state:
            continue
        with _claim(state) as directory:
            if directory is None:
                continue
            other = dataclasses.replace(settings, count=1, directory=directory)
            if other.state != state:
                continue
            logger.warning("what a killed cluster with its data in %s has left on this machine is removed", directory)
            await remove_leftovers(other, clock)


@contextlib.contextmanager
def _claim(state: Path) -> Iterator[Path | None]:
    """The data directory of a state directory whose owner is dead, which nobody else claims meanwhile; None if the owner lives or is not known."""
    with contextlib.ExitStack() as held:
        try:
            descriptor = os.open(state / _OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            yield None
            return
        held.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        directory = Path(os.fsdecode(os.read(descriptor, 4096)))
        if not directory.is_absolute():
            yield None
            return
        if directory.is_dir():
            lock = data_lock(directory)
            try:
                lock.acquire()
            except (
                StoreLocked,
                StoreUnavailable,
            ):  # the next run of that cluster starts, or its data can no longer be written
                yield None
                return
            held.callback(lock.release)
        yield directory
