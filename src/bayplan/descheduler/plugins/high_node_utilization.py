"""HighNodeUtilization: from nodes that are nearly empty to the others, so that they can go. Source: the descheduler's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import Arguments, Namespaces, Thresholds, threshold_errors
from bayplan.descheduler.framework import BALANCE, Candidates, Handle, Strategy
from bayplan.descheduler.utilization import (
    BASIC,
    Relocation,
    RequestedUsage,
    has_room,
    in_order,
    is_below,
    measure,
    shown,
    use_of,
)

ONLY_THRESHOLDING: Final = "OnlyThresholdingResources"


class HighNodeUtilizationArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of HighNodeUtilization."""

    thresholds: Thresholds = {}  # noqa: RUF012 - msgspec makes a new one for each
    number_of_nodes: int = 0
    """More nodes than this must be underutilized."""
    eviction_modes: tuple[str, ...] = ()
    evictable_namespaces: Namespaces = Namespaces()

    def errors(self) -> list[str]:
        if self.evictable_namespaces.include:
            return ["only Exclude namespaces can be set, inclusion is not supported"]
        unknown = [f"invalid eviction mode {mode}" for mode in self.eviction_modes if mode != ONLY_THRESHOLDING]
        return threshold_errors(self.thresholds) + unknown


class HighNodeUtilization(Strategy):
    """Evicts from nodes below the thresholds, as long as the others have room."""

    name = "HighNodeUtilization"
    point = BALANCE
    arguments_type = HighNodeUtilizationArguments
    packs = True

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: HighNodeUtilizationArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods of underutilized nodes, the emptiest node first."""
        thresholds = self._arguments.thresholds
        source = RequestedUsage(self.snapshot)
        measured = measure(nodes, (*thresholds, *BASIC), source, self.snapshot)
        whole = dict.fromkeys(thresholds, 100.0)
        low, others = [], []
        for node in nodes:
            use = use_of(node, measured, whole, self.snapshot)
            if is_below(use.percent, thresholds):
                low.append(use)
            elif not node.spec.unschedulable:
                others.append(use)
        if not low or not others or len(low) <= self._arguments.number_of_nodes:
            return
        relocation = Relocation(
            self.handle,
            source,
            measured.names,
            lambda use: f"its node is underutilized: {shown(use.percent, thresholds)}",
            self._selects,
            lambda use, left: has_room(left),
            self._arguments.evictable_namespaces,
        )
        yield from relocation.candidates(in_order(low, emptiest_first=True), others)

    def _selects(self, pod: core_v1.Pod) -> bool:
        if ONLY_THRESHOLDING not in self._arguments.eviction_modes:
            return True
        containers = pod.spec.containers + pod.spec.init_containers
        return any(name in one.resources.requests for one in containers for name in self._arguments.thresholds)
