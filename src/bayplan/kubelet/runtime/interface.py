"""What a container runtime does for a kubelet: runtime and image service of the Container Runtime Interface (runtime.v1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from bayplan.kubelet.runtime.types import (
    Container,
    ContainerConfig,
    ContainerEvent,
    ContainerStats,
    ContainerStatus,
    Credentials,
    ExecResult,
    FilesystemUsage,
    Image,
    LinuxResources,
    RuntimeStatus,
    RuntimeVersion,
    Sandbox,
    SandboxConfig,
    SandboxStatus,
)


class Runtime(Protocol):
    """A container runtime.

    Every method raises `RuntimeRequestError` or one of its subclasses: `NotFoundError`, `RuntimeTimeoutError`, `RuntimeUnavailableError`,
    `UnsupportedError`. Stopping and removing what is not there succeeds.
    """

    async def version(self) -> RuntimeVersion:
        """Which runtime this is."""

    async def status(self) -> RuntimeStatus:
        """How it is, and what it offers."""

    async def run_sandbox(self, config: SandboxConfig, runtime_handler: str = "") -> str:
        """Make a pod's namespaces and network; the sandbox's id."""

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Kill what runs in it and give back its network."""

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove it with all of its containers."""

    async def sandboxes(self, *, pod_uid: str = "") -> Sequence[Sandbox]:
        """All sandboxes (of one pod)."""

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """One sandbox with its addresses."""

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Make a container in a sandbox; its id."""

    async def start_container(self, container_id: str) -> None:
        """Start what was created."""

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Send the stop signal, and kill it when it still runs after the grace period; returns when it has ended."""

    async def remove_container(self, container_id: str) -> None:
        """Remove it, by force if it runs."""

    async def containers(self, *, pod_uid: str = "") -> Sequence[Container]:
        """All containers (of one pod), in whatever state."""

    async def container_status(self, container_id: str) -> ContainerStatus:
        """One container with how it ended."""

    async def update_container(
        self, container_id: str, resources: LinuxResources, annotations: Mapping[str, str]
    ) -> None:
        """Change the limits of a container that runs."""

    async def reopen_log(self, container_id: str) -> None:
        """Begin a new log file at the container's log path: the old one was renamed."""

    async def exec_sync(self, container_id: str, command: Sequence[str], seconds: float) -> ExecResult:
        """Run a command to its end. seconds: how long it may take, 0 for ever. Raises RuntimeTimeoutError when it took longer; it is killed then."""

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        """Where to connect to in order to run a command with its streams."""

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        """Where to connect to in order to get the streams of a container."""

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """Where to connect to in order to reach ports of a pod."""

    async def checkpoint_container(self, container_id: str, location: str, seconds: float) -> None:
        """Write a container's state to a file."""

    async def images(self) -> Sequence[Image]:
        """All images that are there."""

    async def image_status(self, image: str, *, runtime_handler: str = "") -> Image | None:
        """One image; None where it is not there."""

    async def pull_image(
        self,
        image: str,
        credentials: Credentials | None,
        sandbox: SandboxConfig | None = None,
        *,
        runtime_handler: str = "",
    ) -> str:
        """Fetch an image; the reference to give to `create_container`."""

    async def remove_image(self, image: str) -> None:
        """Remove an image with all of its names."""

    async def image_filesystems(self) -> tuple[Sequence[FilesystemUsage], Sequence[FilesystemUsage]]:
        """(file systems of images, file systems of containers)."""

    async def container_stats(self, *, pod_uid: str = "") -> Sequence[ContainerStats]:
        """Usage of all containers that run (of one pod)."""

    async def set_pod_cidr(self, pod_cidr: str) -> None:
        """Say from which range pods of this node get their addresses; commas between families."""

    async def cgroup_driver(self) -> str:
        """`systemd` or `cgroupfs`. Raises UnsupportedError where the runtime does not tell."""

    def events(self) -> AsyncIterator[ContainerEvent]:
        """What happens to containers from now on. Raises UnsupportedError on first use where the runtime does not tell."""

    async def close(self) -> None:
        """End connections."""
