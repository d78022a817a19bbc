"""The measures by which schedulers are compared in print, of one replay.

Allocation ratio, scheduling success rate, fragmentation and waiting times by size of pods are those that studies of GPU clusters report
(such as "Kant: An Efficient Unified Scheduling System for Large-Scale AI Clusters", 2025, and "Beware of Fragmentation", USENIX ATC
2023); fairness is Jain's index ("A Quantitative Measure of Fairness and Discrimination", 1984) over what namespaces get of what they ask for.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bayplan.api.types.core_v1 import Pod
from bayplan.simulation.replay.figures import amounts_of, asked_for, dominant_share
from bayplan.simulation.replay.gpu_shares import GPU, WHOLE
from bayplan.simulation.replay.records import PodRecord
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import Workload

_PARTS: Final = ((1 / 16, "up to 1/16 of a node"), (1 / 4, "up to 1/4"), (1 / 2, "up to 1/2"))
_LARGEST: Final = "more than 1/2"
_GPUS: Final = ((0, "no GPU"), (WHOLE - 1, "part of a GPU"), (WHOLE, "1 GPU"), (4 * WHOLE, "2 to 4 GPUs"))
_MOST_GPUS: Final = "more than 4 GPUs"


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Pods of about one size. Times are in seconds, and those of placed pods."""

    name: str
    pods: int
    placed: int
    mean_wait: float
    wait_of_half: float
    wait_of_99: float
    longest_wait: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        wait = {"mean": self.mean_wait, "p50": self.wait_of_half, "p99": self.wait_of_99, "longest": self.longest_wait}
        return {"size": self.name, "pods": self.pods, "placed": self.placed, "waitSeconds": wait}


@dataclass(frozen=True, slots=True)
class NamespaceShare:
    """What the pods of a namespace got."""

    name: str
    pods: int
    placed: int
    mean_wait: float
    granted: float
    """Of the time that its pods were there, weighed by their dominant share of the cluster: the part that they ran, 0 to 1."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "namespace": self.name,
            "pods": self.pods,
            "placed": self.placed,
            "meanWaitSeconds": self.mean_wait,
            "granted": self.granted,
        }


@dataclass(frozen=True, slots=True)
class Measures:
    """One side of a rehearsal in figures."""

    allocation: Mapping[str, float]
    """Resource -> share of the nodes' amount that placed pods ask for, in the mean over time."""
    success: float
    """Share of the pods that were placed."""
    fragmentation: float
    """Share of what is free that no pod of the usual shape can use, in the mean."""
    gpu_fragmentation: float | None
    """The same of free GPUs and the pods that ask for some; None without GPUs."""
    split_gpu_nodes: float | None
    """Share of the nodes with GPUs of which some are in use and some are free, in the mean; None without GPUs."""
    unevenness: float
    nodes_with_pods: float
    preemptions: int
    mean_wait: float
    wait_of_99: float
    fairness: float
    """Jain's index over the namespaces' `granted`: 1 if all got the same part, 1/n if one of n got everything."""
    sizes: tuple[SizeClass, ...]
    namespaces: tuple[NamespaceShare, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "allocationRatio": dict(self.allocation),
            "schedulingSuccessRate": self.success,
            "fragmentationRate": self.fragmentation,
            "gpuFragmentationRate": self.gpu_fragmentation,
            "gpuNodesPartlyUsed": self.split_gpu_nodes,
            "unevenness": self.unevenness,
            "nodesWithPods": self.nodes_with_pods,
            "preemptions": self.preemptions,
            "waitSeconds": {"mean": self.mean_wait, "p99": self.wait_of_99},
            "fairness": self.fairness,
            "sizes": [one.to_dict() for one in self.sizes],
            "namespaces": [one.to_dict() for one in self.namespaces],
        }


def measures_of(workload: Workload, result: Replay) -> Measures:
    """What a replay comes to, of a workload or of what a release of Kubernetes makes of it: what pods ask for is what the workload says."""
    arrivals = sorted(workload.arrivals, key=lambda one: one.at)
    pairs = [(one.pod, record) for one, record in zip(arrivals, result.records.of.values(), strict=True)]
    total = amounts_of(workload.nodes)
    has_gpus = bool(total.get(GPU))
    namespaces = tuple(_namespaces(pairs, total))
    return Measures(
        allocation={name: result.mean_use(name) for name in total if name != "pods"},
        success=result.placed / result.pods if result.pods else 1.0,
        fragmentation=result.mean_fragmentation(),
        gpu_fragmentation=result.mean_gpu_fragmentation(),
        split_gpu_nodes=result.mean_split(GPU) if has_gpus else None,
        unevenness=result.mean_unevenness(),
        nodes_with_pods=result.nodes_used,
        preemptions=result.preemptions,
        mean_wait=statistics.fmean(result.waits) if result.waits else 0.0,
        wait_of_99=result.wait_at(0.99),
        fairness=jain([one.granted for one in namespaces]),
        sizes=tuple(_sizes(pairs, _by_gpus if has_gpus else _by_part_of(total, len(workload.nodes)))),
        namespaces=namespaces,
    )


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: (sum x)^2 / (n * sum x^2); 1 for no values, or if all are 0."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


# Sizes

Size = tuple[int, str]
"""Place in the order of sizes, and name."""


def _by_gpus(pod: Pod) -> Size:
    gpus = asked_for(pod).get(GPU, 0)
    return next(((place, name) for place, (most, name) in enumerate(_GPUS) if gpus <= most), (len(_GPUS), _MOST_GPUS))


def _by_part_of(total: Mapping[str, float], nodes: int) -> Callable[[Pod], Size]:
    """By the dominant share of what a node has in the mean."""

    def size(pod: Pod) -> Size:
        share = dominant_share(pod, total) * nodes
        return next(
            ((place, name) for place, (most, name) in enumerate(_PARTS) if share <= most), (len(_PARTS), _LARGEST)
        )

    return size


def _sizes(pairs: Iterable[tuple[Pod, PodRecord]], size_of: Callable[[Pod], Size]) -> Iterable[SizeClass]:
    found: dict[Size, list[PodRecord]] = {}
    for pod, record in pairs:
        found.setdefault(size_of(pod), []).append(record)
    for (_, name), records in sorted(found.items()):
        waits = sorted(record.wait for record in records if record.was_placed)
        mean = statistics.fmean(waits) if waits else 0.0
        yield SizeClass(name, len(records), len(waits), mean, _at(waits, 0.5), _at(waits, 0.99), _at(waits, 1.0))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


# Namespaces


def _namespaces(pairs: Iterable[tuple[Pod, PodRecord]], total: Mapping[str, float]) -> Iterable[NamespaceShare]:
    found: dict[str, list[tuple[float, PodRecord]]] = {}
    for pod, record in pairs:
        found.setdefault(pod.metadata.namespace, []).append((dominant_share(pod, total), record))
    for name, records in sorted(found.items()):
        waits = [record.wait for _, record in records if record.was_placed]
        mean = statistics.fmean(waits) if waits else 0.0
        yield NamespaceShare(name, len(records), len(waits), mean, _granted(records))


def _granted(records: Sequence[tuple[float, PodRecord]]) -> float:
    """The part of the demanded resource-time that was given; of the pods, if they ask for nothing or no time passes."""
    ran = sum(share * record.running for share, record in records)
    wanted = sum(share * (record.running + record.waiting) for share, record in records)
    if wanted:
        return ran / wanted
    return sum(record.was_placed for _, record in records) / len(records)
