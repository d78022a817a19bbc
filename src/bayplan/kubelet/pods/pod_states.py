"""What the runtime has of each pod: read from it, and kept until it is read again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from bayplan.kubelet.core.pod_state import PodState, pod_state
from bayplan.kubelet.pods.container_starts import ContainerStarts
from bayplan.kubelet.runtime.errors import NotFoundError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import (
    Container,
    ContainerState,
    ContainerStatus,
    Sandbox,
    SandboxState,
    SandboxStatus,
)
from bayplan.support.clock import Clock

Explain = Callable[[ContainerStatus], Awaitable[ContainerStatus]]
"""Adds to the status of a container that has ended what the container itself said about its end."""


class PodStateReader:
    """Asks the runtime about pods. What has ended is asked about once: it does not change any more. Nor does a sandbox, as long as lists show it ready."""

    def __init__(self, runtime: Runtime, clock: Clock, explain: Explain, starts: ContainerStarts) -> None:
        self._runtime = runtime
        self._clock = clock
        self._explain = explain
        self._starts = starts
        self._ended: dict[str, ContainerStatus] = {}
        self._ready: dict[str, SandboxStatus] = {}
        """Sandboxes that were ready when they were asked about, and have addresses."""

    async def read(self, uid: str) -> PodState:
        """What the runtime has of one pod now. Raises RuntimeRequestError."""
        seen_at = self._clock.monotonic()
        sandboxes, containers = await asyncio.gather(
            self._runtime.sandboxes(pod_uid=uid), self._runtime.containers(pod_uid=uid)
        )
        return await self.inspect(uid, sandboxes, containers, seen_at)

    async def inspect(
        self, uid: str, sandboxes: Sequence[Sandbox], containers: Sequence[Container], seen_at: float
    ) -> PodState:
        """The details of what a list has shown at `seen_at` (monotonic seconds); what has gone since is left out."""
        found = await asyncio.gather(*(self._sandbox(each) for each in sandboxes))
        statuses = await asyncio.gather(*(self._container(each) for each in containers))
        first = sandboxes[0] if sandboxes else None
        labels = containers[0].labels if containers else {}
        return pod_state(
            uid,
            first.name if first is not None else labels.get("io.kubernetes.pod.name", ""),
            first.namespace if first is not None else labels.get("io.kubernetes.pod.namespace", ""),
            [each for each in found if each is not None],
            [each for each in statuses if each is not None],
            seen_at=seen_at,
        )

    async def _sandbox(self, sandbox: Sandbox) -> SandboxStatus | None:
        known = self._ready.get(sandbox.id)
        if known is not None and sandbox.state is SandboxState.READY:
            return known
        self._ready.pop(sandbox.id, None)
        try:
            status = await self._runtime.sandbox_status(sandbox.id)
        except NotFoundError:
            return None
        if status.ips and status.sandbox.state is SandboxState.READY:
            self._ready[sandbox.id] = status
        return status

    async def _container(self, container: Container) -> ContainerStatus | None:
        known = self._ended.get(container.id)
        if known is not None:
            return known
        try:
            status = await self._runtime.container_status(container.id)
        except NotFoundError:
            return None
        if not status.container.sandbox_id:  # only lists say which sandbox a container is in
            status = replace(status, container=replace(status.container, sandbox_id=container.sandbox_id))
        status = await self._starts.settle(status)
        if status.container.state is ContainerState.EXITED:
            status = self._ended[container.id] = await self._explain(status)
        return status

    def forget_all_but(self, container_ids: set[str], sandbox_ids: set[str]) -> None:
        """Forget containers and sandboxes that do not exist any more."""
        for container_id in self._ended.keys() - container_ids:
            del self._ended[container_id]
        for sandbox_id in self._ready.keys() - sandbox_ids:
            del self._ready[sandbox_id]


class PodStates:
    """The last state of each pod. Whoever has changed a pod can wait for a state that is newer than the change."""

    def __init__(self) -> None:
        self._states: dict[str, PodState] = {}
        self._failures: dict[str, Exception] = {}
        self._listed_at = float("-inf")
        """When the runtime last listed all pods: those that were not in the list have no state since then."""
        self._changed = asyncio.Event()

    def get(self, uid: str) -> PodState:
        """The last known state; an empty one for a pod of which the runtime has nothing."""
        return self._states.get(uid) or PodState(uid)

    def set(self, state: PodState) -> None:
        """A pod was read. An older state never replaces a newer one."""
        known = self._states.get(state.uid)
        if known is None or known.seen_at <= state.seen_at:
            self._states[state.uid] = state
            self._failures.pop(state.uid, None)
            self._wake()

    def fail(self, uid: str, error: Exception) -> None:
        """A pod could not be read."""
        self._failures[uid] = error
        self._wake()

    def remove(self, uid: str) -> None:
        """The runtime has nothing of a pod any more."""
        self._states.pop(uid, None)
        self._failures.pop(uid, None)

    def listed(self, at: float) -> None:
        """All pods were read that have changed until then (monotonic seconds)."""
        self._listed_at = at
        self._wake()

    async def newer_than(self, uid: str, at: float) -> PodState:
        """A state that was read after `at` (monotonic seconds). Raises RuntimeRequestError if the pod could not be read."""
        while True:
            changed = self._changed
            state = self._states.get(uid)
            if state is not None and state.seen_at > at:
                return state
            if self._listed_at > at:
                if uid in self._failures:
                    raise self._failures[uid]
                return state or PodState(uid, seen_at=self._listed_at)
            await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
