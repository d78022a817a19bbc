"""What a container runtime has of one pod at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bayplan.kubelet.runtime.types import ContainerState, ContainerStatus, SandboxState, SandboxStatus


@dataclass(frozen=True, slots=True)
class PodState:
    """Sandboxes and containers of a pod, each newest first.

    `ips` are the addresses of the newest sandbox, if that is ready; `seen_at` is the Unix time at which the runtime was asked.
    """

    uid: str
    name: str = ""
    namespace: str = ""
    sandboxes: tuple[SandboxStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    ips: tuple[str, ...] = ()
    seen_at: float = 0.0

    def latest(self, name: str) -> ContainerStatus | None:
        """The newest container of this name."""
        return next((each for each in self.containers if each.container.name == name), None)

    @property
    def active(self) -> tuple[ContainerStatus, ...]:
        """Containers of the newest sandbox, if that is ready."""
        if not self.sandboxes or self.sandboxes[0].sandbox.state is not SandboxState.READY:
            return ()
        sandbox_id = self.sandboxes[0].sandbox.id
        return tuple(each for each in self.containers if each.container.sandbox_id == sandbox_id)

    @property
    def running(self) -> tuple[ContainerStatus, ...]:
        """Containers that run, or may run for all that is known."""
        states = (ContainerState.RUNNING, ContainerState.UNKNOWN)
        return tuple(each for each in self.containers if each.container.state in states)


def pod_state(
    uid: str,
    name: str,
    namespace: str,
    sandboxes: Iterable[SandboxStatus],
    containers: Iterable[ContainerStatus],
    *,
    seen_at: float,
) -> PodState:
    """Put together what a runtime says of one pod, in whatever order it says it."""
    newest = sorted(sandboxes, key=lambda each: each.sandbox.created_at, reverse=True)
    ready = bool(newest) and newest[0].sandbox.state is SandboxState.READY
    return PodState(
        uid=uid,
        name=name,
        namespace=namespace,
        sandboxes=tuple(newest),
        containers=tuple(sorted(containers, key=lambda each: each.container.created_at, reverse=True)),
        ips=newest[0].ips if ready else (),
        seen_at=seen_at,
    )
