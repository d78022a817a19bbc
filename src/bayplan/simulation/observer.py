"""What happens to pods and workloads of a virtual cluster from one moment on, and what it costs them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from bayplan.api.quantity import parse
from bayplan.api.types import core_v1
from bayplan.client.client import WatchStream
from bayplan.controllers.base import controller_of
from bayplan.controllers.pods import is_ready
from bayplan.scheduler.snapshot.resources import pod_requests
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.tasks import Supervisor

_HASH: Final = "pod-template-hash"
FINISHED: Final = "Finished"
DELETED: Final = "Deleted"


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod was bound to a node."""

    at: float
    """Seconds since the observation began."""
    pod: str
    """`namespace/name`."""
    node: str
    waited: float
    """Seconds from its creation, or from the beginning if it was there before."""
    workload: str
    """See `Workload.name`."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod with a node went away, or ended."""

    at: float
    pod: str
    node: str
    reason: str
    """That of its condition DisruptionTarget (`EvictionByEvictionAPI`, `PreemptionByScheduler`, `DeletionByTaintManager`,
    ...), `Finished`, or `Deleted` for want of a better one."""
    workload: str


@dataclass(slots=True)
class Workload:
    """The pods of one owner."""

    name: str
    """`namespace/Kind/name`."""
    wanted: int = 0
    """Ready pods at the beginning."""
    ready: int = 0
    missing: float = 0.0
    """Pod-seconds without a ready pod where there was one at the beginning."""
    degraded: float = 0.0
    """Seconds during which at least one was missing."""
    least: int = 0
    """Fewest ready pods at any time."""
    since: float = 0.0

    def pass_time(self, now: float) -> None:
        """Account for the time up to now."""
        missing = max(0, self.wanted - self.ready)
        self.missing += missing * (now - self.since)
        self.degraded += (now - self.since) if missing else 0.0
        self.since = now


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at one moment."""

    at: float
    pending: int
    running: int
    cpu: float
    """Share of all nodes' processors that is requested, 0 to 1 (more if nodes went)."""
    memory: float


@dataclass(slots=True)
class _Load:
    cpu: int = 0
    """Thousandths of a processor."""
    memory: int = 0
    """Bytes."""


@dataclass(slots=True)
class _Seen:
    pod: core_v1.Pod
    load: _Load
    workload: Workload
    born: float
    ready: bool = False
    gone: bool = False
    """Whether its departure has been noted."""
    ending_since: float | None = None
    """When its deletion was requested; None if it was not."""


@dataclass(slots=True)
class Observer:
    """Use as `async with Observer(cluster) as seen`. The lists grow in order of time."""

    cluster: VirtualCluster
    placements: list[Placement] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    workloads: dict[str, Workload] = field(default_factory=dict)
    _pods: dict[str, _Seen] = field(default_factory=dict)
    _nodes: dict[str, _Load] = field(default_factory=dict)
    _began: float = 0.0
    _load: _Load = field(default_factory=_Load)
    _pending: int = 0
    _running: int = 0
    _tasks: Supervisor = field(default_factory=lambda: Supervisor("observer"))

    async def __aenter__(self) -> Self:
        client = self.cluster.client
        self._began = self.cluster.clock.monotonic()
        nodes = await client.list(core_v1.Node)
        for node in nodes.items:
            self._see_node(node)
        pods = await client.list(core_v1.Pod)
        for pod in pods.items:
            self._see(pod, initial=True)
        for workload in self.workloads.values():
            workload.wanted = workload.least = workload.ready
        self._sample()
        pod_watch = await client.watch(core_v1.Pod, resource_version=pods.resource_version)
        node_watch = await client.watch(core_v1.Node, resource_version=nodes.resource_version)
        self._tasks.spawn("pods", self._follow_pods(pod_watch))
        self._tasks.spawn("nodes", self._follow_nodes(node_watch))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()
        self._note_unended()
        now = self._now()
        for workload in self.workloads.values():
            workload.pass_time(now)
        self._sample()

    def _note_unended(self) -> None:
        """Pods that were sent away during the observation and have not ended left all the same: no kubelet of a node without contact
        ends them, while their owners make others in their place. They still take their room."""
        for seen in self._pods.values():
            pod = seen.pod
            if seen.ending_since and not seen.gone and pod.spec.node_name:
                reason = _disruption(pod) or DELETED
                self.departures.append(
                    Departure(seen.ending_since, _key(pod), pod.spec.node_name, reason, seen.workload.name)
                )
        self.departures.sort(key=lambda one: one.at)

    def _now(self) -> float:
        return self.cluster.clock.monotonic() - self._began

    @property
    def pending(self) -> list[core_v1.Pod]:
        """Pods that have no node."""
        return [
            seen.pod
            for seen in self._pods.values()
            if not seen.pod.spec.node_name and not seen.gone and not seen.pod.metadata.deletion_timestamp
        ]

    async def _follow_pods(self, stream: WatchStream[core_v1.Pod]) -> None:
        while batch := await stream.next_batch():
            for event_type, pod in batch:
                if event_type == "DELETED":
                    self._lose(pod)
                else:
                    self._see(pod)
            self._sample()

    async def _follow_nodes(self, stream: WatchStream[core_v1.Node]) -> None:
        while batch := await stream.next_batch():
            for event_type, node in batch:
                if event_type == "DELETED":
                    self._nodes.pop(node.metadata.name, None)
                else:
                    self._see_node(node)
            self._sample()

    def _see_node(self, node: core_v1.Node) -> None:
        room = node.status.allocatable
        self._nodes[node.metadata.name] = _Load(
            parse(room.get("cpu", "0")).milli_value(), parse(room.get("memory", "0")).value()
        )

    def _see(self, pod: core_v1.Pod, *, initial: bool = False) -> None:
        uid = pod.metadata.uid
        seen = self._pods.get(uid)
        if seen is None:
            requests = pod_requests(pod.spec, pod.status)
            load = _Load(
                requests["cpu"].milli_value() if "cpu" in requests else 0,
                requests["memory"].value() if "memory" in requests else 0,
            )
            seen = self._pods[uid] = _Seen(pod, load, self._workload(pod), self._now())
            self._pending += 1
            if initial and pod.spec.node_name:
                self._take(seen, 1)
        elif pod.spec.node_name and not seen.pod.spec.node_name and not seen.gone:
            at = self._now()
            placement = Placement(at, _key(pod), pod.spec.node_name, at - seen.born, seen.workload.name)
            self.placements.append(placement)
            self._take(seen, 1)
        seen.pod = pod
        if pod.metadata.deletion_timestamp and seen.ending_since is None:
            seen.ending_since = 0.0 if initial else self._now()
        self._set_ready(seen, is_ready(pod) and not pod.metadata.deletion_timestamp)
        if pod.status.phase in ("Succeeded", "Failed") and not seen.gone:
            self._leave(seen, _disruption(pod) or FINISHED)

    def _lose(self, pod: core_v1.Pod) -> None:
        seen = self._pods.pop(pod.metadata.uid, None)
        if seen is None or seen.gone:
            return
        self._set_ready(seen, False)
        self._leave(seen, _disruption(pod) or DELETED)

    def _leave(self, seen: _Seen, reason: str) -> None:
        seen.gone = True
        if seen.pod.spec.node_name:
            pod = seen.pod
            departure = Departure(self._now(), _key(pod), pod.spec.node_name, reason, seen.workload.name)
            self.departures.append(departure)
            self._take(seen, -1)
        self._pending -= not seen.pod.spec.node_name

    def _take(self, seen: _Seen, sign: int) -> None:
        """A pod takes its place on a node, or leaves it."""
        self._load.cpu += sign * seen.load.cpu
        self._load.memory += sign * seen.load.memory
        self._running += sign
        self._pending -= sign > 0

    def _set_ready(self, seen: _Seen, ready: bool) -> None:
        if seen.ready == ready:
            return
        workload = seen.workload
        workload.pass_time(self._now())
        seen.ready = ready
        workload.ready += 1 if ready else -1
        workload.least = min(workload.least, workload.ready)

    def _workload(self, pod: core_v1.Pod) -> Workload:
        name = workload_of(pod)
        found = self.workloads.get(name)
        if found is None:
            found = self.workloads[name] = Workload(name, since=self._now())
        return found

    def _sample(self) -> None:
        cpu = sum(room.cpu for room in self._nodes.values()) or 1
        memory = sum(room.memory for room in self._nodes.values()) or 1
        sample = Sample(self._now(), self._pending, self._running, self._load.cpu / cpu, self._load.memory / memory)
        if self.samples and self.samples[-1].at == sample.at:
            self.samples[-1] = sample
        else:
            self.samples.append(sample)


def _disruption(pod: core_v1.Pod) -> str:
    """Who drove a pod away, as its status says; "" if nobody did."""
    return next((one.reason for one in pod.status.conditions if one.type == "DisruptionTarget"), "")


def workload_of(pod: core_v1.Pod) -> str:
    """`namespace/Kind/name` of what made a pod; of the pod itself if nobody did. Deployments stand for their ReplicaSets."""
    owner = controller_of(pod)
    namespace = pod.metadata.namespace
    if owner is None:
        return f"{namespace}/Pod/{pod.metadata.name}"
    ending = f"-{pod.metadata.labels.get(_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(ending) > 1 and owner.name.endswith(ending):
        return f"{namespace}/Deployment/{owner.name.removesuffix(ending)}"
    return f"{namespace}/{owner.kind}/{owner.name}"


def _key(pod: core_v1.Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def nodes_used(pods: Iterable[core_v1.Pod]) -> dict[str, int]:
    """Pods per node."""
    counts: dict[str, int] = {}
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
            counts[pod.spec.node_name] = counts.get(pod.spec.node_name, 0) + 1
    return dict(sorted(counts.items()))
