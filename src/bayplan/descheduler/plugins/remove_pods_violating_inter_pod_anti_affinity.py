"""RemovePodsViolatingInterPodAntiAffinity: pods that must not run beside others. Source: the descheduler's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import PodSelection
from bayplan.descheduler.framework import DESCHEDULE, Answer, Candidate, Candidates, Handle, Strategy
from bayplan.descheduler.pod_affinity import AntiAffinityViolations
from bayplan.descheduler.pods import priority_order
from bayplan.descheduler.snapshot import key_of


class RemovePodsViolatingInterPodAntiAffinityArguments(PodSelection, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingInterPodAntiAffinity."""


class RemovePodsViolatingInterPodAntiAffinity(Strategy):
    """Evicts as few pods as needed: once a pod is gone, it disturbs nobody."""

    name = "RemovePodsViolatingInterPodAntiAffinity"
    point = DESCHEDULE
    arguments_type = RemovePodsViolatingInterPodAntiAffinityArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: RemovePodsViolatingInterPodAntiAffinityArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods whose required anti-affinity forbids another pod that is there, those of low priority first."""
        selects = self._arguments.selects()
        by_name = {node.metadata.name: node for node in nodes}
        pods = {name: [pod for pod in self.snapshot.pods_on(name) if selects(pod)] for name in by_name}
        every = [pod for several in pods.values() for pod in several]
        violations = AntiAffinityViolations(every, by_name, self.snapshot)
        for several in pods.values():
            for pod in priority_order(several):
                other = violations.of(pod)
                if other is None:
                    continue
                answer = yield Candidate(pod, f"its anti-affinity forbids pod {'/'.join(key_of(other))}")
                if answer is Answer.EVICTED:
                    violations.remove(pod)
                elif answer is Answer.NODE_LIMIT:
                    break
