"""The CPU manager and the memory manager as the topology manager sees them; with the policy `none` they give nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from bayplan.api.types import core_v1
from bayplan.kubelet.resource_managers.assignments import Assignments
from bayplan.kubelet.resource_managers.cpus.cpu_policy import StaticCpuPolicy
from bayplan.kubelet.resource_managers.cpus.cpu_set import NONE, CpuSet
from bayplan.kubelet.resource_managers.cpus.cpu_state import CpuState
from bayplan.kubelet.resource_managers.devices.device_calls import Steps
from bayplan.kubelet.resource_managers.memory_policy import StaticMemoryPolicy
from bayplan.kubelet.resource_managers.memory_state import Block, MemoryState
from bayplan.kubelet.resource_managers.requests import containers_of
from bayplan.kubelet.resource_managers.topology_hints import Hints


class _Policy(Protocol):
    def start(self) -> None:
        """Hold what an earlier kubelet has left against the machine. Raises ResourceManagerError."""

    def allocate(self, pod: core_v1.Pod, container: core_v1.Container) -> None:
        """Give a container its resources."""

    def hints(self, pod: core_v1.Pod, container: core_v1.Container) -> Hints:
        """From where they can come."""

    def pod_hints(self, pod: core_v1.Pod) -> Hints:
        """From where those of the whole pod can come."""

    def remove(self, uid: str, container: str) -> None:
        """Take them back."""

    def forget_reusable(self, uid: str) -> None:
        """The pod has been admitted or not."""


P = TypeVar("P", bound=_Policy)
S = TypeVar("S", bound=Assignments[Any])


class _Provider(Generic[P, S]):
    """A `HintProvider` over a policy that needs no plugin. policy: None to give nothing."""

    def __init__(self, policy: P | None, state: S) -> None:
        self.policy = policy
        self.state = state

    def start(self) -> None:
        """Read the checkpoint, and hold it against the machine. Raises ResourceManagerError."""
        self.state.load()
        if self.policy is not None:
            self.policy.start()

    def keep_only(self, active: Iterable[core_v1.Pod]) -> None:
        """Take back what containers of other pods had."""
        if self.policy is None:
            return
        alive = {(pod.metadata.uid, each.name) for pod in active for each in containers_of(pod)}
        held = [(uid, name) for uid, containers in self.state.assignments.items() for name in containers]
        for uid, name in held:
            if (uid, name) not in alive:
                self.policy.remove(uid, name)

    def hints(self, pod: core_v1.Pod, container: core_v1.Container) -> Hints:
        """See HintProvider."""
        return self.policy.hints(pod, container) if self.policy is not None else {}

    def pod_hints(self, pod: core_v1.Pod) -> Hints:
        """See HintProvider."""
        return self.policy.pod_hints(pod) if self.policy is not None else {}

    def allocate(self, pod: core_v1.Pod, container: core_v1.Container) -> Steps:
        """See HintProvider."""
        yield from ()
        if self.policy is not None:
            self.policy.allocate(pod, container)

    def admitted(self, uid: str) -> None:
        """The pod has been admitted or not: none of its containers comes any more."""
        if self.policy is not None:
            self.policy.forget_reusable(uid)


class CpuManager(_Provider[StaticCpuPolicy, CpuState]):
    """CPUs of containers."""

    def allocatable(self) -> CpuSet:
        """CPUs that containers may have for themselves."""
        return self.policy.allocatable() if self.policy is not None else NONE


class MemoryManager(_Provider[StaticMemoryPolicy, MemoryState]):
    """Memory and huge pages of containers."""

    def allocatable(self) -> list[Block]:
        """What containers may have, by NUMA node."""
        return self.policy.allocatable() if self.policy is not None else []

    def numa_nodes(self, uid: str, container: str) -> frozenset[int]:
        """The NUMA nodes of a container's memory; none where it may be anywhere."""
        return frozenset(node for block in self.state.get(uid, container) or () for node in block.numa_affinity)

    def starts(self, pod: core_v1.Pod, container: str) -> None:
        """A container starts: init containers before it have ended, and their memory is free for other pods. Sidecars keep theirs."""
        for earlier in pod.spec.init_containers:
            if earlier.name == container:
                break
            if earlier.restart_policy != "Always" and self.policy is not None:
                self.policy.remove(pod.metadata.uid, earlier.name)
