"""RemovePodsViolatingNodeAffinity: pods whose node no longer is what they ask for. Source: the descheduler's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.api.selectors.nodes import pod_may_run_on, required_of
from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import PodSelection, one_of
from bayplan.descheduler.framework import DESCHEDULE, Candidate, Candidates, Handle, Strategy, each
from bayplan.descheduler.node_fit import fits_any, preferred_weight

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class RemovePodsViolatingNodeAffinityArguments(PodSelection, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingNodeAffinity."""

    node_affinity_type: tuple[str, ...] = ()

    def errors(self) -> list[str]:
        found = super().errors()
        if not self.node_affinity_type:
            found.append("nodeAffinityType needs to be set")
        return found + one_of(self.node_affinity_type, (REQUIRED, PREFERRED), "nodeAffinityType")


class RemovePodsViolatingNodeAffinity(Strategy):
    """Evicts pods that another node satisfies, or satisfies better."""

    name = "RemovePodsViolatingNodeAffinity"
    point = DESCHEDULE
    arguments_type = RemovePodsViolatingNodeAffinityArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: RemovePodsViolatingNodeAffinityArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods, type by type and node by node."""
        selects = self._arguments.selects()
        for kind in self._arguments.node_affinity_type:
            reason_of = self._required if kind == REQUIRED else self._preferred
            for node in nodes:
                found = []
                for pod in self.snapshot.pods_on(node.metadata.name):
                    reason = reason_of(pod, node, nodes) if selects(pod) else ""
                    if reason and fits_any(pod, nodes, self.snapshot):
                        found.append(Candidate(pod, reason))
                yield from each(found)

    def _required(self, pod: core_v1.Pod, node: core_v1.Node, nodes: Sequence[core_v1.Node]) -> str:
        """Upstream looks at pods with a required node affinity only, not at those with nothing but a node selector."""
        broken = required_of(pod.spec) is not None and not pod_may_run_on(pod.spec, node)
        return "its node does not satisfy its required node affinity" if broken else ""

    def _preferred(self, pod: core_v1.Pod, node: core_v1.Node, nodes: Sequence[core_v1.Node]) -> str:
        here = preferred_weight(pod, node)
        best = max((preferred_weight(pod, one) for one in nodes), default=0)
        return f"another node satisfies its preferred node affinity better, {best} to {here}" if best > here else ""
