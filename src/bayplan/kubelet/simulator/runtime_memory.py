"""What the simulated runtime has of a pod. It remembers nothing itself: all is read from the pod's status, so that a restart of the simulator changes nothing.

A status names the containers that run or have ended, their images, attempts and times, in whole seconds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.field_values import every_container
from bayplan.kubelet.core.containers.states import restart_count
from bayplan.kubelet.core.phase import RESTARTING_ALL
from bayplan.kubelet.core.plan import hash_of
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.runtime.labels import CONTAINER_HASH, RESTART_COUNT
from bayplan.kubelet.runtime.types import (
    Container,
    ContainerState,
    ContainerStatus,
    NamespaceMode,
    Sandbox,
    SandboxState,
    SandboxStatus,
)
from bayplan.kubelet.simulator.nodes.images import image_of, is_same_image
from bayplan.support.timestamps import parse_rfc3339

RUNTIME = "bayplan"
SANDBOX_CONDITION = "PodReadyToStartContainers"
_NANOSECONDS = 10**9


@dataclass(slots=True)
class RuntimePod:
    """A pod in the simulated runtime while one step is worked out."""

    pod: core_v1.Pod
    sandbox: SandboxStatus | None = None
    newest: dict[str, ContainerStatus] = field(default_factory=dict)
    """The last container of each name."""
    older: dict[str, ContainerStatus] = field(default_factory=dict)
    """The container before that, where it ended in this step."""
    counted: dict[str, int] = field(default_factory=dict)
    """Restarts of containers that have been removed."""
    is_stopped: bool = False
    """Whether the sandbox has been stopped; its addresses are still known."""

    def state(self, now: float) -> PodState:
        """As a kubelet asks a runtime."""
        metadata = self.pod.metadata
        return PodState(
            uid=metadata.uid,
            name=metadata.name,
            namespace=metadata.namespace,
            sandboxes=(self.sandbox,) if self.sandbox is not None and not self.is_stopped else (),
            containers=(*self.newest.values(), *self.older.values()),
            ips=self.sandbox.ips if self.sandbox is not None else (),
            seen_at=now,
        )

    def make_sandbox(self, ips: tuple[str, ...]) -> None:
        """The pod has a sandbox from now on."""
        self.sandbox = sandbox_of(self.pod, ips)

    def running(self, name: str) -> ContainerStatus | None:
        """The container of this name, if it runs."""
        found = self.newest.get(name)
        return found if found is not None and found.container.state is ContainerState.RUNNING else None

    def start(self, container: AnyContainer, now: float) -> None:
        """Make a container and let it run."""
        before = self.newest.get(container.name)
        restarts = restart_count(before) + 1 if before is not None else self.counted.get(container.name, 0)
        if before is not None:
            self.older[container.name] = before
        image_id = image_of(container.image).image_id
        self.newest[container.name] = made_container(
            container.name,
            container_id(self.pod.metadata.uid, container.name, restarts),
            container.image,
            image_id,
            restarts,
            started_at=now,
            sandbox_id=self.pod.metadata.uid,
        )

    def end(self, name: str, code: int, reason: str, now: float, message: str = "") -> None:
        """A container that runs has ended."""
        one = self.newest[name]
        self.newest[name] = made_container(
            name,
            one.container.id,
            one.image,
            one.image_ref,
            restart_count(one),
            started_at=one.started_at / _NANOSECONDS,
            sandbox_id=self.pod.metadata.uid,
            end=End(now, code, reason or ("Completed" if code == 0 else "Error"), message),
        )

    def remove(self, name: str) -> None:
        """A container is not there any more."""
        self.counted[name] = restart_count(self.newest.pop(name)) + 1
        self.older.pop(name, None)


def container_id(uid: str, name: str, restarts: int) -> str:
    """The id of a container, the same whenever it is worked out."""
    return hashlib.blake2b(f"{uid}/{name}/{restarts}".encode(), digest_size=32).hexdigest()


def sandbox_of(pod: core_v1.Pod, ips: tuple[str, ...]) -> SandboxStatus:
    """The sandbox of a pod, with its addresses in the network of pods."""
    metadata = pod.metadata
    sandbox = Sandbox(metadata.uid, metadata.name, metadata.namespace, metadata.uid, 0, SandboxState.READY, 0)
    if pod.spec.host_network:
        return SandboxStatus(sandbox, (), NamespaceMode.NODE)
    return SandboxStatus(sandbox, ips)


@dataclass(frozen=True, slots=True)
class End:
    """How a container has ended."""

    at: float
    """Unix time; 0 if it is not known."""
    code: int
    reason: str
    message: str = ""


def made_container(
    name: str,
    identity: str,
    image: str,
    image_id: str,
    restarts: int,
    *,
    started_at: float,
    sandbox_id: str,
    end: End | None = None,
    made_of: str = "",
) -> ContainerStatus:
    """A container. started_at: Unix seconds. end: None if it runs. made_of: what the spec called its image, where the runtime shows another name."""
    started = int(started_at * _NANOSECONDS)
    container = Container(
        id=identity,
        sandbox_id=sandbox_id,
        name=name,
        attempt=restarts,
        image=image,
        image_ref=image_id,
        state=ContainerState.RUNNING if end is None else ContainerState.EXITED,
        created_at=started,
        annotations={RESTART_COUNT: str(restarts), CONTAINER_HASH: hash_of(name, made_of or image)},
    )
    if end is None:
        return ContainerStatus(container, started_at=started, image=image, image_ref=image_id)
    return ContainerStatus(
        container,
        started_at=started,
        finished_at=int(end.at * _NANOSECONDS),
        exit_code=end.code,
        reason=end.reason,
        message=end.message,
        image=image,
        image_ref=image_id,
    )


def remembered(pod: core_v1.Pod, pod_ip: str) -> RuntimePod:
    """What the runtime has of a pod, as its status says. pod_ip: the pod's address, should the status not say."""
    status, spec, found = pod.status, pod.spec, RuntimePod(pod)
    images = {one.name: one.image for one in every_container(spec)}
    for shown in (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses):
        for one in shown:
            made = _container(pod, one, images.get(one.name, one.image))
            if made is not None:
                found.newest[one.name] = made
            elif one.restart_count:
                found.counted[one.name] = one.restart_count
    has_sandbox = bool(found.newest) or any(
        one.type == SANDBOX_CONDITION and one.status == "True" for one in status.conditions
    )
    if has_sandbox:
        found.make_sandbox(tuple(one.ip for one in status.pod_ips) or (status.pod_ip or pod_ip,))
    return found


def _container(pod: core_v1.Pod, shown: core_v1.ContainerStatus, wanted: str) -> ContainerStatus | None:
    """The container that a status is about; None if it has not been made, or has been removed. wanted: the image that the spec asks for now."""
    running, ended = shown.state.running, shown.state.terminated
    if running is None and ended is None:
        waiting = shown.state.waiting
        if waiting is not None and waiting.reason == RESTARTING_ALL:
            return None
        ended = shown.last_state.terminated
    if running is not None:
        started_at, end, full_id = running.started_at, None, shown.container_id
    elif ended is not None:
        started_at, full_id = ended.started_at, ended.container_id or shown.container_id
        end = End(_seconds(ended.finished_at), ended.exit_code, ended.reason, ended.message)
    else:
        return None
    return made_container(
        shown.name,
        full_id.partition("://")[2] or container_id(pod.metadata.uid, shown.name, shown.restart_count),
        shown.image,
        shown.image_id,
        shown.restart_count,
        started_at=_seconds(started_at),
        sandbox_id=pod.metadata.uid,
        end=end,
        made_of=wanted if is_same_image(shown.image, wanted) else "",
    )


def _seconds(time: str | None) -> float:
    return parse_rfc3339(time) if time else 0.0
