"""Starts of containers: which are under way, and which nobody has seen to their end.

A runtime that is killed while it starts a container, and comes again, may show it as merely created, although its process has run. Whoever starts such a container
anew runs it twice. That it was to be started shows in its log, which the runtime opens for the start.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from bayplan.kubelet.runtime.types import Container, ContainerState, ContainerStatus
from bayplan.support.blocking import Blocking

START_ERROR = "StartError"
_EXIT_CODE = 128
"""Reason and code that containerd gives containers whose start was cut off while it ran on."""
_MESSAGE = "the start of the container was interrupted; whether its process has run is not known"


class ContainerStarts:
    """What is being started by this process, and what became of starts that nobody waits for any more."""

    def __init__(self, blocking: Blocking) -> None:
        self._blocking = blocking
        self._under_way: Counter[tuple[str, str]] = Counter()

    @contextlib.contextmanager
    def under_way(self, pod_uid: str, name: str) -> Iterator[None]:
        """For as long as a container of a pod is made and started: what it comes to is learnt from the runtime's answer."""
        key = (pod_uid, name)
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    async def settle(self, status: ContainerStatus) -> ContainerStatus:
        """The status of a container; if its start was interrupted, it has ended with StartError."""
        container = status.container
        if (
            container.state is not ContainerState.CREATED
            or not status.log_path
            or _key(container) in self._under_way
            or not await self._blocking(lambda: os.path.exists(status.log_path))
        ):
            return status
        return replace(
            status,
            container=replace(container, state=ContainerState.EXITED),
            started_at=container.created_at,
            finished_at=container.created_at,
            exit_code=_EXIT_CODE,
            reason=START_ERROR,
            message=_MESSAGE,
        )


def _key(container: Container) -> tuple[str, str]:
    return container.labels.get("io.kubernetes.pod.uid", ""), container.name
