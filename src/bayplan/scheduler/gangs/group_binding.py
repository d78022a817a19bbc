"""The bindings of a pod group, written together: one call for all pods of which nothing but the Binding is left to be done.

Pods that a plugin has something to do with, or of which it is still being told that they did not fit before, are bound
each by itself (`binding.carry_out`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bayplan.scheduler.binding import ClientActions
from bayplan.scheduler.binding_cycle import BindingCycle, Failure, failed
from bayplan.scheduler.core import Outcome
from bayplan.scheduler.framework.meter import SUCCESS
from bayplan.scheduler.metrics import SchedulerMetrics
from bayplan.scheduler.profile import DEFAULT_BINDER
from bayplan.support.clock import Clock

MOST_AT_ONCE: Final = 64
"""Bindings in one call: fewer than may be written at once, or their turn would never come."""


@dataclass(frozen=True, slots=True)
class _Placed:
    outcome: Outcome
    binding_cycle: BindingCycle
    started: float


class GroupBinding:
    """The pods of one group that wait to be bound together."""

    def __init__(
        self,
        actions: ClientActions,
        clock: Clock,
        metrics: SchedulerMetrics,
        *,
        committed: Callable[[str], None],
        bound: Callable[[Outcome, str, float], None],
        failed_to_bind: Callable[[Outcome, Failure, float], Awaitable[None]],
    ) -> None:
        """committed: nothing can find the pod (`namespace/name`) unfit any more. bound, failed_to_bind: what came of an outcome, decided about at a time."""
        self._actions = actions
        self._clock = clock
        self._metrics = metrics
        self._committed = committed
        self._bound = bound
        self._failed_to_bind = failed_to_bind
        self._placed: list[_Placed] = []

    def __len__(self) -> int:
        """Pods that wait."""
        return len(self._placed)

    @property
    def is_full(self) -> bool:
        """Whether it is time to write what there is."""
        return len(self._placed) >= MOST_AT_ONCE

    def add(self, outcome: Outcome, binding_cycle: BindingCycle, started: float) -> None:
        """One more pod, whose binding cycle is ready to bind."""
        if binding_cycle.waiting is not None:
            self._metrics.waited_on_permit("Success", 0.0)
        binding_cycle.settle()
        self._committed(binding_cycle.pod.key)
        self._placed.append(_Placed(outcome, binding_cycle, started))

    async def take(self) -> Callable[[], Awaitable[None]]:
        """Wait until all that are there may be written. Returns what writes them."""
        placed, self._placed = self._placed, []
        for _ in placed:
            await self._actions.take_slot()
        return lambda: self._write(placed)

    async def _write(self, placed: list[_Placed]) -> None:
        started = self._clock.monotonic()
        try:
            problems = await self._actions.write_bindings(
                [(one.binding_cycle.pod, one.binding_cycle.node_name) for one in placed]
            )
        finally:
            for _ in placed:
                self._actions.slots.release()
        seconds = self._clock.monotonic() - started
        for one, problem in zip(placed, problems, strict=True):
            status = SUCCESS if problem is None else "Error"
            self._metrics.point("Bind", status, one.outcome.decision.profile, seconds)
            if problem is None:
                self._bound(one.outcome, one.binding_cycle.node_name, one.started)
            else:
                one.binding_cycle.undo()
                await self._failed_to_bind(one.outcome, failed("Bind", DEFAULT_BINDER, problem), one.started)
