"""What became of a workload that was replayed: waits, preemptions, and looks at the cluster over time."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass, field
from typing import Any

from bayplan.simulation.replay.records import PodRecords


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster at one time."""

    at: float
    running: int
    pending: int
    used: dict[str, float]
    """Resource -> share of all nodes' amount that is asked for."""
    unevenness: float
    """Standard deviation of the nodes' fullness, 0 to 1."""
    split: dict[str, float] = field(default_factory=dict)
    """Resource -> share of the nodes that have it of which some is asked for and some is left."""


@dataclass(slots=True)
class Replay:
    """What became of a workload."""

    pods: int = 0
    placed: int = 0
    waits: list[float] = field(default_factory=list)
    """Seconds from the arrival of each placed pod to its first placement, in order of placement."""
    never: list[tuple[str, str]] = field(default_factory=list)
    """(pod, the scheduler's message) of pods that were never placed."""
    preemptions: int = 0
    most_running: int = 0
    most_pending: int = 0
    moments: list[Moment] = field(default_factory=list)
    fragmentation: list[tuple[float, float]] = field(default_factory=list)
    """(time, share of what is free that no pod of the usual shape can use)."""
    gpu_fragmentation: list[tuple[float, float]] = field(default_factory=list)
    """(time, share of the free GPUs that a pod that asks for GPUs cannot use, in the mean); see the module of that name."""
    node_seconds: dict[str, float] = field(default_factory=dict)
    """Node -> seconds during which it had pods."""
    nodes: int = 0
    seconds: float = 0.0
    decisions: int = 0
    records: PodRecords = field(default_factory=PodRecords)
    """What became of each pod."""

    def mean_use(self, resource: str) -> float:
        """Share of a resource that was asked for, in the mean over time."""
        moments = self.moments
        spans = itertools.pairwise(moments)
        total = sum((after.at - before.at) * before.used.get(resource, 0.0) for before, after in spans)
        span = moments[-1].at - moments[0].at if moments else 0.0
        return total / span if span else 0.0

    def mean_fragmentation(self) -> float:
        """Over the moments at which it was measured."""
        return sum(share for _, share in self.fragmentation) / len(self.fragmentation) if self.fragmentation else 0.0

    def mean_gpu_fragmentation(self) -> float | None:
        """Over the moments at which it was measured; None without GPUs, or pods that ask for them."""
        return statistics.fmean(share for _, share in self.gpu_fragmentation) if self.gpu_fragmentation else None

    def mean_split(self, resource: str) -> float:
        """Share of the nodes with a resource of which some is asked for and some is left, in the mean over the moments."""
        return statistics.fmean(one.split.get(resource, 0.0) for one in self.moments) if self.moments else 0.0

    def mean_unevenness(self) -> float:
        """Over all moments."""
        return statistics.fmean(one.unevenness for one in self.moments) if self.moments else 0.0

    def wait_at(self, share: float) -> float:
        """Seconds that this share of the placed pods waited at most."""
        waits = sorted(self.waits)
        return waits[min(int(len(waits) * share), len(waits) - 1)] if waits else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        resources = sorted({name for moment in self.moments for name in moment.used})
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "seconds": self.seconds,
            "placed": self.placed,
            "neverPlaced": [{"pod": pod, "reason": reason} for pod, reason in self.never],
            "preemptions": self.preemptions,
            "waitSeconds": {
                "mean": statistics.fmean(self.waits) if self.waits else 0.0,
                **{f"p{share:.0%}".rstrip("%"): self.wait_at(share) for share in (0.5, 0.9, 0.99)},
                "longest": max(self.waits, default=0.0),
            },
            "meanUse": {name: self.mean_use(name) for name in resources},
            "meanFragmentation": self.mean_fragmentation(),
            "meanGpuFragmentation": self.mean_gpu_fragmentation(),
            "meanUnevenness": self.mean_unevenness(),
            "meanNodesWithPods": self.nodes_used,
            "mostRunning": self.most_running,
            "mostPending": self.most_pending,
            "decisions": self.decisions,
            "moments": [
                {"at": one.at, "running": one.running, "pending": one.pending, "use": one.used} for one in self.moments
            ],
        }

    @property
    def nodes_used(self) -> float:
        """Nodes with pods, in the mean over time."""
        return sum(self.node_seconds.values()) / self.seconds if self.seconds else 0.0
