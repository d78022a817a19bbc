"""LowNodeUtilization: from nodes that are too full to nodes that are rather empty. Source: the descheduler's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import Arguments, Count, Fields, Namespaces, Thresholds, threshold_errors
from bayplan.descheduler.framework import BALANCE, Candidates, Handle, Strategy
from bayplan.descheduler.utilization import (
    BASIC,
    MeasuredUsage,
    NodeUse,
    Relocation,
    RequestedUsage,
    UsageSource,
    around_average,
    has_room,
    in_order,
    is_above,
    is_below,
    measure,
    shown,
    use_of,
)

KUBERNETES_METRICS: Final = "KubernetesMetrics"
PROMETHEUS: Final = "Prometheus"


class EvictionLimits(Fields, frozen=True, kw_only=True):
    """Most evictions of the strategy."""

    node: Count | None = None


class PrometheusQuery(Fields, frozen=True, kw_only=True):
    """A query of upstream's that Bayplan does not run."""

    query: str = ""


class MetricsUtilization(Fields, frozen=True, kw_only=True):
    """Where real usage comes from."""

    metrics_server: bool = False
    source: str = ""
    prometheus: PrometheusQuery | None = None

    def errors(self) -> list[str]:
        """KubernetesMetrics only, said once."""
        found = []
        if self.source == KUBERNETES_METRICS and self.metrics_server:
            found.append(f'it is not allowed to set both "{KUBERNETES_METRICS}" source and metricsServer')
        if self.source == KUBERNETES_METRICS and self.prometheus is not None:
            found.append(f'prometheus configuration is not allowed to set when source is set to "{KUBERNETES_METRICS}"')
        if self.source == PROMETHEUS:
            found.append(
                f"metricsUtilization.source: {PROMETHEUS} is not supported; use {KUBERNETES_METRICS}, or leave "
                "metricsUtilization out to go by what pods request"
            )
        elif self.source not in ("", KUBERNETES_METRICS):
            found.append(f'metricsUtilization.source: unrecognized metrics source "{self.source}"')
        if not (self.source or self.metrics_server):
            found.append("metricsUtilization.source: metrics source is empty")
        return found


class LowNodeUtilizationArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of LowNodeUtilization."""

    use_deviation_thresholds: bool = False
    thresholds: Thresholds = {}  # noqa: RUF012 - msgspec makes a new one for each
    target_thresholds: Thresholds = {}  # noqa: RUF012
    number_of_nodes: int = 0
    """More nodes than this must be underutilized."""
    metrics_utilization: MetricsUtilization | None = None
    evictable_namespaces: Namespaces = Namespaces()
    eviction_limits: EvictionLimits = EvictionLimits()

    def errors(self) -> list[str]:
        if self.evictable_namespaces.include:
            return ["only Exclude namespaces can be set, inclusion is not supported"]
        found = self._threshold_errors()
        return found + (self.metrics_utilization.errors() if self.metrics_utilization is not None else [])

    def _threshold_errors(self) -> list[str]:
        low, high = self.thresholds, self.target_thresholds
        found = [f"thresholds config is not valid: {one}" for one in threshold_errors(low)]
        found += [f"targetThresholds config is not valid: {one}" for one in threshold_errors(high)]
        if found:
            return found
        if low.keys() != high.keys():
            return ["thresholds and targetThresholds configured different resources"]
        return [
            f"thresholds' {name} percentage is greater than targetThresholds'"
            for name in low
            if low[name] > high[name] and not self.use_deviation_thresholds
        ]


class LowNodeUtilization(Strategy):
    """Evicts from nodes above the target thresholds until they are below, as long as nodes below the thresholds have room."""

    name = "LowNodeUtilization"
    point = BALANCE
    arguments_type = LowNodeUtilizationArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: LowNodeUtilizationArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods of overutilized nodes, the fullest node first. Raises StrategyError."""
        source = self._source()
        names = tuple(dict.fromkeys((*self._arguments.thresholds, *BASIC)))
        low, high, names = self._classified(nodes, source, names)
        if not low or not high or len(low) <= self._arguments.number_of_nodes or len(low) == len(nodes):
            return
        relocation = Relocation(
            self.handle,
            source,
            names,
            lambda use: f"its node is overutilized: {shown(use.percent, self._arguments.thresholds)}",
            lambda pod: True,
            lambda use, left: use.is_above_target() and has_room(left),
            self._arguments.evictable_namespaces,
            self._arguments.eviction_limits.node,
        )
        yield from relocation.candidates(in_order(high, emptiest_first=False), low)

    def _classified(
        self, nodes: Sequence[core_v1.Node], source: UsageSource, names: tuple[str, ...]
    ) -> tuple[list[NodeUse], list[NodeUse], tuple[str, ...]]:
        """Underutilized nodes, overutilized nodes, and the resources that are looked at."""
        measured = measure(nodes, names, source, self.snapshot)
        lower, upper = self._arguments.thresholds, self._arguments.target_thresholds
        if self._arguments.use_deviation_thresholds:
            percents = measured.percents.values()
            lower, upper = around_average(percents, lower, -1), around_average(percents, upper, 1)
        low, high = [], []
        for node in nodes:
            use = use_of(node, measured, upper, self.snapshot)
            if not node.spec.unschedulable and is_below(use.percent, lower):
                low.append(use)
            elif is_above(use.percent, upper):
                high.append(use)
        return low, high, measured.names

    def _source(self) -> UsageSource:
        return (
            RequestedUsage(self.snapshot)
            if self._arguments.metrics_utilization is None
            else MeasuredUsage(self.snapshot)
        )
