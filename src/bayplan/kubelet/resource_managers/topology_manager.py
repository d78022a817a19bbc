"""Admits pods whose CPUs, memory and devices can come from near to each other (pkg/kubelet/cm/topologymanager).

For each container (or for the pod as a whole, with the scope `pod`) every manager tells from which NUMA nodes its resources can come; the policy makes one
hint of all; then the managers allocate, with that hint in mind. A manager may have to ask a device plugin for that. It yields such questions, and gets the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from bayplan.api.types import core_v1
from bayplan.kubelet.resource_managers.devices.device_calls import Steps
from bayplan.kubelet.resource_managers.errors import TopologyAffinityError
from bayplan.kubelet.resource_managers.manager_metrics import CONTAINER_SCOPE, NUMA_NODE, POD_SCOPE, ManagerMetrics
from bayplan.kubelet.resource_managers.requests import containers_of
from bayplan.kubelet.resource_managers.topology_hints import Hints, TopologyHint
from bayplan.kubelet.resource_managers.topology_policy import NO_POLICY, SINGLE_NUMA_NODE, TopologyPolicy


class HintProvider(Protocol):
    """A manager of resources."""

    def hints(self, pod: core_v1.Pod, container: core_v1.Container) -> Hints:
        """From where a container's resources can come."""

    def pod_hints(self, pod: core_v1.Pod) -> Hints:
        """From where the resources of all containers of a pod can come."""

    def allocate(self, pod: core_v1.Pod, container: core_v1.Container) -> Steps:
        """Give a container its resources. Raises AllocationError."""


class TopologyManager:
    """Implements `Affinities`."""

    def __init__(
        self, policy: TopologyPolicy, scope: str = CONTAINER_SCOPE, metrics: ManagerMetrics | None = None
    ) -> None:
        self.policy = policy
        self._metrics = metrics if metrics is not None else ManagerMetrics()
        self._scope = scope
        self.providers: Sequence[HintProvider] = ()
        self._affinities: dict[str, dict[str, TopologyHint]] = {}

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        """See Affinities."""
        return self._affinities.get(pod_uid, {}).get(container, TopologyHint())

    def admit(self, pod: core_v1.Pod) -> Steps:
        """Allocate what a pod asks for. Raises AllocationError; what was allocated until then stays until it is taken back."""
        affinities = self._affinities.setdefault(pod.metadata.uid, {})
        of_pod: TopologyHint | None = None
        if self.policy.name != NO_POLICY and self._scope == POD_SCOPE:
            of_pod = self._merged([each.pod_hints(pod) for each in self.providers])
        for container in containers_of(pod):
            if self.policy.name != NO_POLICY:
                affinities[container.name] = of_pod or self._merged(
                    [each.hints(pod, container) for each in self.providers]
                )
            for provider in self.providers:
                yield from provider.allocate(pod, container)
            if self._scope == CONTAINER_SCOPE:
                self._note_alignment(aligned=True)
        if self._scope == POD_SCOPE:
            self._note_alignment(aligned=True)

    def _merged(self, hints: Sequence[Hints]) -> TopologyHint:
        hint, admitted = self.policy.merge(hints)
        if not admitted:
            self._note_alignment(aligned=False)
            raise TopologyAffinityError
        return hint

    def _note_alignment(self, *, aligned: bool) -> None:
        """Only one policy takes nothing that is not aligned, so that all it takes is."""
        if self.policy.name == SINGLE_NUMA_NODE:
            note = self._metrics.aligned if aligned else self._metrics.not_aligned
            note(self._scope, NUMA_NODE)

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget all other pods."""
        self._affinities = {uid: each for uid, each in self._affinities.items() if uid in uids}
