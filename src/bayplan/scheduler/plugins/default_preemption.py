"""DefaultPreemption: makes room for a pod by evicting pods of lower priority.

For each node that refused the pod for a reason that evictions can cure: take all lower-priority pods away; if the pod
then fits, put back as many as possible, those whose disruption budget would be violated first, then by importance.
What cannot be put back are the victims. The best node is the one with the fewest budget violations, then the lowest
top priority among the victims, then the lowest sum of priorities, then the fewest victims, then the latest start of
the most important victim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from bayplan.scheduler.framework.arguments import DefaultPreemptionArgs
from bayplan.scheduler.framework.extension_points import PostFilterPlugin
from bayplan.scheduler.framework.post_filter import Candidate, PostFilterContext, PostFilterOutcome, start_of
from bayplan.scheduler.framework.state import Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Status
from bayplan.scheduler.snapshot.shape import compiled_or_nothing

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_MEMORIES: Final = 16
"""Kinds of pods for which what was found on each node is remembered."""


def importance(pod: PodInfo) -> tuple[int, str]:
    """Sorts the more important pod first: higher priority, then earlier start."""
    return (-pod.priority, start_of(pod))


@dataclass(slots=True)
class _Refusal:
    reasons: tuple[str, ...]


_Found = Candidate | _Refusal


class DefaultPreemption(PostFilterPlugin):
    """Finds the node where preemption costs least."""

    name = "DefaultPreemption"

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, DefaultPreemptionArgs) else DefaultPreemptionArgs()
        self._memories: dict[tuple[PodShape, int], dict[int, tuple[int, _Found]]] = {}
        self._structure = -1

    def post_filter(self, context: PostFilterContext) -> PostFilterOutcome:
        ineligible = self._ineligible(context)
        if ineligible:
            return PostFilterOutcome(Status.UNSCHEDULABLE, (f"preemption: {ineligible}",))
        candidates, refusals = self._candidates(context)
        if not candidates:
            reason = f"preemption: {self._message(refusals)}"
            return PostFilterOutcome(Status.UNSCHEDULABLE, (reason,), withdraws=True)
        return self.choose(context, candidates)

    def choose(self, context: PostFilterContext, candidates: list[Candidate]) -> PostFilterOutcome:
        """The cheapest candidate."""
        tied = sorted(cheapest(candidates), key=lambda item: self.snapshot.name(item.row))
        chosen = tied[context.pick(len(tied))]
        rivals = context.nominated_to(chosen.row)
        clears = tuple(pod for pod in rivals if pod.priority < context.pod.priority)
        return PostFilterOutcome(None, (), chosen, tuple(tied), tuple(candidates), clears, plugin=self.name)

    def _ineligible(self, context: PostFilterContext) -> str:
        """Why the pod may not preempt; empty if it may."""
        pod = context.pod
        if pod.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        row = self.snapshot.row_of.get(pod.pod.status.nominated_node_name)
        if row is None:
            return ""
        code = int(context.codes[row]) if len(context.codes) > row else 0
        if code > 0 and self.reasons[code].status is Status.UNRESOLVABLE:
            return ""
        for other in self.snapshot.pods_on[row].values():
            if other.priority < pod.priority and _is_being_preempted(other):
                return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _candidates(self, context: PostFilterContext) -> tuple[list[Candidate], list[_Refusal]]:
        rows = self._curable(context)
        wanted = max(
            len(rows) * self.args.min_candidate_nodes_percentage // 100, self.args.min_candidate_nodes_absolute
        )
        if len(rows) > wanted:
            offset = context.pick(len(rows))
            rows = rows[offset:] + rows[:offset]
        candidates: list[Candidate] = []
        refusals: list[_Refusal] = []
        budget_kept = False
        memory = self._memory(context.pod)
        for row in rows:
            found = self._look(context, row, memory)
            if isinstance(found, Candidate):
                candidates.append(found)
                budget_kept = budget_kept or not found.violations
                if budget_kept and len(candidates) >= wanted:
                    break
            else:
                refusals.append(found)
        return candidates, refusals

    def _curable(self, context: PostFilterContext) -> list[int]:
        """Rows refused for a reason that evictions can cure."""
        if context.rejected_early:
            return []
        codes = context.codes
        numbers = [int(code) for code in np.unique(codes) if code > 0]
        curable = [code for code in numbers if self.reasons[code].status is Status.UNSCHEDULABLE]
        rows: list[int] = np.flatnonzero(np.isin(codes, curable)).tolist()
        return rows

    def _look(self, context: PostFilterContext, row: int, memory: dict[int, tuple[int, _Found]]) -> _Found:
        """`_victims_on`, remembered while the pods on the node stay the same."""
        version = self.snapshot.row_versions[row]
        known = memory.get(row)
        if known is not None and known[0] == version and context.is_local(row):
            return known[1]
        found = self._victims_on(context, row)
        if context.is_local(row):
            memory[row] = (version, found)
        return found

    def _memory(self, pod: PodInfo) -> dict[int, tuple[int, _Found]]:
        """What was found for equal pods before, as long as nodes and budgets stay the same."""
        if self._structure != self.snapshot.structure:
            self._structure = self.snapshot.structure
            self._memories.clear()
        key = (pod.shape, pod.priority)
        memory = self._memories.pop(key, {})
        if len(self._memories) >= _MEMORIES:
            del self._memories[next(iter(self._memories))]
        self._memories[key] = memory
        return memory

    def _victims_on(self, context: PostFilterContext, row: int) -> _Found:
        priority = context.pod.priority
        potential = [pod for pod in self.snapshot.pods_on[row].values() if pod.priority < priority]
        if not potential:
            return _Refusal((NO_VICTIMS,))
        victims: list[PodInfo] = []
        violations = 0
        with context.trial(row, potential) as trial:
            code = trial.verdict()
            if code:
                return _Refusal(self.reasons[code].reasons)
            potential.sort(key=importance)
            violating, others = self._by_budget(potential)
            for pod in (*violating, *others):
                trial.put_back(pod)
                if trial.verdict():
                    trial.take_away(pod)
                    victims.append(pod)
                    violations += pod in violating
        if not victims:
            return _Refusal((f'expected at least one victim pod on node "{self.snapshot.name(row)}"',))
        if violating and others:
            victims.sort(key=importance)
        return Candidate(row, tuple(victims), violations)

    def _by_budget(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Pods whose eviction would violate a disruption budget, and the rest; budgets are used up in order."""
        budgets = [
            (budget, compiled_or_nothing(budget.spec.selector), [budget.status.disruptions_allowed])
            for budget in self.snapshot.catalog.disruption_budgets.values()
        ]
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            metadata = pod.pod.metadata
            violated = False
            for budget, selector, left in budgets if metadata.labels else ():
                if budget.metadata.namespace != metadata.namespace or selector.is_everything():
                    continue
                if not selector.matches(metadata.labels) or metadata.name in budget.status.disrupted_pods:
                    continue
                left[0] -= 1
                violated = violated or left[0] < 0
            (violating if violated else others).append(pod)
        return violating, others

    def _message(self, refusals: list[_Refusal]) -> str:
        total = self.snapshot.node_count
        counts = Counter(reason for refusal in refusals for reason in refusal.reasons)
        if len(refusals) < total:
            counts[NOT_HELPFUL] += total - len(refusals)
        return f"0/{total} nodes are available: {', '.join(sorted(f'{n} {reason}' for reason, n in counts.items()))}."


def _is_being_preempted(pod: PodInfo) -> bool:
    return pod.pod.metadata.deletion_timestamp is not None and any(
        item.type == "DisruptionTarget" and item.status == "True" and item.reason == "PreemptionByScheduler"
        for item in pod.pod.status.conditions
    )


def cheapest(candidates: list[Candidate]) -> list[Candidate]:
    """The candidates that tie for the least cost."""
    costs = [candidate.cost for candidate in candidates]
    lowest = min(costs)
    least = [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost == lowest]
    latest = max(candidate.top_start for candidate in least)
    return [candidate for candidate in least if candidate.top_start == latest]
