"""RemovePodsHavingTooManyRestarts: pods whose containers were restarted often. Source: the descheduler's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import Int32, PodSelection, one_of
from bayplan.descheduler.framework import DESCHEDULE, Candidate, Candidates, Handle, Strategy, each
from bayplan.descheduler.pods import container_statuses, first_of, state_reasons

_STATES: Final = ("Running", "CrashLoopBackOff")


class RemovePodsHavingTooManyRestartsArguments(PodSelection, frozen=True, kw_only=True):
    """Arguments of RemovePodsHavingTooManyRestarts."""

    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False
    states: tuple[str, ...] = ()

    def errors(self) -> list[str]:
        found = super().errors()
        if self.pod_restart_threshold < 1:
            found.append("invalid PodsHavingTooManyRestarts threshold")
        return found + one_of(self.states, _STATES, "states")


class RemovePodsHavingTooManyRestarts(Strategy):
    """Evicts pods from a number of restarts on, of each node those with the most first."""

    name = "RemovePodsHavingTooManyRestarts"
    point = DESCHEDULE
    arguments_type = RemovePodsHavingTooManyRestartsArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: RemovePodsHavingTooManyRestartsArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods with at least as many restarts as the threshold, node by node."""
        selects, least = self._arguments.selects(), self._arguments.pod_restart_threshold
        for node in nodes:
            counted = [
                (self._restarts(pod), pod)
                for pod in self.snapshot.all_pods_on(node.metadata.name)
                if selects(pod) and self._has_state(pod)
            ]
            yield from each(
                [
                    Candidate(pod, f"its containers were restarted {count} times, at least {least}")
                    for count, pod in sorted(counted, key=lambda one: -one[0])
                    if count >= least
                ]
            )

    def _restarts(self, pod: core_v1.Pod) -> int:
        statuses = container_statuses(pod, init=self._arguments.including_init_containers)
        return sum(status.restart_count for status in statuses)

    def _has_state(self, pod: core_v1.Pod) -> bool:
        states = self._arguments.states
        statuses = container_statuses(pod, init=self._arguments.including_init_containers)
        waiting = state_reasons(statuses, terminated=False)
        return not states or bool(first_of((pod.status.phase, *waiting), states))
