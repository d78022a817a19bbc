"""Brings what a runtime has of a pod to what the pod asks for: sandboxes and containers made, started, killed and removed (pkg/kubelet/kuberuntime)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from bayplan.api.types import core_v1
from bayplan.kubelet.core.actions import compute_pod_actions
from bayplan.kubelet.core.back_off import BackOff
from bayplan.kubelet.core.containers.states import StartFailure, restart_count
from bayplan.kubelet.core.plan import KillReason, PodActions, ProbeVerdicts
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.restarts import AnyContainer, is_sidecar
from bayplan.kubelet.errors import HookError
from bayplan.kubelet.pods.container_events import NORMAL, WARNING, ContainerEvents
from bayplan.kubelet.pods.container_starts import ContainerStarts
from bayplan.kubelet.pods.container_stopper import ContainerStopper
from bayplan.kubelet.pods.hooks import HookRunner, describe
from bayplan.kubelet.pods.pod_resizer import PodResizer, ResizeError
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import ContainerConfig, ContainerState, SandboxConfig
from bayplan.support.clock import Clock
from bayplan.support.durations import go_duration

logger = logging.getLogger(__name__)

CRASH_LOOP = "CrashLoopBackOff"


class StartError(Exception):
    """A container could not be started: `reason` for the status, such as CreateContainerConfigError, and a message.

    retry_after: seconds until it is to be tried again, where that is known.
    """

    def __init__(self, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


class SandboxError(Exception):
    """What a sandbox needs could not be prepared; the text is for an event."""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """A container that is to be made."""

    pod: core_v1.Pod
    container: AnyContainer
    image_ref: str
    restarts: int
    ips: tuple[str, ...]
    target_id: str = ""
    """The container whose processes an ephemeral container is to see."""


class PodBuilder(Protocol):
    """What the node knows that a runtime must be told: images, volumes, variables, limits."""

    async def sandbox(self, pod: core_v1.Pod, attempt: int) -> SandboxConfig:
        """The sandbox of a pod. Raises SandboxError."""

    def runtime_handler(self, pod: core_v1.Pod) -> str:
        """The handler that the pod's RuntimeClass names. Raises SandboxError where the class does not exist."""

    async def image(self, pod: core_v1.Pod, container: AnyContainer, sandbox: SandboxConfig) -> str:
        """See that a container's image is there; its reference. Raises StartError."""

    async def container(self, request: ContainerRequest) -> tuple[ContainerConfig, Callable[[], Awaitable[None]]]:
        """A container, and what to call when it has been made or has failed. Raises StartError."""

    def next_log_number(self, pod: core_v1.Pod, container: AnyContainer) -> int:
        """The restart count of a container of which the runtime knows nothing, from the logs that are there."""

    def started(self, pod: core_v1.Pod, container: AnyContainer, container_id: str, restarts: int) -> None:
        """A container has been started, for the time after so many restarts."""


@dataclass(slots=True)
class SyncOutcome:
    """What was done about a pod."""

    changed: bool = False
    """Whether anything was done, so that the runtime is to be asked again."""
    failures: dict[str, StartFailure] = field(default_factory=dict)
    """Why containers could not be started, by name."""
    attempted: set[str] = field(default_factory=set)
    """Containers that were to be started."""
    errors: list[str] = field(default_factory=list)
    resized: bool = False
    """Whether limits of what runs were to change."""
    resize_error: str = ""
    """Why limits that are to change could not be changed."""
    retry_after: float | None = None

    def add(self, name: str, error: StartError) -> None:
        self.failures[name] = StartFailure(error.reason, str(error))
        self.errors.append(f"{error.reason}: {error}")
        if error.retry_after is not None:
            known = self.retry_after
            self.retry_after = error.retry_after if known is None else min(known, error.retry_after)


class PodRuntime:
    """Carries out what `compute_pod_actions` plans."""

    def __init__(
        self,
        runtime: Runtime,
        builder: PodBuilder,
        hooks: HookRunner,
        stopper: ContainerStopper,
        events: ContainerEvents,
        clock: Clock,
        back_off: BackOff,
        resizer: PodResizer,
        starts: ContainerStarts,
    ) -> None:
        self._runtime = runtime
        self._builder = builder
        self._hooks = hooks
        self._stopper = stopper
        self._events = events
        self._clock = clock
        self._back_off = back_off
        self._resizer = resizer
        self._starts = starts

    async def sync(
        self, pod: core_v1.Pod, state: PodState, verdicts: ProbeVerdicts, ending: asyncio.Event, *, restart_all: bool
    ) -> SyncOutcome:
        """Do what is due. ending: set when the pod is to end; nothing more is started then."""
        actuated = self._resizer.actuated(pod)
        actions = compute_pod_actions(pod, state, verdicts, actuated=actuated, restart_all=restart_all)
        outcome = SyncOutcome()
        try:
            await self._sync(pod, state, actions, ending, outcome)
        except RuntimeRequestError as error:
            outcome.errors.append(str(error))
        return outcome

    async def _sync(
        self, pod: core_v1.Pod, state: PodState, actions: PodActions, ending: asyncio.Event, outcome: SyncOutcome
    ) -> None:
        if actions.create_sandbox and actions.sandbox_id:
            text = "Pod sandbox changed, it will be killed and re-created."
            self._events.pod(pod, NORMAL, "SandboxChanged", text)
        if actions.kill_pod:
            outcome.changed = outcome.changed or bool(state.running or state.sandboxes)
            await self._stopper.stop_pod(pod, state, None)
            if actions.create_sandbox:
                await self._remove_init_containers(pod, state, keep=0)
        else:
            await self._kill(pod, state, actions, outcome)
        await self._remove_init_containers(pod, state, keep=1)
        if actions.resize.changes_anything and not actions.kill_pod and not ending.is_set():
            await self._resize(pod, actions, outcome)
        if ending.is_set() or not _starts_anything(actions):
            return
        sandbox = await self._sandbox_config(pod, actions.attempt)
        if sandbox is None:
            outcome.errors.append("sandbox configuration failed")
            return
        sandbox_id, ips = actions.sandbox_id, state.ips
        if actions.create_sandbox:
            outcome.changed = True
            made = await self._make_sandbox(pod, sandbox, ending)
            if made is None:
                outcome.errors.append("failed to create pod sandbox")
                return
            sandbox_id, ips = made
        if pod.spec.host_network:
            ips = tuple(each.ip for each in pod.status.host_ips) or ips
        await self._start_all(_Start(pod, state, sandbox, sandbox_id, ips, ending, outcome), actions)

    async def _kill(self, pod: core_v1.Pod, state: PodState, actions: PodActions, outcome: SyncOutcome) -> None:
        for kill in actions.kills.values():
            outcome.changed = True
            await self._stopper.stop_container(
                pod, kill.name, kill.container_id, kill.message, kill.reason, None, state.ips
            )
        for reset in actions.resets:
            outcome.changed = True
            if reset.kill:
                await self._stopper.stop_container(
                    pod, reset.name, reset.container_id, "killing", KillReason.RESTART_ALL, 0, state.ips
                )
            await self._runtime.remove_container(reset.container_id)

    async def _resize(self, pod: core_v1.Pod, actions: PodActions, outcome: SyncOutcome) -> None:
        outcome.changed = outcome.resized = True
        try:
            await self._resizer.resize(pod, actions.resize)
        except ResizeError as error:
            outcome.resize_error = str(error)
            outcome.errors.append(str(error))

    async def _remove_init_containers(self, pod: core_v1.Pod, state: PodState, *, keep: int) -> None:
        """Of each init container only the last runs are of interest, and none before a new sandbox."""
        for container in pod.spec.init_containers:
            found = [
                each
                for each in state.containers
                if each.container.name == container.name
                and (keep == 0 or each.container.state in (ContainerState.EXITED, ContainerState.UNKNOWN))
            ]
            for status in found[keep:]:
                await self._runtime.remove_container(status.container.id)

    async def _sandbox_config(self, pod: core_v1.Pod, attempt: int) -> SandboxConfig | None:
        try:
            return await self._builder.sandbox(pod, attempt)
        except SandboxError as error:
            self._events.pod(pod, WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            return None

    async def _make_sandbox(
        self, pod: core_v1.Pod, config: SandboxConfig, ending: asyncio.Event
    ) -> tuple[str, tuple[str, ...]] | None:
        """(id, addresses) of a new sandbox; None if there is none."""
        try:
            handler = self._builder.runtime_handler(pod)
            sandbox_id = await self._runtime.run_sandbox(config, handler)
        except (SandboxError, RuntimeRequestError) as error:
            if not ending.is_set():
                text = f"Failed to create pod sandbox: {_wire_text(error)}"
                self._events.pod(pod, WARNING, "FailedCreatePodSandBox", text)
            return None
        try:
            status = await self._runtime.sandbox_status(sandbox_id)
        except RuntimeRequestError as error:
            text = f"Unable to get pod sandbox status: {_wire_text(error)}"
            self._events.pod(pod, WARNING, "FailedStatusPodSandBox", text)
            return None
        return sandbox_id, status.ips

    async def _start_all(self, start: _Start, actions: PodActions) -> None:
        spec = start.pod.spec
        for index in actions.ephemeral_containers:
            await self._try_start(start, spec.ephemeral_containers[index])
        for index in actions.init_containers:
            container = spec.init_containers[index]
            if not await self._try_start(start, container) and not is_sidecar(container):
                return
        for index in actions.containers:
            await self._try_start(start, spec.containers[index])

    async def _try_start(self, start: _Start, container: AnyContainer) -> bool:
        """Start one container; whether it was started."""
        if start.ending.is_set():
            return False
        outcome = start.outcome
        outcome.attempted.add(container.name)
        try:
            self._check_back_off(start.pod, container, start.state)
            outcome.changed = True
            await self._start(start, container)
        except StartError as error:
            outcome.add(container.name, error)
            return False
        return True

    def _check_back_off(self, pod: core_v1.Pod, container: AnyContainer, state: PodState) -> None:
        """Raises StartError while a container that ended is not to be started yet."""
        ended = next(
            (
                each
                for each in state.containers
                if each.container.name == container.name and each.container.state is ContainerState.EXITED
            ),
            None,
        )
        if ended is None:
            return
        key = f"{pod.metadata.uid}/{container.name}/{container.image}"
        finished, now = ended.finished_at / 1e9, self._clock.now()
        if self._back_off.is_waiting_since(key, finished, now):
            name = describe(pod)
            text = f"Back-off restarting failed container {container.name} in pod {name}"
            self._events.warning(pod, container, "BackOff", text)
            seconds = self._back_off.seconds(key)
            text = f"back-off {go_duration(seconds)} restarting failed container={container.name} pod={name}"
            raise StartError(CRASH_LOOP, text, max(0.0, finished + seconds - now))
        self._back_off.next(key, finished, now)

    async def _start(self, start: _Start, container: AnyContainer) -> None:
        """Image, container, start, hook. Raises StartError."""
        pod = start.pod
        try:
            image_ref = await self._builder.image(pod, container, start.sandbox)
        except StartError as error:
            self._events.warning(pod, container, "Failed", f"Error: {error.reason}")
            raise
        try:
            request = ContainerRequest(
                pod,
                container,
                image_ref,
                self._restarts(pod, container, start.state),
                start.ips,
                _target_id(container, start.state),
            )
            config, clean_up = await self._builder.container(request)
        except StartError as error:
            self._events.warning(pod, container, "Failed", f"Error: {error}")
            raise
        with self._starts.under_way(pod.metadata.uid, container.name):
            try:
                container_id = await self._runtime.create_container(start.sandbox_id, config, start.sandbox)
            except RuntimeRequestError as error:
                self._events.warning(pod, container, "Failed", f"Error: {error}")
                raise StartError("CreateContainerError", str(error)) from None
            finally:
                await clean_up()
            self._events.normal(pod, container, "Created", "Container created")
            if isinstance(container, core_v1.Container):
                self._resizer.started(pod, container)
            try:
                await self._runtime.start_container(container_id)
            except RuntimeRequestError as error:
                self._events.warning(pod, container, "Failed", f"Error: {error}")
                raise StartError("RunContainerError", str(error)) from None
        self._events.normal(pod, container, "Started", "Container started")
        self._builder.started(pod, container, container_id, request.restarts)
        await self._post_start(start, container, container_id)

    async def _post_start(self, start: _Start, container: AnyContainer, container_id: str) -> None:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return
        try:
            await self._hooks.run(hook, start.pod, container, container_id, start.ips)
        except HookError as error:
            # What the hook printed may be secret, so the event does not tell.
            self._events.warning(start.pod, container, "FailedPostStartHook", "PostStartHook failed")
            await self._stopper.stop_container(
                start.pod, container.name, container_id, "FailedPostStartHook", KillReason.NONE, None, start.ips
            )
            raise StartError("PostStartHookError", str(error)) from None

    def _restarts(self, pod: core_v1.Pod, container: AnyContainer, state: PodState) -> int:
        latest = state.latest(container.name)
        if latest is not None:
            return restart_count(latest) + 1
        return self._builder.next_log_number(pod, container)


@dataclass(slots=True)
class _Start:
    """Where containers of a pod are started."""

    pod: core_v1.Pod
    state: PodState
    sandbox: SandboxConfig
    sandbox_id: str
    ips: tuple[str, ...]
    ending: asyncio.Event
    outcome: SyncOutcome


def _starts_anything(actions: PodActions) -> bool:
    return actions.create_sandbox or bool(actions.containers or actions.init_containers or actions.ephemeral_containers)


def _target_id(container: AnyContainer, state: PodState) -> str:
    """The id of the container whose processes an ephemeral container is to see. Raises StartError."""
    name = container.target_container_name if isinstance(container, core_v1.EphemeralContainer) else ""
    if not name:
        return ""
    target = state.latest(name)
    if target is None:
        raise StartError("CreateContainerConfigError", f'unable to find target container "{name}"')
    return target.container.id


def _wire_text(error: Exception) -> str:
    """An error as Go prints one that came over gRPC."""
    return error.rpc_text if isinstance(error, RuntimeRequestError) else str(error)
