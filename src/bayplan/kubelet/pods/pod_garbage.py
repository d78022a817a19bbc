"""Removes containers and sandboxes that have ended and are of no use any more (pkg/kubelet/kuberuntime/kuberuntime_gc.go).

Of each container of a pod that exists the last run is kept, for its status and its log. Of a pod that is gone nothing is kept.
Several pods are cleaned up at once: one after the other they would fall behind pods that start, and networks run out of addresses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from bayplan.kubelet.core.termination import MINIMUM_GRACE
from bayplan.kubelet.pods.pleg import PodLifecycleEvents
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.labels import CONTAINER_NAME
from bayplan.kubelet.runtime.types import Container, ContainerState, Sandbox, SandboxState

logger = logging.getLogger(__name__)

_NOT_RUNNING = (ContainerState.EXITED, ContainerState.CREATED, ContainerState.UNKNOWN)
KEPT_RUNS = 1
"""Runs of a container that are kept besides the one that runs."""
AT_ONCE = 8
"""Pods that are cleaned up at the same time."""


class PodGarbage:
    """See the module."""

    def __init__(
        self,
        runtime: Runtime,
        lifecycle: PodLifecycleEvents,
        remove_logs: Callable[[Collection[str]], Awaitable[None]],
    ) -> None:
        """remove_logs: removes the logs of all pods but those with these uids."""
        self._runtime = runtime
        self._lifecycle = lifecycle
        self._remove_logs = remove_logs

    async def collect(self, *, keep: Collection[str], wanted: Collection[str]) -> None:
        """Remove what is of no use.

        keep: uids of the pods that exist. wanted: those of which something may run or be started, whether they exist or not.
        """
        limit = asyncio.Semaphore(AT_ONCE)

        async def clean(sandboxes: Sequence[Sandbox], containers: Sequence[Container], *, gone: bool) -> bool:
            async with limit:
                return await self._of_pod(sandboxes, containers, gone=gone)

        found = [
            clean(sandboxes, containers, gone=gone)
            for uid, (sandboxes, containers) in self._lifecycle.pods().items()
            if _has_ended(sandboxes, containers, gone=(gone := uid not in keep and uid not in wanted))
        ]
        if found and any(await asyncio.gather(*found)):
            await self._lifecycle.relist()
        await self._remove_logs({*keep, *wanted, *self._lifecycle.pods()})

    async def _of_pod(self, sandboxes: Sequence[Sandbox], containers: Sequence[Container], *, gone: bool) -> bool:
        """Whether anything was removed."""
        useless = _useless_containers(containers, keep=0 if gone else KEPT_RUNS)
        removed = set()
        for container in useless:
            if await self._try(self._remove_container(container)):
                removed.add(container.id)
        used = {each.sandbox_id for each in containers if each.id not in removed}
        newest = max((each.created_at for each in sandboxes), default=0)
        for sandbox in sandboxes:
            if sandbox.state is SandboxState.READY or sandbox.id in used:
                continue
            if (gone or sandbox.created_at != newest) and await self._try(self._runtime.remove_sandbox(sandbox.id)):
                removed.add(sandbox.id)
        return bool(removed)

    async def _remove_container(self, container: Container) -> None:
        if container.state is ContainerState.UNKNOWN:  # it may run
            await self._runtime.stop_container(container.id, MINIMUM_GRACE)
        await self._runtime.remove_container(container.id)

    @staticmethod
    async def _try(removal: Awaitable[None]) -> bool:
        try:
            await removal
        except RuntimeRequestError as error:
            logger.warning("cannot remove what has ended: %s", error)
            return False
        return True


def _has_ended(sandboxes: Sequence[Sandbox], containers: Sequence[Container], *, gone: bool) -> bool:
    """Whether anything of a pod may be of no use. Costs little for pods that run."""
    if gone or len(sandboxes) > 1:
        return True
    return any(each.state is ContainerState.EXITED for each in containers)


def _useless_containers(containers: Sequence[Container], *, keep: int) -> list[Container]:
    """Runs that do not run beyond the newest `keep` of each container; only those that have ended are garbage of a living pod."""
    by_name: dict[str, list[Container]] = {}
    states = _NOT_RUNNING if keep == 0 else (ContainerState.EXITED,)
    for each in containers:
        if each.state in states:
            by_name.setdefault(each.labels.get(CONTAINER_NAME, each.name), []).append(each)
    return [
        each for runs in by_name.values() for each in sorted(runs, key=lambda run: run.created_at, reverse=True)[keep:]
    ]
