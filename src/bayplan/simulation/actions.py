"""What can be done to a virtual cluster to see what happens: the answers of `bayplan simulate` begin here.

Each action is what an administrator would do, through the API: a drain evicts, respects budgets and tries again; a node that
is deleted takes its pods with it; a zone that fails falls silent and is noticed as late as a real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec.structs import replace

from bayplan.api.errors import ApiError
from bayplan.api.nodes import SIMULATED
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.profiles import MIRROR
from bayplan.client.client import MERGE_PATCH
from bayplan.cluster.manifests.apply import apply_manifests, in_order, nothing_served
from bayplan.cluster.manifests.reading import ManifestError
from bayplan.controllers.base import controller_of
from bayplan.descheduler.errors import PolicyError
from bayplan.descheduler.policy import DeschedulerPolicy
from bayplan.descheduler.service import DeschedulerService
from bayplan.descheduler.settings import DeschedulerSettings
from bayplan.kubelet.simulator.nodes.objects import SILENT
from bayplan.simulation.snapshots.planner import HOST_LABEL, ZONE_LABEL, NodeShape
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness

DRAIN_PATIENCE: Final = 3600.0
"""Seconds after which a drain gives up."""
_EVICT_AGAIN: Final = 5.0
"""Seconds between two tries to evict a pod, as kubectl waits."""
_READY_WITHIN: Final = 120.0
_REPLACED_WITHIN: Final = 5.0
"""Seconds without a change after which workloads have replaced all their pods."""
_SCHEDULER: Final = "scheduler"
_FORBIDDEN: Final = 403


_UNTIL_NOTICED: Final = 60.0
_USUAL_TOLERATION: Final = 300.0
"""Seconds that pods stay on nodes that are not ready, unless they say otherwise."""


class ActionError(Exception):
    """An action is impossible, whatever the cluster does: it names what is not there."""


class Action(Protocol):
    """Something to be done."""

    @property
    def takes(self) -> float:
        """Seconds within which nothing may happen though something is going to: clusters wait and see."""

    def describe(self) -> str:
        """In a few words, for a report."""

    async def run(self, cluster: VirtualCluster) -> list[str]:
        """Do it. Returns what did not work, one sentence each. Raises ActionError."""


class _Prompt:
    """What shows at once."""

    __slots__ = ()
    takes = 0.0


@dataclass(frozen=True, slots=True)
class Apply(_Prompt):
    """Create or update objects. What the cluster forbids, such as a pod beyond a quota, is a problem; the rest is applied all the same.
    Objects of custom kinds are left out and counted in the cluster's `unserved`; they are an error if there are no others."""

    objects: tuple[tuple[Path, dict[str, Any]], ...]

    def describe(self) -> str:
        return f"apply {len(self.objects)} object{'s' * (len(self.objects) != 1)}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        namespaces = {one.metadata.name for one in (await cluster.client.list(core_v1.Namespace)).items}
        described = [(obj["kind"], obj.get("metadata") or {}) for _, obj in self.objects]
        made = {metadata.get("name") for kind, metadata in described if kind == "Namespace"}
        needed = dict.fromkeys(metadata.get("namespace") or "default" for _, metadata in described)
        for name in needed:
            if name not in namespaces and name not in made:
                await cluster.client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name=name)))
        await cluster.eventually(lambda: _accounts_are_there(cluster, needed))
        problems = []
        unserved = None if nothing_served(cluster.client, self.objects) else cluster.unserved
        for file, obj in in_order(self.objects):
            try:
                await apply_manifests(cluster.client, [(file, obj)], unserved)
            except ManifestError as error:
                if not (isinstance(error.__cause__, ApiError) and error.__cause__.code == _FORBIDDEN):
                    raise
                problems.append(str(error))
            else:
                await cluster.eventually(partial(_is_in_force, cluster, obj))
        return problems


async def _is_in_force(cluster: VirtualCluster, obj: Mapping[str, Any]) -> bool:
    """Whether what was applied has its effect: a quota has, once somebody has counted."""
    if obj["kind"] != "ResourceQuota":
        return True
    metadata = obj["metadata"]
    quota = await cluster.client.get(core_v1.ResourceQuota, metadata["name"], metadata.get("namespace") or "default")
    return quota.status.hard == quota.spec.hard


async def _accounts_are_there(cluster: VirtualCluster, namespaces: Iterable[str]) -> bool:
    for name in namespaces:
        await cluster.client.get(core_v1.ServiceAccount, "default", name)
    return True


@dataclass(frozen=True, slots=True)
class Cordon(_Prompt):
    """Let a node take no further pods."""

    node: str

    def describe(self) -> str:
        return f"cordon {self.node}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        await _patch_node(cluster, self.node, {"spec": {"unschedulable": True}})
        return []


@dataclass(frozen=True, slots=True)
class Taint:
    """Give a node a taint."""

    node: str
    taint: core_v1.Taint

    @property
    def takes(self) -> float:
        return _USUAL_TOLERATION + _UNTIL_NOTICED

    def describe(self) -> str:
        value = f"={self.taint.value}" if self.taint.value else ""
        return f"taint {self.node} {self.taint.key}{value}:{self.taint.effect}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        node: core_v1.Node = clone(await _node(cluster, self.node))
        others = (one for one in node.spec.taints if (one.key, one.effect) != (self.taint.key, self.taint.effect))
        node.spec.taints = (*others, self.taint)
        await cluster.client.update(node)
        return []


@dataclass(frozen=True, slots=True)
class Drain(_Prompt):
    """Cordon nodes, then evict what runs on them, node after node."""

    nodes: tuple[str, ...]
    patience: float = DRAIN_PATIENCE

    def __post_init__(self) -> None:
        given: object = self.nodes
        if isinstance(given, str):
            raise TypeError(f"Drain takes a tuple of nodes, such as Drain(({given!r},))")

    def describe(self) -> str:
        return f"drain {', '.join(self.nodes)}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        for name in self.nodes:
            await Cordon(name).run(cluster)
        problems = []
        for name in self.nodes:
            problems.extend(await drain(cluster, name, self.patience))
        return problems


@dataclass(frozen=True, slots=True)
class DeleteNode(_Prompt):
    """Take a node away without asking."""

    node: str

    def describe(self) -> str:
        return f"delete node {self.node}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        await _node(cluster, self.node)
        await cluster.client.delete(core_v1.Node, self.node)
        return []


@dataclass(frozen=True, slots=True)
class FailZone:
    """All nodes of a zone lose contact."""

    zone: str

    @property
    def takes(self) -> float:
        return _USUAL_TOLERATION + 2 * _UNTIL_NOTICED

    def describe(self) -> str:
        return f"fail zone {self.zone}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        nodes = (await cluster.client.list(core_v1.Node, label_selector=f"{ZONE_LABEL}={self.zone}")).items
        if not nodes:
            raise ActionError(f"there is no node in zone {self.zone} (label {ZONE_LABEL})")
        for node in nodes:
            await _patch_node(cluster, node.metadata.name, {"metadata": {"annotations": {SILENT: "true"}}})
        return []


@dataclass(frozen=True, slots=True)
class Scale(_Prompt):
    """Give a workload another number of replicas."""

    resource: str
    namespace: str
    name: str
    replicas: int

    def describe(self) -> str:
        return f"scale {self.resource} {self.namespace}/{self.name} to {self.replicas}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        try:
            kind = cluster.api.context.kinds.named(self.resource)
        except KeyError:
            raise ActionError(f"there is no resource {self.resource}") from None
        body = b'{"spec":{"replicas":%d}}' % self.replicas
        try:
            await cluster.client.raw(
                "PATCH", kind.path(self.namespace, self.name, "scale"), body=body, content_type=MERGE_PATCH
            )
        except ApiError as error:
            raise ActionError(f"{self.describe()}: {error}") from error
        return []


@dataclass(frozen=True, slots=True)
class PlaceAnew(_Prompt):
    """Delete all pods that their workloads replace while no scheduler runs, so that it places them anew, all at once; daemons and finished pods stay."""

    def describe(self) -> str:
        return "place the pods of workloads anew"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        await cluster.components.stop(_SCHEDULER)
        for pod in (await cluster.client.list(core_v1.Pod)).items:
            if controller_of(pod) is not None and pod.spec.node_name and _is_evicted(pod):
                await cluster.client.delete(
                    core_v1.Pod, pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
                )
        await cluster.settle(quiet=_REPLACED_WITHIN)
        cluster.components.start(_SCHEDULER)
        return []


@dataclass(frozen=True, slots=True)
class AddNodes(_Prompt):
    """Add nodes of one shape."""

    count: int
    shape: NodeShape

    def describe(self) -> str:
        return f"add {self.count} nodes"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        for number in range(1, self.count + 1):
            await _add(cluster, self.shape.node(number))
        return []


@dataclass(frozen=True, slots=True)
class Upgrade(_Prompt):
    """Replace nodes by new ones like them, `surge` at a time: add, wait until ready, drain, delete."""

    selector: str = ""
    """Label selector of the nodes; all if empty."""
    surge: int = 1
    patience: float = DRAIN_PATIENCE

    def describe(self) -> str:
        return f"replace {'nodes ' + self.selector if self.selector else 'all nodes'}, {self.surge} at a time"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        nodes = (await cluster.client.list(core_v1.Node, label_selector=self.selector)).items
        if not nodes:
            raise ActionError(f"no node has the labels {self.selector}")
        problems: list[str] = []
        for start in range(0, len(nodes), self.surge):
            batch = nodes[start : start + self.surge]
            for node in batch:
                await _add(cluster, _successor(node))
            for node in batch:
                await Cordon(node.metadata.name).run(cluster)
            for node in batch:
                stuck = await drain(cluster, node.metadata.name, self.patience)
                if stuck:
                    return [*problems, *stuck, f"the upgrade stopped at node {node.metadata.name}"]
                await cluster.client.delete(core_v1.Node, node.metadata.name)
        return problems


@dataclass(frozen=True, slots=True)
class Deschedule(_Prompt):
    """One pass of the descheduler, through the eviction API. What it evicts and what it may not goes to the cluster's `descheduled`."""

    policy: DeschedulerPolicy
    source: str
    """Where the policy comes from, for reports."""

    def describe(self) -> str:
        return f"deschedule by {self.source}"

    async def run(self, cluster: VirtualCluster) -> list[str]:
        service = DeschedulerService(
            cluster.connect("system:descheduler"),
            self.policy,
            DeschedulerSettings(),
            clock=cluster.clock,
            randomness=SeededRandomness("descheduler"),
            metrics=Registry(),
        )
        try:
            report = await service.run_once()
        except PolicyError as error:
            raise ActionError(f"{self.describe()}: {error}") from error
        cluster.descheduled.extend(report.attempts)
        skipped = [f"no pod was looked at: {report.skipped}"] if report.skipped else []
        return [f"{self.describe()}: {one}" for one in (*skipped, *report.errors)]


async def drain(cluster: VirtualCluster, name: str, patience: float) -> list[str]:
    """Evict what runs on a cordoned node, as `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` does."""
    client, clock = cluster.client, cluster.clock
    until = clock.monotonic() + patience
    while True:
        pods = [
            pod for pod in (await client.list(core_v1.Pod)).items if pod.spec.node_name == name and _is_evicted(pod)
        ]
        if not pods:
            return []
        refusals = {}
        for pod in pods:
            if pod.metadata.deletion_timestamp:
                continue
            try:
                await client.evict(pod.metadata.namespace, pod.metadata.name)
            except ApiError as error:
                if error.code not in (404, 429):
                    raise
                refusals[f"{pod.metadata.namespace}/{pod.metadata.name}"] = str(error)
        if clock.monotonic() >= until:
            what = [f"{pod}: {why}" for pod, why in refusals.items()] or [f"{len(pods)} pods do not end"]
            return [f"node {name} was not drained within {patience:g} s: {one}" for one in what]
        await clock.sleep(_EVICT_AGAIN if refusals else 1.0)


def _is_evicted(pod: core_v1.Pod) -> bool:
    """Whether a drain evicts a pod: daemons and mirror pods stay."""
    owner = controller_of(pod)
    return not (
        (owner is not None and owner.kind == "DaemonSet")
        or MIRROR in pod.metadata.annotations
        or pod.status.phase in ("Succeeded", "Failed")
    )


async def _node(cluster: VirtualCluster, name: str) -> core_v1.Node:
    try:
        return await cluster.client.get(core_v1.Node, name)
    except ApiError as error:
        if error.code != 404:
            raise
        known = (await cluster.client.list(core_v1.Node)).items
        raise ActionError(f"there is no node {name}; the cluster has {len(known)} nodes") from None


async def _patch_node(cluster: VirtualCluster, name: str, patch: Mapping[str, Any]) -> None:
    await _node(cluster, name)
    await cluster.client.patch(core_v1.Node, name, "", dict(patch), patch_type=MERGE_PATCH)


def _successor(node: core_v1.Node) -> core_v1.Node:
    """A new node like one that is there."""
    name = f"{node.metadata.name}-new"
    labels = {**node.metadata.labels, HOST_LABEL: name}
    spec = replace(node.spec, pod_cidr="", pod_cidrs=(), provider_id="", unschedulable=False)
    return replace(node, metadata=meta_v1.ObjectMeta(name=name, labels=labels), spec=spec)


async def _add(cluster: VirtualCluster, node: core_v1.Node) -> None:
    """Register a node that the simulator plays, and wait until it takes pods."""
    metadata = meta_v1.ObjectMeta(name=node.metadata.name, labels=node.metadata.labels, annotations={SIMULATED: "true"})
    created = await cluster.client.create(replace(node, metadata=metadata))
    status: core_v1.Node = clone(created)
    status.status = node.status
    await cluster.client.update_status(status)

    async def ready() -> bool:
        found = await cluster.client.get(core_v1.Node, node.metadata.name)
        return not any(one.effect == "NoSchedule" and one.key.startswith("node.k") for one in found.spec.taints)

    await cluster.eventually(ready, within=_READY_WITHIN)
