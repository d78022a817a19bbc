"""Removes logs of pods that are gone, and links to logs that are (pkg/kubelet/kuberuntime/kuberuntime_gc.go)."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from bayplan.kubelet.core.log_names import SUFFIX, container_of_link, pod_of_directory, run_of_log
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.labels import CONTAINER_NAME, POD_UID
from bayplan.kubelet.runtime.types import Container, ContainerState
from bayplan.support.blocking import Blocking

logger = logging.getLogger(__name__)


class LogGarbage:
    """The logs of pods (`logs`, one directory per pod) and the links to them by container (`links`)."""

    def __init__(self, runtime: Runtime, blocking: Blocking, logs: Path, links: Path) -> None:
        self._runtime = runtime
        self._blocking = blocking
        self._logs = logs
        self._links = links

    async def collect(self, keep: Collection[str]) -> None:
        """Remove the logs of all pods but those with these uids, logs of runs that the runtime has no container of any more, and links that lead to nothing.

        What cannot be removed now is tried next time.
        """
        await self._blocking(lambda: _remove_directories(self._logs, keep))
        try:
            oldest = _oldest_runs(await self._runtime.containers())
        except RuntimeRequestError as error:
            logger.warning("cannot list containers to remove logs of those that are gone: %s", error)
            return
        await self._blocking(lambda: _remove_runs(self._logs, oldest))
        for link in await self._blocking(self._dangling):
            if not await self._is_alive(container_of_link(link.name)):
                await self._blocking(lambda: link.unlink(missing_ok=True))  # noqa: B023 - called at once

    def _dangling(self) -> list[Path]:
        """Links into `logs` that lead to nothing: several kubelets of one machine may share the links."""
        found = []
        for name in _names(self._links):
            path = self._links / name
            if not name.endswith(SUFFIX) or not path.is_symlink() or path.exists():
                continue
            if Path(os.readlink(path)).is_relative_to(self._logs):
                found.append(path)
        return found

    async def _is_alive(self, container_id: str) -> bool:
        """Whether a container has not ended, so that its log is only missing for a moment: it is being rotated."""
        if not container_id:
            return False
        try:
            status = await self._runtime.container_status(container_id)
        except NotFoundError:
            return False
        except RuntimeRequestError as error:
            logger.warning("state of container %s, whose log is missing: %s", container_id, error)
            return True
        return status.container.state is not ContainerState.EXITED


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _oldest_runs(containers: Iterable[Container]) -> dict[tuple[str, str], int]:
    """(uid of the pod, name of the container) -> the first run that the runtime still has."""
    found: dict[tuple[str, str], int] = {}
    for each in containers:
        key = each.labels.get(POD_UID, ""), each.labels.get(CONTAINER_NAME, "")
        found[key] = min(each.attempt, found.get(key, each.attempt))
    return found


def _remove_runs(logs: Path, oldest: Mapping[tuple[str, str], int]) -> None:
    """Remove logs of runs before the oldest that there is. Of a container with no run at all they stay: its next run is counted by them."""
    for directory in _names(logs):
        uid = pod_of_directory(directory)
        for container in _names(logs / directory) if uid else ():
            first = oldest.get((uid, container), 0)
            for name in _names(logs / directory / container) if first else ():
                run = run_of_log(name)
                if run is not None and run < first:
                    (logs / directory / container / name).unlink(missing_ok=True)


def _remove_directories(logs: Path, keep: Collection[str]) -> None:
    for name in _names(logs):
        uid = pod_of_directory(name)
        if not uid or uid in keep:
            continue
        try:
            shutil.rmtree(logs / name)
        except OSError as error:
            logger.warning("cannot remove logs: %s", error)
