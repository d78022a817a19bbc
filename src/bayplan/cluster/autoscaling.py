"""What the cluster autoscaler is given: groups of simulated nodes, and the scheduler's judgement on a copy of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import ApiError
from bayplan.api.nodes import GROUP_LABEL
from bayplan.api.types import apps_v1, core_v1, policy_v1, resource_v1, storage_v1
from bayplan.client import Client
from bayplan.client.errors import ClientError
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import MakeSandbox, NodeGroup, NodeGroupError, Sandbox
from bayplan.kubelet.simulator.nodes.groups import (
    NodeGroupSettings,
    make_group_node,
    template_node,
)
from bayplan.kubelet.simulator.nodes.objects import free_network
from bayplan.scheduler.library import Config, Planner
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

SANDBOX_KINDS: Mapping[str, type[Any]] = {
    "Service": core_v1.Service,
    "ReplicationController": core_v1.ReplicationController,
    "ReplicaSet": apps_v1.ReplicaSet,
    "StatefulSet": apps_v1.StatefulSet,
    "Namespace": core_v1.Namespace,
    "PersistentVolume": core_v1.PersistentVolume,
    "PersistentVolumeClaim": core_v1.PersistentVolumeClaim,
    "StorageClass": storage_v1.StorageClass,
    "CSINode": storage_v1.CSINode,
    "CSIDriver": storage_v1.CSIDriver,
    "PodDisruptionBudget": policy_v1.PodDisruptionBudget,
    "DeviceClass": resource_v1.DeviceClass,
    "ResourceClaim": resource_v1.ResourceClaim,
    "ResourceSlice": resource_v1.ResourceSlice,
}
"""What bears on scheduling besides nodes and pods."""


class SimulatedNodeGroups:
    """A `NodeProvider` whose nodes the node simulator plays."""

    def __init__(
        self, client: Client, groups: Sequence[NodeGroupSettings], *, clock: Clock, randomness: Randomness
    ) -> None:
        self._client = client
        self._settings = {one.name: one for one in groups}
        self._clock = clock
        self._randomness = randomness
        self.groups: Sequence[NodeGroup] = tuple(
            NodeGroup(one.name, one.minimum, one.maximum, template_node(one)) for one in groups
        )

    async def grow(self, group: str, count: int) -> Sequence[str]:
        """See NodeProvider."""
        settings, made = self._settings[group], []
        try:
            nodes = (await self._client.list(core_v1.Node)).items
            used = {one.spec.pod_cidr for one in nodes}
            first = sum(one.metadata.labels.get(GROUP_LABEL) == group for one in nodes)
            for number in range(first, first + count):
                network = free_network(used, len(used))
                used.add(network)
                name = f"{group}-{self._randomness.suffix(5)}"
                await self._client.create(make_group_node(settings, name, number, network, self._clock.now()))
                made.append(name)
        except (ApiError, ClientError, LookupError) as error:
            if not made:
                raise NodeGroupError(str(error)) from error
        return made

    async def remove(self, node: core_v1.Node) -> None:
        """See NodeProvider."""
        try:
            await self._client.delete(core_v1.Node, node.metadata.name, uid=node.metadata.uid)
        except ApiError as error:
            if error.code not in (404, 409):
                raise NodeGroupError(error.message) from error
        except ClientError as error:
            raise NodeGroupError(str(error)) from error


class PlannerSandbox:
    """A `Sandbox` over the scheduler's planner."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def add_node(self, node: core_v1.Node) -> None:
        """See Sandbox."""
        self._planner.snapshot.put_node(node)

    def remove_node(self, name: str) -> None:
        """See Sandbox."""
        self._planner.snapshot.remove_node(name)

    def add_pod(self, pod: core_v1.Pod) -> None:
        """See Sandbox."""
        self._planner.snapshot.put_pod(pod)

    def remove_pod(self, pod: core_v1.Pod) -> None:
        """See Sandbox."""
        self._planner.remove(f"{pod.metadata.namespace}/{pod.metadata.name}")

    def place(self, pod: core_v1.Pod) -> str:
        """See Sandbox. A pod that could only preempt others fits nowhere."""
        info = self._info(pod)
        return self._planner.schedule(info).node or ""

    def refusal(self, pod: core_v1.Pod, node: str) -> tuple[str, ...]:
        """See Sandbox."""
        decision = self._planner.decide(self._info(pod), full=True)
        if decision.rejection is not None:
            return decision.rejection[1].reasons
        try:
            verdict = decision.verdict(node)
        except KeyError:
            return ()
        return verdict.reasons if verdict is not None else ()

    def _info(self, pod: core_v1.Pod) -> PodInfo:
        """A pod that must not preempt: who comes asks for a node, not for the place of others."""
        if pod.spec.preemption_policy != "Never":
            pod = replace(pod, spec=replace(pod.spec, preemption_policy="Never"))
        return self._planner.pod(pod)


def sandbox_maker(config: Config = None) -> MakeSandbox:
    """How sandboxes are made for a scheduler with this configuration."""

    def make(
        nodes: Iterable[core_v1.Node], pods: Iterable[core_v1.Pod], others: Mapping[str, Iterable[Any]]
    ) -> Sandbox:
        planner = Planner(config=config)
        for kind, objects in others.items():
            for obj in objects:
                planner.add(kind, obj)
        for node in nodes:
            planner.add("Node", node)
        for pod in pods:
            planner.add("Pod", pod)
        return PlannerSandbox(planner)

    return make
