"""Two scheduler configurations on the same workload, with the same seeds: what each makes of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.selectors.labels import SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.types.core_v1 import Node, Pod
from bayplan.scheduler.library import Config
from bayplan.simulation.questions.quota_limits import with_defaults
from bayplan.simulation.replay.gpu_shares import GPU
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import Arrival, Workload, replay
from bayplan.simulation.snapshots.planner import fresh, pod_of_template
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_T95: Final = (0.0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95 % by degrees of freedom; beyond the table the normal distribution's 1.96 is near enough."""

Told = Callable[[int], object]


class PriceError(Exception):
    """A price list cannot be read."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour of a node costs: the first label selector that takes it decides."""

    rules: tuple[tuple[str, float], ...]
    otherwise: float = 0.0

    @staticmethod
    def of(tree: Any) -> Prices:
        """`{"selector": price, ..., "default": price}`. Raises PriceError."""
        if not isinstance(tree, Mapping) or not all(isinstance(price, int | float) for price in tree.values()):
            raise PriceError("expected label selectors with a price per hour each, and perhaps `default`")
        rules = tuple((str(name), float(price)) for name, price in tree.items() if name != "default")
        for selector, _ in rules:
            try:
                parse_labels(selector)
            except SelectorError as error:
                raise PriceError(f"{selector!r} is no label selector: {error}") from error
        return Prices(rules, float(tree.get("default", 0.0)))

    def of_node(self, node: Node) -> float:
        """Per hour."""
        for selector, price in self.rules:
            if parse_labels(selector).matches(node.metadata.labels):
                return price
        return self.otherwise


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure under one configuration: mean over the seeds, and half the width of its 95 % confidence interval."""

    mean: float
    margin: float

    @staticmethod
    def of(values: Sequence[float]) -> Figure:
        """Of one value per seed."""
        mean = statistics.fmean(values)
        if len(values) < 2:
            return Figure(mean, 0.0)
        freedom = len(values) - 1
        t = _T95[freedom] if freedom < len(_T95) else 1.96
        return Figure(mean, t * statistics.stdev(values) / len(values) ** 0.5)


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of the runs of one configuration."""

    name: str
    unit: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class Line:
    """One measure under both."""

    name: str
    unit: str
    first: Figure
    second: Figure
    difference: Figure
    """Second less first, seed by seed."""
    less_is_better: bool

    @property
    def better(self) -> str:
        """`A`, `B`, or "" if the difference may be chance."""
        if abs(self.difference.mean) <= self.difference.margin or not self.difference.mean:
            return ""
        return "B" if (self.difference.mean < 0) == self.less_is_better else "A"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two configurations make of a workload."""

    pods: int
    nodes: int
    seeds: int
    lines: tuple[Line, ...]
    first: tuple[Replay, ...]
    second: tuple[Replay, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "seeds": self.seeds,
            "measures": [
                {
                    "name": one.name,
                    "unit": one.unit,
                    "a": {"mean": one.first.mean, "margin": one.first.margin},
                    "b": {"mean": one.second.mean, "margin": one.second.margin},
                    "difference": {"mean": one.difference.mean, "margin": one.difference.margin},
                    "better": one.better,
                }
                for one in self.lines
            ],
        }


def compare(
    workload: Workload,
    first: Config,
    second: Config,
    *,
    seeds: int = 5,
    prices: Prices | None = None,
    told: Told | None = None,
) -> Comparison:
    """Replay a workload under both configurations. `told`: told how many of the 2 * seeds runs are done. Raises what `replay` raises."""
    runs: tuple[list[Replay], list[Replay]] = ([], [])
    for seed in range(seeds):
        for config, results in zip((first, second), runs, strict=True):
            results.append(replay(workload, config, seed=seed))
            if told is not None:
                told(len(runs[0]) + len(runs[1]))
    return comparison_of(workload, *runs, prices)


def comparison_of(
    workload: Workload, first: Sequence[Replay], second: Sequence[Replay], prices: Prices | None = None
) -> Comparison:
    """What the runs of two configurations, seed by seed, come to."""
    lines = []
    for name, unit, measure, less in _measures(workload, prices):
        one, other = ([measure(result) for result in results] for results in (first, second))
        difference = Figure.of([after - before for before, after in zip(one, other, strict=True)])
        lines.append(Line(name, unit, Figure.of(one), Figure.of(other), difference, less))
    pods, nodes = len(workload.arrivals), len(workload.nodes)
    return Comparison(pods, nodes, len(first), tuple(lines), tuple(first), tuple(second))


def summary_of(workload: Workload, runs: Sequence[Replay]) -> list[Measure]:
    """What the runs of one configuration come to."""
    return [
        Measure(name, unit, Figure.of([measure(result) for result in runs]))
        for name, unit, measure, _ in _measures(workload, None)
    ]


def _measures(workload: Workload, prices: Prices | None) -> Iterable[tuple[str, str, Callable[[Replay], float], bool]]:
    """(name, unit, measure, whether less is better)."""
    yield "pods never placed", "", lambda run: len(run.never), True
    yield "wait, mean", "s", lambda run: statistics.fmean(run.waits) if run.waits else 0.0, True
    yield "wait, 99 of 100", "s", lambda run: run.wait_at(0.99), True
    yield "preemptions", "", lambda run: run.preemptions, True
    yield "cpu asked for, mean", "share", lambda run: run.mean_use("cpu"), False
    yield "memory asked for, mean", "share", lambda run: run.mean_use("memory"), False
    yield "fragmentation, mean", "share", lambda run: run.mean_fragmentation(), True
    if any(GPU in node.status.allocatable for node in workload.nodes):
        yield "GPU fragmentation, mean", "share", lambda run: run.mean_gpu_fragmentation() or 0.0, True
    yield "unevenness of nodes, mean", "share", lambda run: run.mean_unevenness(), True
    yield "nodes with pods, mean", "", lambda run: run.nodes_used, True
    if prices is not None:
        per_hour = {node.metadata.name: prices.of_node(node) for node in workload.nodes}
        yield "cost of nodes with pods", "", lambda run: _cost(run, per_hour), True


def _cost(run: Replay, per_hour: Mapping[str, float]) -> float:
    """Of the hours in which nodes had pods; of one hour if the workload takes no time."""
    if not run.seconds:
        return sum(per_hour[name] for name in run.node_seconds)
    return sum(per_hour[name] * seconds / 3600 for name, seconds in run.node_seconds.items())


def workload_of_copy(copy: ClusterSnapshot) -> Workload:
    """All pods of a copy but daemons, as if they came one after the other to its empty nodes, and stayed. Of manifests without pods:
    those that their workloads would make."""
    pods = [pod for pod in copy.of("Pod") if pod.status.phase not in ("Succeeded", "Failed")]
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.namespace, pod.metadata.name))
    kept = [pod for pod in pods if _stays(pod)]
    coming = [_again(pod) for pod in pods if not _stays(pod)] or list(_of_templates(copy))
    others = [obj for kind, objects in copy.objects.items() if kind not in ("Node", "Pod") for obj in objects]
    arrivals = tuple(Arrival(float(number), pod) for number, pod in enumerate(coming))
    return Workload(tuple(copy.of("Node")), arrivals, (*others, *kept))


def _stays(pod: Pod) -> bool:
    """Whether a pod belongs to its node."""
    return any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)


def _of_templates(copy: ClusterSnapshot) -> Iterator[Pod]:
    for kind in ("Deployment", "StatefulSet", "ReplicationController"):
        for one in copy.of(kind):
            for number in range(one.spec.replicas if one.spec.replicas is not None else 1):
                pod = pod_of_template(one.spec.template, one.metadata.namespace, f"{one.metadata.name}-{number}")
                yield with_defaults(copy, pod)


def _again(pod: Pod) -> Pod:
    """The pod before it was placed, under its own name."""
    made = fresh(pod)
    return replace(made, metadata=replace(made.metadata, name=pod.metadata.name, namespace=pod.metadata.namespace))
