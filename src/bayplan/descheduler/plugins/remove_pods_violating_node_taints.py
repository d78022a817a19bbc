"""RemovePodsViolatingNodeTaints: pods that do not tolerate a taint of their node. Source: the descheduler's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.api.pods.tolerations import untolerated
from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import PodSelection
from bayplan.descheduler.framework import DESCHEDULE, Candidate, Candidates, Handle, Strategy, each


class RemovePodsViolatingNodeTaintsArguments(PodSelection, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingNodeTaints. Taints are given as `KEY` or `KEY=VALUE`."""

    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()

    def errors(self) -> list[str]:
        found = super().errors()
        if self.excluded_taints and self.included_taints:
            found.append("either includedTaints or excludedTaints can be set, but not both")
        return found

    def counts(self, taint: core_v1.Taint) -> bool:
        """Whether a taint is looked at."""
        names = {taint.key, f"{taint.key}={taint.value}"} if taint.value else {taint.key}
        return not names & set(self.excluded_taints) and (
            not self.included_taints or bool(names & set(self.included_taints))
        )


class RemovePodsViolatingNodeTaints(Strategy):
    """Evicts pods from nodes with taints that they do not tolerate. NoExecute taints are not its affair: the taint manager's."""

    name = "RemovePodsViolatingNodeTaints"
    point = DESCHEDULE
    arguments_type = RemovePodsViolatingNodeTaintsArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: RemovePodsViolatingNodeTaintsArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods that do not tolerate a taint, node by node."""
        selects = self._arguments.selects()
        effects = ("NoSchedule", *(("PreferNoSchedule",) * self._arguments.include_prefer_no_schedule))
        for node in nodes:
            taints = [taint for taint in node.spec.taints if self._arguments.counts(taint)]
            found = []
            for pod in self.snapshot.pods_on(node.metadata.name) if taints else ():
                taint = untolerated(pod.spec.tolerations, taints, effects) if selects(pod) else None
                if taint is not None:
                    found.append(Candidate(pod, f"it does not tolerate taint {_shown(taint)} of its node"))
            yield from each(found)


def _shown(taint: core_v1.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
