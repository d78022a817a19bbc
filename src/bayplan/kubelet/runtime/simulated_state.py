"""What a simulated runtime remembers: sandboxes and containers as records, and calls that wait."""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections import deque
from dataclasses import dataclass, field, fields, replace

from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.types import (
    Container,
    ContainerConfig,
    ContainerState,
    ContainerStats,
    ContainerStatus,
    FilesystemUsage,
    LinuxResources,
    NamespaceMode,
    Sandbox,
    SandboxConfig,
    SandboxState,
    SandboxStatus,
)
from bayplan.support.clock import Clock, Timer

NANOSECONDS = 1_000_000_000
KILLED = 137
"""Exit code of a process that got SIGKILL."""


@dataclass(slots=True)
class SandboxRecord:
    """A sandbox. `ip` is empty in the node's network."""

    id: str
    config: SandboxConfig
    created_at: int
    handler: str
    ip: str
    state: SandboxState = SandboxState.READY

    def shown(self) -> Sandbox:
        """It as in a list."""
        config = self.config
        return Sandbox(
            self.id,
            config.name,
            config.namespace,
            config.uid,
            config.attempt,
            self.state,
            self.created_at,
            config.labels,
            config.annotations,
            self.handler,
        )

    def status(self) -> SandboxStatus:
        """It with its addresses, which a stopped one no longer has."""
        namespaces = self.config.security.namespaces
        has_address = self.ip and self.state is SandboxState.READY
        return SandboxStatus(self.shown(), (self.ip,) if has_address else (), namespaces.network, namespaces.users)


@dataclass(slots=True)
class ContainerRecord:
    """A container. Times are nanoseconds, 0 where something has not happened."""

    id: str
    sandbox: SandboxRecord
    config: ContainerConfig
    behaviour: Behaviour
    image_id: str
    created_at: int
    resources: LinuxResources
    state: ContainerState = ContainerState.CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    end: Timer | None = None
    """What ends it by itself."""
    stopping: list[asyncio.Future[None]] = field(default_factory=list)
    """Calls that wait for its end."""

    def shown(self) -> Container:
        """It as in a list."""
        config = self.config
        return Container(
            self.id,
            self.sandbox.id,
            config.name,
            config.attempt,
            config.image,
            self.image_id,
            self.state,
            self.created_at,
            self.image_id,
            config.labels,
            config.annotations,
        )

    def status(self) -> ContainerStatus:
        """It with how it ended."""
        return ContainerStatus(
            replace(self.shown(), sandbox_id=""),
            self.started_at,
            self.finished_at,
            self.exit_code,
            self.reason,
            self.message,
            self.config.user_image,
            self.image_id,
            f"{self.sandbox.config.log_directory}/{self.config.log_path}",
            self.config.mounts,
            self.resources,
            stop_signal=self.config.stop_signal,
        )

    def stats(self, now: int) -> ContainerStats:
        """What it uses."""
        memory = self.behaviour.memory_bytes
        return ContainerStats(
            self.id,
            self.config.name,
            self.config.labels,
            now,
            cpu_nanoseconds=int(self.behaviour.cpu_cores * (now - self.started_at)),
            memory_working_set=memory,
            memory_usage=memory,
            memory_rss=memory,
            page_faults=0,
            major_page_faults=0,
            writable_layer=FilesystemUsage(now, "/simulated", 0),
        )


class PendingCalls:
    """Calls that wait for time to pass; all of them can be made to fail at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[asyncio.Future[None], None] = {}

    async def wait(self, seconds: float, error: RuntimeRequestError | None = None) -> None:
        """Return after `seconds` (never, if infinite), or raise the error then."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = None if math.isinf(seconds) else self._clock.call_later(seconds, finish, future, error)
        self._waiting[future] = None
        try:
            await future
        finally:
            del self._waiting[future]
            if timer is not None:
                timer.cancel()

    async def until(self, waiters: list[asyncio.Future[None]]) -> None:
        """Return when whoever has `waiters` sets the result of what is added to it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(future)
        self._waiting[future] = None
        try:
            await future
        finally:
            del self._waiting[future]

    def fail(self, error: RuntimeRequestError) -> None:
        """Make every waiting call raise the error."""
        for future in list(self._waiting):
            finish(future, error)


def finish(future: asyncio.Future[None], error: RuntimeRequestError | None = None) -> None:
    """Let a waiting call return, or raise the error, unless it has ended already."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class PodAddresses:
    """Addresses of a range, the longest free ones first; network, gateway and broadcast address are never given out."""

    def __init__(self, pod_cidr: str) -> None:
        network = ipaddress.ip_network(pod_cidr)
        self._next, self._last = int(network[2]), int(network[-2])
        self._free: deque[str] = deque()

    def take(self) -> str:
        """An address. Raises RuntimeRequestError if none is left."""
        if self._next <= self._last:
            self._next += 1
            return str(ipaddress.ip_address(self._next - 1))
        if not self._free:
            raise RuntimeRequestError("failed to setup network for sandbox: no IP addresses available in range set")
        return self._free.popleft()

    def release(self, address: str) -> None:
        """Give an address back."""
        self._free.append(address)


def changed_resources(has: LinuxResources, wanted: LinuxResources) -> LinuxResources:
    """Limits after an update: what it leaves out stays, as containerd has it."""
    given = {each.name: getattr(wanted, each.name) for each in fields(wanted)}
    return replace(has, **{name: value for name, value in given.items() if value})


def network_of(config: SandboxConfig) -> NamespaceMode:
    """Whose network a sandbox has."""
    return config.security.namespaces.network
