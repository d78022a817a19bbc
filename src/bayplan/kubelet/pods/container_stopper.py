"""Ends containers as their pod asks for it: hook, order among sidecars, signal, force (killContainer in pkg/kubelet/kuberuntime)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from bayplan.api.types import core_v1
from bayplan.kubelet.core.plan import KillReason
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.core.termination import MINIMUM_GRACE, grace_period, prerequisites
from bayplan.kubelet.errors import HookError
from bayplan.kubelet.pods.container_events import ContainerEvents
from bayplan.kubelet.pods.hooks import HookRunner
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import SandboxState
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)


class _Order:
    """Lets sidecars wait for the containers that must end before them."""

    def __init__(self, spec: core_v1.PodSpec, running: Iterable[str]) -> None:
        names = tuple(running)
        self._ended = {name: asyncio.Event() for name in names}
        self._before = prerequisites(spec, names)

    async def wait_for_turn(self, name: str, seconds: float) -> None:
        """Return when it is this container's turn, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                for other in self._before.get(name, ()):
                    await self._ended[other].wait()
        except TimeoutError:
            return

    def ended(self, name: str) -> None:
        if name in self._ended:
            self._ended[name].set()


class ContainerStopper:
    """Stops containers and pods. A preStop hook runs once per container, whatever happens meanwhile."""

    def __init__(self, runtime: Runtime, hooks: HookRunner, events: ContainerEvents, clock: Clock) -> None:
        self._runtime = runtime
        self._hooks = hooks
        self._events = events
        self._clock = clock
        self._hooked: set[str] = set()
        self._announced: set[str] = set()

    async def stop_pod(self, pod: core_v1.Pod, state: PodState, grace_seconds: int | None) -> None:
        """End all containers of a pod, then its sandboxes. grace_seconds: None for the pod's own. Raises RuntimeRequestError."""
        running = state.running
        order = _Order(pod.spec, [each.container.name for each in running])

        async def stop(name: str, container_id: str) -> None:
            try:
                text, reason = f"Stopping container {name}", KillReason.UNKNOWN
                await self.stop_container(pod, name, container_id, text, reason, grace_seconds, state.ips, order)
            finally:
                order.ended(name)

        stops = (stop(each.container.name, each.container.id) for each in running)
        results = await asyncio.gather(*stops, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        await self.stop_sandboxes(state)

    async def stop_sandboxes(self, state: PodState) -> None:
        """End the sandboxes of a pod whose containers have ended."""
        for each in state.sandboxes:
            if each.sandbox.state is SandboxState.READY:
                await self._runtime.stop_sandbox(each.sandbox.id)

    async def stop_container(
        self,
        pod: core_v1.Pod,
        name: str,
        container_id: str,
        message: str,
        reason: KillReason,
        grace_seconds: int | None,
        ips: tuple[str, ...],
        order: _Order | None = None,
    ) -> None:
        """End one container. message: for the event; order: in which it has its turn. Raises RuntimeRequestError."""
        container = _find(pod, name)
        if container is None:
            await self._runtime.stop_container(container_id, MINIMUM_GRACE)
            return
        self._announce(pod, container, container_id, message)
        grace = grace_period(pod, container, reason) if grace_seconds is None else grace_seconds
        left = await self._pre_stop(pod, container, container_id, grace, ips)
        if order is not None and left > 0:
            started = self._clock.monotonic()
            await order.wait_for_turn(name, left)
            left -= int(self._clock.monotonic() - started)
        await self._runtime.stop_container(container_id, max(left, MINIMUM_GRACE))
        self._forget(container_id)

    def _announce(self, pod: core_v1.Pod, container: AnyContainer, container_id: str, message: str) -> None:
        if container_id not in self._announced:
            self._announced.add(container_id)
            self._events.normal(pod, container, "Killing", message)

    def _forget(self, container_id: str) -> None:
        self._hooked.discard(container_id)
        self._announced.discard(container_id)

    async def _pre_stop(
        self, pod: core_v1.Pod, container: AnyContainer, container_id: str, grace: int, ips: tuple[str, ...]
    ) -> int:
        """Run the hook, for as long as the grace period lasts; seconds of it that are left."""
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is None or grace <= 0 or container_id in self._hooked:
            return grace
        self._hooked.add(container_id)
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(grace):
                await self._hooks.run(hook, pod, container, container_id, ips)
        except TimeoutError:
            logger.info("preStop hook of %s did not end within its grace period", container.name)
        except HookError as error:
            logger.info("%s", error)
            # What the hook printed may be secret, so the event does not tell.
            self._events.warning(pod, container, "FailedPreStopHook", "PreStopHook failed")
        return grace - int(self._clock.monotonic() - began)


def _find(pod: core_v1.Pod, name: str) -> AnyContainer | None:
    specs: tuple[AnyContainer, ...] = (
        *pod.spec.containers,
        *pod.spec.init_containers,
        *pod.spec.ephemeral_containers,
    )
    return next((each for each in specs if each.name == name), None)


async def stop_unknown(runtime: Runtime, state: PodState) -> None:
    """End a pod of which only the runtime knows. Raises RuntimeRequestError."""
    for each in state.running:
        await runtime.stop_container(each.container.id, MINIMUM_GRACE)
    for sandbox in state.sandboxes:
        if sandbox.sandbox.state is SandboxState.READY:
            await runtime.stop_sandbox(sandbox.sandbox.id)
