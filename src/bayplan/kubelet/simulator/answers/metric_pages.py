"""Pages of metrics of simulated nodes, as kwok's objects describe them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from bayplan.api.codec import to_tree
from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.answers.metric_objects import MetricConfig, MetricPage
from bayplan.kubelet.simulator.answers.usage import Usage
from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.kubelet.simulator.stages.expressions import Scope, at_moment, value_of
from bayplan.kubelet.simulator.stages.object_trees import node_tree, pod_tree, prepared_container
from bayplan.support.metrics.instruments import Registry

logger = logging.getLogger(__name__)

_Key = tuple[str, str, str, str, str]
"""Node, namespace, pod, container, resource."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as it is when somebody asks."""

    node: core_v1.Node
    pods: tuple[core_v1.Pod, ...]
    usage: Callable[[core_v1.Pod], Usage]
    """What the containers of a pod use now."""
    now: float
    """Unix seconds."""
    chance: Callable[[], float]
    """Numbers in [0, 1)."""


class Totals:
    """What has been used since somebody first asked."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[float, float]] = {}
        """(sum, when it was that)."""

    def add(self, key: _Key, usage: float, now: float) -> float:
        """The sum so far, if as much was used since the last time as now."""
        total, since = self._known.get(key, (0.0, now))
        total += usage * max(now - since, 0.0)
        self._known[key] = (total, now)
        return total

    def keep(self, node: str, pods: Iterable[core_v1.Pod]) -> None:
        """Forget the pods that a node has no more."""
        known = {(pod.metadata.namespace, pod.metadata.name) for pod in pods} | {("", "")}
        gone = [key for key in self._known if key[0] == node and key[1:3] not in known]
        for key in gone:
            del self._known[key]


class _Figures:
    """What is known of a node and its pods; see Figures of the functions."""

    def __init__(self, state: NodeState, totals: Totals) -> None:
        self._state, self._totals = state, totals
        self._pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in state.pods}
        self._usage: dict[tuple[str, str], Usage] = {}

    def usage(self, pod: tuple[str, str] | None, container: str, resource: str) -> float:
        if pod is None:
            return sum(self.usage(each, "", resource) for each in self._pods)
        if pod not in self._pods:
            return 0.0
        if pod not in self._usage:
            self._usage[pod] = self._state.usage(self._pods[pod])
        containers = self._usage[pod]
        names = [container] if container else list(containers)
        amounts = [containers[name][resource] for name in names if resource in containers.get(name, ())]
        return float(sum(Fraction(amount.unscaled) / Fraction(10) ** amount.scale for amount in amounts))

    def cumulative_usage(self, pod: tuple[str, str] | None, container: str, resource: str) -> float:
        key = (self._state.node.metadata.name, *(pod or ("", "")), container, resource)
        return self._totals.add(key, self.usage(pod, container, resource), self._state.now)

    def started_containers(self) -> float:
        statuses = (one for pod in self._state.pods for one in pod.status.container_statuses)
        return float(sum(one.restart_count + (one.state.waiting is None) for one in statuses))


def page_of(page: MetricPage, state: NodeState, totals: Totals) -> bytes:
    """A page in Prometheus' text format. A series whose expressions fail is left out, and logged."""
    totals.keep(state.node.metadata.name, state.pods)
    figures, registry = _Figures(state, totals), Registry()
    for metric in page.metrics:
        for objects in _things(metric.dimension, state):
            try:
                with at_moment(state.now, state.chance, figures):
                    _add(registry, metric, lambda text: value_of(text, objects, Scope.METRICS))  # noqa: B023 - called at once
            except (KwokFileError, ValueError) as error:
                logger.warning("metric %s of %s: %s", metric.name, state.node.metadata.name, error)
    return registry.render()


def _things(dimension: str, state: NodeState) -> Iterator[Mapping[str, Any]]:
    """What a metric's expressions may look at, of each series."""
    objects: dict[str, Any] = {"node": node_tree(state.node)}
    if dimension == "node":
        yield objects
        return
    for pod in state.pods:
        objects = {**objects, "pod": pod_tree(pod)}
        if dimension == "pod":
            yield objects
        else:
            yield from ({**objects, "container": prepared_container(to_tree(one))} for one in pod.spec.containers)


def _add(registry: Registry, metric: MetricConfig, value: Callable[[str], Any]) -> None:
    """Add a series. Raises KwokFileError, ValueError."""
    names = tuple(label.name for label in metric.labels)
    labels = tuple(str(value(label.value)) for label in metric.labels)
    help_text = metric.help.strip()
    if metric.kind == "histogram":
        counts = [(bucket.le, int(_number(value(bucket.value)))) for bucket in metric.buckets]
        bounds = tuple(sorted(bucket.le for bucket in metric.buckets if not bucket.hidden))
        histogram = registry.histogram(metric.name, help_text, names, buckets=bounds).labels(*labels)
        for bound, count in counts:
            place = next((index for index, shown in enumerate(bounds) if bound <= shown), len(bounds))
            histogram.counts[place] += count
            histogram.sum += bound * count
        return
    number = _number(value(metric.value))
    if metric.kind == "gauge":
        registry.gauge(metric.name, help_text, names).labels(*labels).set(number)
    else:
        registry.counter(metric.name, help_text, names).labels(*labels).inc(number)


def _number(found: Any) -> float:
    """Raises KwokFileError for what is none."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise KwokFileError(f"{found!r} is no number")
    return float(found)
