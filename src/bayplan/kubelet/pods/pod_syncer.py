"""What a worker does with its pod at each step: status, cgroups, volumes, probes, containers (SyncPod in pkg/kubelet/kubelet.go)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection, rejected_status
from bayplan.kubelet.core.containers.states import StartFailure, StatusFacts
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.pod_status import TERMINAL, Failure, PodFacts, generate_pod_status
from bayplan.kubelet.core.restarts import ALL_CONTAINERS_RESTARTING
from bayplan.kubelet.errors import SyncError
from bayplan.kubelet.pods.container_events import WARNING, ContainerEvents
from bayplan.kubelet.pods.container_stopper import ContainerStopper, stop_unknown
from bayplan.kubelet.pods.pleg import PodLifecycleEvents
from bayplan.kubelet.pods.pod_resizes import PodResizes
from bayplan.kubelet.pods.pod_runtime import PodRuntime, SyncOutcome
from bayplan.kubelet.pods.pod_states import PodStateReader, PodStates
from bayplan.kubelet.pods.pod_workers import SetStatus
from bayplan.kubelet.pods.status_manager import StatusManager
from bayplan.kubelet.prober.manager import ProbeManager
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)
T = TypeVar("T")

NETWORK_NOT_READY = "network is not ready"


class PodVolumes(Protocol):
    """The volumes of this node's pods."""

    async def mount(self, pod: core_v1.Pod) -> None:
        """Return when all volumes of a pod are there. Raises VolumeNotReadyError, VolumeLimitError."""

    async def unmount(self, pod_uid: str) -> None:
        """Return when no volume of a pod is mounted any more, and its directory is gone. Raises VolumeNotReadyError."""


class VolumeNotReadyError(Exception):
    """Volumes could not be mounted or unmounted. It is tried again.

    is_reported: each reason has had an event of its own already, so that the text needs none.
    """

    def __init__(self, message: str, *, is_reported: bool = False) -> None:
        super().__init__(message)
        self.is_reported = is_reported


class VolumeLimitError(Exception):
    """The node has as many volumes as it can have; the pod has to go elsewhere."""


class PodDirectories(Protocol):
    """What a pod has on the node besides volumes: directories and cgroups."""

    async def prepare(self, pod: core_v1.Pod, *, running: bool) -> bool:
        """Make them. running: whether containers run already; False if these must be killed because their cgroups were missing. Raises OSError."""

    async def remove(self, pod_uid: str) -> None:
        """Remove them, with what may still run there. Raises OSError."""


class NodeCondition(Protocol):
    """What the node's own state means for its pods."""

    def network_error(self) -> str:
        """Why pods cannot have a network; empty if they can."""

    def eviction(self, pod: core_v1.Pod) -> Failure | None:
        """Why a pod must go although it may run well, such as DeadlineExceeded."""

    def facts(self, pod: core_v1.Pod) -> PodFacts:
        """What the pod's status depends on besides pod and runtime."""


class NodePodSyncer:
    """Implements `PodSyncer` for the pods of one node."""

    def __init__(
        self,
        runtime: Runtime,
        pod_runtime: PodRuntime,
        stopper: ContainerStopper,
        reader: PodStateReader,
        states: PodStates,
        lifecycle: PodLifecycleEvents,
        statuses: StatusManager,
        probes: ProbeManager,
        volumes: PodVolumes,
        directories: PodDirectories,
        node: NodeCondition,
        events: ContainerEvents,
        resizes: PodResizes,
        clock: Clock,
    ) -> None:
        self._runtime = runtime
        self._pod_runtime = pod_runtime
        self._stopper = stopper
        self._reader = reader
        self._states = states
        self._lifecycle = lifecycle
        self._statuses = statuses
        self._probes = probes
        self._volumes = volumes
        self._directories = directories
        self._node = node
        self._events = events
        self._resizes = resizes
        self._clock = clock
        self._failures: dict[str, dict[str, StartFailure]] = {}
        self._seen_at: dict[str, float] = {}
        """Since when pods are known that do not run yet (monotonic seconds)."""
        self.on_running: Callable[[float], None] = lambda _: None
        """Called when a pod runs for the first time, with the seconds since it was first seen."""
        self.allocated_resources: Callable[[core_v1.Pod], Mapping[str, tuple[core_v1.ResourceStatus, ...]]] = lambda _: {}
        """Container -> how the devices are that it was given."""
        self.mirror: Callable[[core_v1.Pod], Coroutine[Any, Any, None]] | None = None
        """Sees that a static pod has its mirror pod in the API."""

        self.release: Callable[[str], Coroutine[Any, Any, None]] | None = None
        """Gives back what a pod (uid) has used, once its containers have stopped and before its status says that it has ended, by which others may get it.
        Raises SyncError."""

    async def sync(self, pod: core_v1.Pod, state: PodState, ending: asyncio.Event) -> bool:
        """See PodSyncer."""
        pod = self._resizes.allocated(pod)
        self._resizes.observe(pod, state)
        status = self._set_status(pod, state)
        if status.phase in TERMINAL:
            return True
        network = self._node.network_error()
        if network and not pod.spec.host_network:
            self._events.pod(pod, WARNING, "NetworkNotReady", f"{NETWORK_NOT_READY}: {network}")
            raise SyncError(f"{NETWORK_NOT_READY}: {network}")
        if self.mirror is not None:
            await self.mirror(pod)
        await self._prepare(pod, state)
        try:
            if not await self._mount(pod, ending):
                return False
        except VolumeLimitError as error:
            rejection = Rejection("VolumeAttachmentLimitExceeded", str(error))
            self._events.pod(pod, WARNING, rejection.reason, rejection.message)
            self._statuses.set(pod, rejected_status(pod, rejection))
            return True
        self._probes.add(pod)
        restart_all = any(
            each.type == ALL_CONTAINERS_RESTARTING and each.status == "True" for each in status.conditions
        )
        outcome = await self._pod_runtime.sync(
            _with_addresses(pod, status), state, self._probes.verdicts(), ending, restart_all=restart_all
        )
        self._remember(pod.metadata.uid, outcome)
        if outcome.changed:
            await self._lifecycle.refresh(pod.metadata.uid)
        resized = self._note_resize(pod, outcome)
        if outcome.errors or resized:
            self._set_status(pod, self._states.get(pod.metadata.uid))
        if outcome.errors:
            raise SyncError("; ".join(outcome.errors), outcome.retry_after)
        return False

    def _note_resize(self, pod: core_v1.Pod, outcome: SyncOutcome) -> bool:
        """Say how a resize has gone; whether there was one."""
        if outcome.resize_error:
            self._resizes.fail(pod, outcome.resize_error)
        elif outcome.changed:
            self._resizes.observe(pod, self._states.get(pod.metadata.uid))
        return outcome.resized

    async def terminate(
        self, pod: core_v1.Pod, state: PodState, grace_seconds: int | None, set_status: SetStatus | None
    ) -> None:
        """See PodSyncer."""
        uid = pod.metadata.uid
        self._set_status(pod, state, set_status)
        self._probes.stop_all_but_readiness(uid)
        try:
            await self._stopper.stop_pod(pod, state, grace_seconds)
            stopped = await self._reader.read(uid)
        except RuntimeRequestError as error:
            self._events.pod(pod, WARNING, "FailedKillPod", f"error killing pod: {error}")
            raise SyncError(f"error killing pod: {error}") from None
        if stopped.running:
            names = [each.container.name for each in stopped.running]
            raise SyncError(f"detected running containers after a successful kill: {names}", retry_after=1.0)
        self._probes.remove(uid)
        if self.release is not None:
            await self.release(uid)
        if not stopped.ips and state.ips:
            stopped = replace(stopped, ips=state.ips)
        self._states.set(stopped)
        self._set_status(pod, stopped, set_status, terminal=True)

    async def terminate_unknown(self, state: PodState) -> None:
        """See PodSyncer."""
        try:
            await stop_unknown(self._runtime, state)
        except RuntimeRequestError as error:
            raise SyncError(str(error)) from None

    async def terminated(self, pod: core_v1.Pod, state: PodState) -> None:
        """See PodSyncer."""
        uid = pod.metadata.uid
        self._set_status(pod, state, terminal=True)
        try:
            await self._volumes.unmount(uid)
            await self._directories.remove(uid)
        except (VolumeNotReadyError, OSError) as error:
            raise SyncError(str(error), retry_after=1.0) from None
        self._failures.pop(uid, None)
        self._seen_at.pop(uid, None)
        self._statuses.terminate(pod)

    def show(self, pod: core_v1.Pod) -> None:
        """Say how a pod is by what is known, without asking the runtime."""
        self._set_status(pod, self._states.get(pod.metadata.uid))

    def _set_status(
        self, pod: core_v1.Pod, state: PodState, set_status: SetStatus | None = None, *, terminal: bool = False
    ) -> core_v1.PodStatus:
        """Say how the pod is; the status."""
        pod = self._resizes.allocated(pod)
        before = self._statuses.get(pod.metadata.uid) or pod.status
        facts = self._node.facts(pod)
        failures = self._failures.get(pod.metadata.uid, {})
        containers: StatusFacts = replace(
            facts.containers, failures=failures, allocated_resources=self.allocated_resources(pod)
        )
        facts = replace(facts, containers=containers, terminal=terminal, failure=self._node.eviction(pod))
        ended = terminal or before.phase in TERMINAL
        facts = replace(facts, resize_conditions=self._resizes.conditions(pod.metadata.uid, terminal=ended))
        status = generate_pod_status(pod, state, before, self._probes.view(pod, before), facts)
        if set_status is not None:
            status = set_status(status)
        self._time_start(pod.metadata.uid, before.phase, status.phase)
        self._statuses.set(pod, status)
        return self._statuses.get(pod.metadata.uid) or status

    def _time_start(self, uid: str, before: str, phase: str) -> None:
        now = self._clock.monotonic()
        if before in ("", "Pending") and phase == "Running":
            self.on_running(now - self._seen_at.pop(uid, now))
        elif phase == "Pending":
            self._seen_at.setdefault(uid, now)

    async def _prepare(self, pod: core_v1.Pod, state: PodState) -> None:
        try:
            kept = await self._directories.prepare(pod, running=bool(state.running))
        except OSError as error:
            text = f"unable to ensure pod container exists: {error}"
            self._events.pod(pod, WARNING, "FailedCreatePodContainer", text)
            raise SyncError(text) from None
        if not kept:
            try:
                await self._stopper.stop_pod(pod, state, None)
            except RuntimeRequestError as error:
                raise SyncError(f"error killing pod: {error}") from None

    async def _mount(self, pod: core_v1.Pod, ending: asyncio.Event) -> bool:
        """Whether the volumes are there; False if the pod is to end before that. Raises SyncError, VolumeLimitError."""
        mounting = asyncio.ensure_future(self._volumes.mount(pod))
        waiting = asyncio.ensure_future(ending.wait())
        try:
            await asyncio.wait((mounting, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not mounting.done():
                return False
            mounting.result()
        except VolumeNotReadyError as error:
            if not error.is_reported:
                self._events.pod(pod, WARNING, "FailedMount", f"Unable to attach or mount volumes: {error}")
            raise SyncError(str(error)) from None
        finally:
            mounting.cancel()
            waiting.cancel()
        return True

    def _remember(self, uid: str, outcome: SyncOutcome) -> None:
        """Why containers could not be started, until they could."""
        known = self._failures.setdefault(uid, {})
        for name in outcome.attempted:
            known.pop(name, None)
        known.update(outcome.failures)


def _with_addresses(pod: core_v1.Pod, status: core_v1.PodStatus) -> core_v1.Pod:
    """The pod with the addresses of its status of now, which containers may ask for before the API server knows them."""
    from msgspec.structs import replace as changed

    shown = changed(
        pod.status, host_ip=status.host_ip, host_ips=status.host_ips, pod_ip=status.pod_ip, pod_ips=status.pod_ips
    )
    with_status: core_v1.Pod = changed(pod, status=shown)
    return with_status
