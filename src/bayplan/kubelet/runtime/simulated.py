"""A runtime that runs nothing: sandboxes, containers and images are records, and what they do is a table.

All time comes from the clock, so that hours of a kubelet pass in seconds of a test. It keeps the contract of real ones where a kubelet could notice: states only go
forward, stopping what is gone succeeds, a call that hangs ends at its time limit, and a restart loses calls and events but no container.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from bayplan.kubelet.runtime.behaviour import Behaviour, Command, SimulatedImage
from bayplan.kubelet.runtime.errors import (
    NotFoundError,
    RuntimeRequestError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnsupportedError,
)
from bayplan.kubelet.runtime.simulated_images import DISK_FULL, SimulatedImages
from bayplan.kubelet.runtime.simulated_state import (
    KILLED,
    NANOSECONDS,
    ContainerRecord,
    PodAddresses,
    SandboxRecord,
    changed_resources,
    finish,
    network_of,
)
from bayplan.kubelet.runtime.types import (
    Container,
    ContainerConfig,
    ContainerEvent,
    ContainerEventType,
    ContainerState,
    ContainerStats,
    ContainerStatus,
    ExecResult,
    LinuxResources,
    NamespaceMode,
    RuntimeCondition,
    RuntimeHandler,
    RuntimeStatus,
    RuntimeVersion,
    Sandbox,
    SandboxConfig,
    SandboxState,
    SandboxStatus,
)
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

_REQUEST_SECONDS = 120.0


class SimulatedRuntime(SimulatedImages):
    """A `Runtime` in memory.

    images, any_image, request_timeout: see SimulatedImages. behaviours: by `pod/container`, container name or image (as the pod names it), the
    first that is there; of a sequence the n-th start of a container takes the n-th, and the last one stays.
    """

    def __init__(
        self,
        clock: Clock,
        randomness: Randomness,
        *,
        images: Iterable[SimulatedImage] = (),
        any_image: bool = True,
        behaviours: Mapping[str, Behaviour | Sequence[Behaviour]] | None = None,
        pod_cidr: str = "10.244.0.0/24",
        tells_events: bool = True,
        request_timeout: float = _REQUEST_SECONDS,
    ) -> None:
        super().__init__(clock, images, any_image, request_timeout)
        self.behaviours = dict(behaviours or {})
        self.conditions = {"RuntimeReady": True, "NetworkReady": True}
        self._randomness = randomness
        self._tells_events = tells_events
        self._events: asyncio.Queue[ContainerEvent | RuntimeRequestError] | None = None
        self._sandboxes: dict[str, SandboxRecord] = {}
        self._containers: dict[str, ContainerRecord] = {}
        self._addresses = PodAddresses(pod_cidr)

    # What a test or a simulation does to it.

    def all_containers(self) -> list[ContainerRecord]:
        """All containers that exist, in whatever state."""
        return list(self._containers.values())

    def end_container(self, container_id: str, exit_code: int, reason: str = "", message: str = "") -> None:
        """Let a container end now, if it runs: `OOMKilled` is a reason."""
        container = self._containers[container_id]
        if container.state is ContainerState.RUNNING:
            self._end(container, exit_code, reason, message)

    def stop_answering(self) -> None:
        """Let the runtime die: calls that wait fail, new ones are refused, the events break off. Containers go on."""
        self._is_down = True
        error = RuntimeUnavailableError("connection error: desc = the simulated runtime is down")
        self._pending.fail(error)
        if self._events is not None:
            self._events.put_nowait(error)

    def start_answering(self) -> None:
        """Let the runtime be there again. What happened in between was not told."""
        self._is_down = False

    def reboot(self) -> None:
        """Let all containers end and all sandboxes lose their network, as after a reboot of the node."""
        for container in self._containers.values():
            if container.state is ContainerState.RUNNING:
                self._end(container, 255, "Unknown")
        for sandbox in self._sandboxes.values():
            self._stop(sandbox)

    def _id(self) -> str:
        return (self._randomness.uuid4() + self._randomness.uuid4()).replace("-", "")

    def _tell(self, kind: ContainerEventType, object_id: str, sandbox: SandboxRecord) -> None:
        if self._events is not None and not self.faults.loses_events and not self._is_down:
            self._events.put_nowait(ContainerEvent(kind, object_id, self._now(), sandbox.config.uid))

    # The runtime.

    async def version(self) -> RuntimeVersion:
        """See Runtime."""
        await self._begin("version")
        await self._finish("version")
        return RuntimeVersion("simulated", "1.0.0")

    async def status(self) -> RuntimeStatus:
        """See Runtime."""
        await self._begin("status")
        await self._finish("status")
        return RuntimeStatus(
            tuple(RuntimeCondition(kind, value) for kind, value in self.conditions.items()), (RuntimeHandler(""),), True
        )

    async def run_sandbox(self, config: SandboxConfig, runtime_handler: str = "") -> str:
        """See Runtime."""
        await self._begin("run_sandbox", self._seconds)
        if self.faults.disk_full:
            raise RuntimeRequestError(f"failed to create containerd container: {DISK_FULL}")
        ip = "" if network_of(config) is NamespaceMode.NODE else self._addresses.take()
        sandbox = SandboxRecord(self._id(), config, self._now(), runtime_handler, ip)
        self._sandboxes[sandbox.id] = sandbox
        self._tell(ContainerEventType.CREATED, sandbox.id, sandbox)
        self._tell(ContainerEventType.STARTED, sandbox.id, sandbox)
        await self._finish("run_sandbox")
        return sandbox.id

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """See Runtime."""
        await self._begin("stop_sandbox")
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None:
            for container in self._containers_of(sandbox_id):
                if container.state is ContainerState.RUNNING:
                    self._end(container, KILLED)
            self._stop(sandbox)
        await self._finish("stop_sandbox")

    def _stop(self, sandbox: SandboxRecord) -> None:
        if sandbox.state is SandboxState.READY:
            sandbox.state = SandboxState.NOT_READY
            if sandbox.ip:
                self._addresses.release(sandbox.ip)
            self._tell(ContainerEventType.STOPPED, sandbox.id, sandbox)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """See Runtime."""
        await self._begin("remove_sandbox")
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None:
            for container in self._containers_of(sandbox_id):
                self._remove(container)
            self._stop(sandbox)
            del self._sandboxes[sandbox_id]
            self._tell(ContainerEventType.DELETED, sandbox_id, sandbox)
        await self._finish("remove_sandbox")

    async def sandboxes(self, *, pod_uid: str = "") -> Sequence[Sandbox]:
        """See Runtime."""
        await self._begin("sandboxes")
        found = [each.shown() for each in self._sandboxes.values() if pod_uid in ("", each.config.uid)]
        await self._finish("sandboxes")
        return found

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """See Runtime."""
        await self._begin("sandbox_status")
        status = self._sandbox(sandbox_id).status()
        await self._finish("sandbox_status")
        return status

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """See Runtime."""
        await self._begin("create_container")
        record = self._sandbox(sandbox_id)
        if record.state is not SandboxState.READY:
            raise RuntimeRequestError(f"sandbox container {sandbox_id!r} is not running")
        image = self._image(config.image)
        if image is None:
            raise NotFoundError(
                f"failed to get image from containerd {config.image!r}: image {config.image!r}: not found"
            )
        if self.faults.disk_full:
            raise RuntimeRequestError(f"failed to create containerd container: {DISK_FULL}")
        behaviour = self._behaviour(config, sandbox)
        container = ContainerRecord(self._id(), record, config, behaviour, image.id, self._now(), config.resources)
        self._containers[container.id] = container
        self._tell(ContainerEventType.CREATED, container.id, record)
        await self._finish("create_container")
        return container.id

    def _behaviour(self, config: ContainerConfig, sandbox: SandboxConfig) -> Behaviour:
        for key in (f"{sandbox.name}/{config.name}", config.name, config.user_image):
            found = self.behaviours.get(key)
            if isinstance(found, Behaviour):
                return found
            if found:
                return found[min(config.attempt, len(found) - 1)]
        return Behaviour()

    async def start_container(self, container_id: str) -> None:
        """See Runtime."""
        await self._begin("start_container")
        container = self._container(container_id)
        if container.state is not ContainerState.CREATED:
            raise RuntimeRequestError(f"container is in {container.state.value} state")
        behaviour = container.behaviour
        if behaviour.start_seconds:
            await self._pending.wait(behaviour.start_seconds)
            if self._container(container_id).sandbox.state is not SandboxState.READY:
                raise RuntimeRequestError(f"sandbox container {container.sandbox.id!r} is not running")
        error = behaviour.start_error or self._missing_program(container.config.image, container.config.command)
        if error:
            message = f"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: {error}"
            self._end(container, 128, "StartError", message)
            raise RuntimeRequestError(message)
        container.state, container.started_at = ContainerState.RUNNING, self._now()
        self._tell(ContainerEventType.STARTED, container_id, container.sandbox)
        if not math.isinf(behaviour.run_seconds):
            container.end = self._clock.call_later(
                behaviour.run_seconds, self._end, container, behaviour.exit_code, behaviour.reason, behaviour.message
            )
        await self._finish("start_container")

    def _missing_program(self, image: str, command: Sequence[str]) -> str:
        """Why a command cannot be run in an image; "" if it can. Images know their own command."""
        found = self._image(image)
        name = next((tag for tag in found.tags if tag in self.registry), "") if found else ""
        programs = self.registry[name].programs if name else None
        if not command or programs is None or command[0] in programs:
            return ""
        return f'unable to start container process: exec: "{command[0]}": executable file not found in $PATH: unknown'

    def _end(self, container: ContainerRecord, exit_code: int, reason: str = "", message: str = "") -> None:
        if container.end is not None:
            container.end.cancel()
            container.end = None
        container.state, container.finished_at = ContainerState.EXITED, self._now()
        container.exit_code, container.message = exit_code, message
        container.reason = reason or ("Error" if exit_code else "Completed")
        for waiting in container.stopping:
            finish(waiting)
        container.stopping.clear()
        self._tell(ContainerEventType.STOPPED, container.id, container.sandbox)

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """See Runtime."""
        await self._begin("stop_container", grace_seconds)
        container = self._containers.get(container_id)
        if container is not None and container.state is ContainerState.RUNNING:
            seconds, code = container.behaviour.stop_seconds, container.behaviour.stop_exit_code
            if grace_seconds == 0 or seconds > grace_seconds:
                seconds, code = grace_seconds, KILLED
            self._clock.call_later(seconds, self._end_if_running, container, code)
            await self._pending.until(container.stopping)
        await self._finish("stop_container")

    def _end_if_running(self, container: ContainerRecord, exit_code: int) -> None:
        if container.state is ContainerState.RUNNING:
            self._end(container, exit_code)

    async def remove_container(self, container_id: str) -> None:
        """See Runtime."""
        await self._begin("remove_container")
        container = self._containers.get(container_id)
        if container is not None:
            self._remove(container)
        await self._finish("remove_container")

    def _remove(self, container: ContainerRecord) -> None:
        if container.state is ContainerState.RUNNING:
            self._end(container, KILLED)
        del self._containers[container.id]
        self._tell(ContainerEventType.DELETED, container.id, container.sandbox)

    async def containers(self, *, pod_uid: str = "") -> Sequence[Container]:
        """See Runtime."""
        await self._begin("containers")
        found = [each.shown() for each in self._containers.values() if pod_uid in ("", each.sandbox.config.uid)]
        await self._finish("containers")
        return found

    async def container_status(self, container_id: str) -> ContainerStatus:
        """See Runtime."""
        await self._begin("container_status")
        status = self._container(container_id).status()
        await self._finish("container_status")
        return status

    async def update_container(
        self, container_id: str, resources: LinuxResources, annotations: Mapping[str, str]
    ) -> None:
        """See Runtime."""
        await self._begin("update_container")
        container = self._container(container_id)
        container.resources = changed_resources(container.resources, resources)
        await self._finish("update_container")

    async def reopen_log(self, container_id: str) -> None:
        """See Runtime. There are no logs."""
        await self._begin("reopen_log")
        self._running(container_id)
        await self._finish("reopen_log")

    async def exec_sync(self, container_id: str, command: Sequence[str], seconds: float) -> ExecResult:
        """See Runtime."""
        await self._begin("exec_sync", seconds)
        container = self._running(container_id)
        missing = self._missing_program(container.config.image, command)
        if missing:
            raise RuntimeRequestError(f"failed to exec in container: OCI runtime exec failed: exec failed: {missing}")
        running = (self._now() - container.started_at) / NANOSECONDS
        result: Command = container.behaviour.command(command, running)
        if seconds and result.seconds > seconds:
            await self._pending.wait(seconds, RuntimeTimeoutError(f"timeout {seconds:g}s exceeded"))
        if result.seconds:
            await self._pending.wait(result.seconds)
        await self._finish("exec_sync")
        return ExecResult(result.stdout, result.stderr, result.exit_code)

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        """See Runtime. Raises UnsupportedError: there are no streams."""
        raise UnsupportedError("simulated containers have no streams")

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        """See Runtime. Raises UnsupportedError: there are no streams."""
        raise UnsupportedError("simulated containers have no streams")

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """See Runtime. Raises UnsupportedError: nothing listens."""
        raise UnsupportedError("simulated pods have no network")

    async def checkpoint_container(self, container_id: str, location: str, seconds: float) -> None:
        """See Runtime. Raises UnsupportedError: there is no process."""
        raise UnsupportedError("simulated containers have no state to write")

    async def container_stats(self, *, pod_uid: str = "") -> Sequence[ContainerStats]:
        """See Runtime."""
        await self._begin("container_stats")
        await self._finish("container_stats")
        now = self._now()
        return [
            each.stats(now)
            for each in self._containers.values()
            if each.state is ContainerState.RUNNING and pod_uid in ("", each.sandbox.config.uid)
        ]

    async def set_pod_cidr(self, pod_cidr: str) -> None:
        """See Runtime. Of several families the first counts."""
        await self._begin("set_pod_cidr")
        self._addresses = PodAddresses(pod_cidr.partition(",")[0])
        await self._finish("set_pod_cidr")

    async def cgroup_driver(self) -> str:
        """See Runtime."""
        await self._begin("cgroup_driver")
        return "cgroupfs"

    async def events(self) -> AsyncIterator[ContainerEvent]:
        """See Runtime. Raises RuntimeUnavailableError when the runtime goes."""
        if not self._tells_events:
            raise UnsupportedError("the runtime does not tell events")
        await self._begin("events")
        if self._events is not None:
            raise RuntimeError("events are read already, and each is given to one reader only")
        self._events = asyncio.Queue()
        try:
            while True:
                event = await self._events.get()
                if isinstance(event, RuntimeRequestError):
                    raise event
                yield event
        finally:
            self._events = None

    async def close(self) -> None:
        """See Runtime."""
        self._pending.fail(RuntimeUnavailableError("the connection was closed"))

    def _containers_of(self, sandbox_id: str) -> list[ContainerRecord]:
        return [each for each in self._containers.values() if each.sandbox.id == sandbox_id]

    def _sandbox(self, sandbox_id: str) -> SandboxRecord:
        if sandbox_id not in self._sandboxes:
            raise NotFoundError(f'an error occurred when try to find sandbox "{sandbox_id}": not found')
        return self._sandboxes[sandbox_id]

    def _container(self, container_id: str) -> ContainerRecord:
        if container_id not in self._containers:
            raise NotFoundError(f'an error occurred when try to find container "{container_id}": not found')
        return self._containers[container_id]

    def _running(self, container_id: str) -> ContainerRecord:
        container = self._container(container_id)
        if container.state is not ContainerState.RUNNING:
            raise RuntimeRequestError(f"container is in {container.state.value} state")
        return container
