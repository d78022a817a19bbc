"""Keeps logs of containers that run from filling the disk (containerLogMaxSize, containerLogMaxFiles; pkg/kubelet/logs).

A log that has become too long is renamed, and the runtime begins a new file. Of the renamed ones all but the newest are compressed: the runtime may still write to
that for a moment. With five files: `0.log`, `0.log.TIME`, and three times `0.log.TIME.gz`.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bayplan.api.quantity import parse
from bayplan.kubelet.core.log_names import COMPRESSED, TEMPORARY, split_rotated
from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import ContainerState
from bayplan.support.blocking import Blocking
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)


class LogRotation:
    """See the module."""

    def __init__(
        self,
        runtime: Runtime,
        blocking: Blocking,
        clock: Clock,
        *,
        max_size: str,
        max_files: int,
        interval: float,
        workers: int = 1,
    ) -> None:
        """max_size: a quantity of bytes; negative for no rotation. max_files: per container, with the one that is written. interval: seconds between two
        looks. workers: how many logs are rotated at once. Raises ConfigurationError."""
        if max_files <= 1:
            raise ConfigurationError(f"invalid MaxFiles {max_files}, must be > 1")
        try:
            self._max_size = parse(max_size).value()
        except ValueError as error:
            raise ConfigurationError(f'failed to parse container log max size "{max_size}": {error}') from error
        self._runtime = runtime
        self._blocking = blocking
        self._clock = clock
        self._max_files = max_files
        self._interval = interval
        self._workers = max(1, workers)

    async def run(self) -> None:
        """Look at all logs again and again, until cancelled."""
        while True:
            if self._max_size >= 0:
                try:
                    await self.rotate_all()
                except RuntimeRequestError as error:
                    logger.error("cannot list containers to rotate their logs: %s", error)
            await self._clock.sleep(self._interval)

    async def rotate_all(self) -> None:
        """Look at the logs of all containers that run. Raises RuntimeRequestError if the runtime does not say which these are."""
        running = [each.id for each in await self._runtime.containers() if each.state is ContainerState.RUNNING]
        limit = asyncio.Semaphore(self._workers)

        async def one(container_id: str) -> None:
            async with limit:
                await self._look_at(container_id)

        async with asyncio.TaskGroup() as tasks:
            for each in running:
                tasks.create_task(one(each))

    async def _look_at(self, container_id: str) -> None:
        """Rotate one log if it is too long. What fails is tried next time."""
        try:
            path = Path((await self._runtime.container_status(container_id)).log_path)
            size = await self._size(container_id, path)
            if size >= self._max_size:
                await self._rotate(container_id, path)
        except NotFoundError:
            return
        except (RuntimeRequestError, OSError) as error:
            logger.error("cannot rotate the log of container %s: %s", container_id, error)

    async def _size(self, container_id: str, path: Path) -> int:
        """The log's size. One that is missing was renamed by a kubelet that ended then: the runtime begins it anew."""
        try:
            return (await self._blocking(path.stat)).st_size
        except FileNotFoundError:
            await self._runtime.reopen_log(container_id)
            return (await self._blocking(path.stat)).st_size

    async def _rotate(self, container_id: str, path: Path) -> None:
        await self._blocking(lambda: make_room(path, self._max_files))
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        rotated = path.with_name(f"{path.name}.{moment:%Y%m%d-%H%M%S}")
        if await self._blocking(rotated.exists):
            return  # twice in a second: it stays as it is until the next look
        await self._blocking(lambda: path.rename(rotated))
        try:
            await self._runtime.reopen_log(container_id)
        except RuntimeRequestError:
            await self._blocking(lambda: rotated.rename(path))
            raise


def _rotated(path: Path) -> list[str]:
    """Names of what was rotated of a log."""
    prefix = path.name + "."
    try:
        return [name for name in os.listdir(path.parent) if name.startswith(prefix)]
    except FileNotFoundError:
        return []


def make_room(path: Path, max_files: int) -> None:
    """Remove the oldest files of a log, and compress those that are not, so that one more is not too many. Raises OSError."""
    kept, useless = split_rotated(_rotated(path))
    most = max(0, max_files - 2)
    excess = len(kept) - most if len(kept) > most else 0
    for name in (*useless, *kept[:excess]):
        (path.parent / name).unlink()
    for name in kept[excess:]:
        if not name.endswith(COMPRESSED):
            compress(path.parent / name)


def compress(path: Path) -> None:
    """Put a compressed file in the place of a file; nothing is lost if that ends midway. Raises OSError."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with path.open("rb") as source:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, path.stat().st_mode)
            with open(descriptor, "wb") as raw, gzip.GzipFile(path.name, "wb", fileobj=raw, mtime=0) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        temporary.rename(path.with_name(path.name + COMPRESSED))
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    path.unlink()
