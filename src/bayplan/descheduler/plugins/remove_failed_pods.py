"""RemoveFailedPods: pods that have failed. Source: the descheduler's `removefailedpods`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import Count, Int32, PodSelection
from bayplan.descheduler.framework import DESCHEDULE, Candidate, Candidates, Handle, Strategy, each
from bayplan.descheduler.pods import age, container_statuses, exit_codes, first_of, owner_kinds, state_reasons


class RemoveFailedPodsArguments(PodSelection, frozen=True, kw_only=True):
    """Arguments of RemoveFailedPods."""

    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: Count | None = None
    reasons: tuple[str, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False


class RemoveFailedPods(Strategy):
    """Evicts failed pods that meet every criterion."""

    name = "RemoveFailedPods"
    point = DESCHEDULE
    arguments_type = RemoveFailedPodsArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: RemoveFailedPodsArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield failed pods, node by node."""
        selects = self._arguments.selects()
        yield from each(
            [
                Candidate(pod, f"it has failed{self._detail(pod)}")
                for node in nodes
                for pod in self.snapshot.all_pods_on(node.metadata.name)
                if pod.status.phase == "Failed" and selects(pod) and self._is_meant(pod)
            ]
        )

    def _is_meant(self, pod: core_v1.Pod) -> bool:
        arguments = self._arguments
        least = arguments.min_pod_lifetime_seconds
        if least is not None and age(pod, self.snapshot.now) < least:
            return False
        if owner_kinds(pod) & set(arguments.exclude_owner_kinds):
            return False
        if arguments.reasons and not self._reason(pod):
            return False
        statuses = container_statuses(pod, init=arguments.including_init_containers)
        return not arguments.exit_codes or any(code in arguments.exit_codes for code in exit_codes(statuses))

    def _reason(self, pod: core_v1.Pod) -> str:
        statuses = container_statuses(pod, init=self._arguments.including_init_containers)
        return first_of((*state_reasons(statuses), pod.status.reason), self._arguments.reasons)

    def _detail(self, pod: core_v1.Pod) -> str:
        reason = self._reason(pod) or pod.status.reason
        return f": {reason}" if reason else ""
