"""DefaultPreemption: makes room for a pod by evicting pods of lower priority.

For each node that refused the pod for a reason that evictions can cure: take all lower-priority pods away; if the pod
then fits, put back as many as possible, those whose disruption budget would be violated first, then by importance.
What cannot be put back are the victims. The best node is the one with the fewest budget violations, then the lowest
top priority among the victims, then the lowest sum of priorities, then the fewest victims, then the latest start of
the most important victim.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bayplan.api.feature_gates import TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from bayplan.scheduler.framework.arguments import DefaultPreemptionArgs
from bayplan.scheduler.framework.disruption import DisruptionLimits, is_being_preempted
from bayplan.scheduler.framework.extension_points import EVERY_ROW, Moved, PostFilterPlugin
from bayplan.scheduler.framework.post_filter import Candidate, PostFilterContext, PostFilterOutcome, start_of
from bayplan.scheduler.framework.preemption_cache import LowestPriority, PreemptionCache, cache_of
from bayplan.scheduler.framework.state import Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Status
from bayplan.scheduler.snapshot.gangs import group_key, is_constrained
from bayplan.scheduler.snapshot.labels import Bools, IntRows

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_GROUP: Final = "pod group for pod not found"
BY_PLACEMENT: Final = "not eligible due to placement-based pod group scheduling limitation"
BY_GROUP: Final = "not eligible due to workload aware preemption enabled"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_MOST_CACHES: Final = 16
"""Kinds of pods for which what was found on each node is remembered."""


def by_importance(pods: list[PodInfo]) -> list[PodInfo]:
    """The more important pods first: higher priority, then earlier start.

    A pod that has not started counts as started now, which is ever later as pods are compared one after the other; so,
    in kube-scheduler, the last of several is the most important.
    """
    if len(pods) < 2:
        return pods
    started = [pod for pod in pods if pod.start_time]
    waiting = [pod for pod in reversed(pods) if not pod.start_time]
    return sorted(started + waiting, key=_importance)


def _importance(pod: PodInfo) -> tuple[int, str]:
    return -pod.priority, start_of(pod)


class DefaultPreemption(PostFilterPlugin):
    """Finds the node where preemption costs least."""

    name = "DefaultPreemption"

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, DefaultPreemptionArgs) else DefaultPreemptionArgs()
        self._caches: dict[tuple[PodShape, int], PreemptionCache] = {}
        self._lowest = LowestPriority(self.snapshot)
        self._curable_codes: Bools = np.zeros(1, dtype=np.bool_)

    def post_filter(self, context: PostFilterContext) -> PostFilterOutcome:
        ineligible = self._ineligible(context)
        if ineligible:
            return PostFilterOutcome(Status.UNSCHEDULABLE, (f"preemption: {ineligible}",))
        cache, own = self._cache(context), context.own_row()
        unlike: Moved = EVERY_ROW if context.is_cross_node() else [own] if own is not None else []
        cache.forget(unlike)
        try:
            return self._outcome(context, cache)
        finally:
            cache.forget(unlike)

    def _outcome(self, context: PostFilterContext, cache: PreemptionCache) -> PostFilterOutcome:
        found = self._candidates(context, cache)
        failures = cache.failures() if not len(found) else []
        if failures:
            text = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
            return PostFilterOutcome(Status.ERROR, (f"preemption: {text}",))
        if not len(found):
            reason = f"preemption: {self._message(cache.refusals(), len(cache.rows))}"
            return PostFilterOutcome(Status.UNSCHEDULABLE, (reason,), withdraws=True)
        return self._choose(context, cache, found)

    def choose(self, context: PostFilterContext, candidates: list[Candidate]) -> PostFilterOutcome:
        """The cheapest of the candidates that extenders leave."""
        return self._choose(context, *cache_of(self.snapshot, candidates))

    def _choose(self, context: PostFilterContext, cache: PreemptionCache, rows: IntRows) -> PostFilterOutcome:
        tied = cache.cheapest(rows)
        chosen = 0
        if len(tied) > 1:
            place = context.pick(len(tied))
            chosen = int(np.argpartition(context.ranks()[tied], place)[place])
        row = int(tied[chosen])
        candidates = cache.candidates(rows)
        best = candidates if len(tied) == len(rows) else cache.candidates(tied)
        clears = tuple(pod for pod in context.nominated_to(row) if pod.priority < context.pod.priority)
        return PostFilterOutcome(None, (), best[chosen], best, candidates, clears, choose=self.choose)

    def _ineligible(self, context: PostFilterContext) -> str:
        """Why the pod may not preempt; empty if it may."""
        pod = context.pod
        if pod.pod.spec.scheduling_group is not None and self.handle.feature_gates:
            reason = self._left_to_group(pod)
            if reason:
                return reason
        if pod.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        row = self.snapshot.row_of.get(pod.pod.status.nominated_node_name)
        if row is None:
            return ""
        if self.reasons[context.codes.item(row)].status is Status.UNRESOLVABLE:
            return ""
        for other in self.snapshot.pods_on[row].values():
            if other.priority < pod.priority and is_being_preempted(other):
                return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _left_to_group(self, pod: PodInfo) -> str:
        """Why room is not made for a pod of a group by itself; empty if it is."""
        key = group_key(pod.pod)
        group = self.snapshot.catalog.pod_groups.get(key)
        if self.snapshot.catalog.trees.is_child(key):
            return BY_GROUP
        if TOPOLOGY_AWARE in self.handle.feature_gates and (group is None or is_constrained(group)):
            return NO_GROUP if group is None else BY_PLACEMENT
        return BY_GROUP if WORKLOAD_PREEMPTION in self.handle.feature_gates else ""

    def _candidates(self, context: PostFilterContext, cache: PreemptionCache) -> IntRows:
        """The rows of the first candidates, from a random one of the rows in question on: as many as the settings want,
        with one that violates no budget among them if there is one."""
        cache.ask_about(np.zeros_like(context.codes) if context.rejected_early else context.codes, self._curable())
        rows = cache.rows
        wanted = max(
            len(rows) * self.args.min_candidate_nodes_percentage // 100, self.args.min_candidate_nodes_absolute
        )
        first = rows.item(context.pick(len(rows))) if len(rows) > wanted else 0
        unknown = cache.unknown()
        if len(unknown):
            is_vain = self._lowest.now()[unknown] >= context.pod.priority
            if is_vain.any():
                cache.refuse(unknown[is_vain], (NO_VICTIMS,))
                unknown = unknown[~is_vain]
            for row in cache.to_look_at(unknown, first, wanted):
                self._look_at(context, row, cache)
        return cache.found(first, wanted)

    def _curable(self) -> Bools:
        """Which verdicts are refusals that evictions can cure."""
        if len(self._curable_codes) <= len(self.reasons):
            curable = [self.reasons[code].status is Status.UNSCHEDULABLE for code in range(len(self.reasons))]
            # Code 0 is no refusal; the last entry is that of rows which are not nodes, -1.
            self._curable_codes = np.array([False, *curable[1:], False], dtype=np.bool_)
        return self._curable_codes

    def _cache(self, context: PostFilterContext) -> PreemptionCache:
        """What was found for equal pods before, as long as nodes and budgets stay the same."""
        key = (context.pod.shape, context.pod.priority)
        cache = self._caches.pop(key, None)
        if cache is None or cache.structure != self.snapshot.structure:
            cache = PreemptionCache(self.snapshot)
        cache.catch_up()
        moved, cache.nominations = context.nominated_since(cache.nominations)
        cache.forget(moved)
        while len(self._caches) >= _MOST_CACHES:
            del self._caches[next(iter(self._caches))]
        self._caches[key] = cache
        return cache

    def _look_at(self, context: PostFilterContext, row: int, cache: PreemptionCache) -> None:
        """Find out what evictions on a node would achieve."""
        priority = context.pod.priority
        potential = [pod for pod in self.snapshot.pods_on[row].values() if pod.priority < priority]
        victims: list[PodInfo] = []
        violations = 0
        with context.what_if(row, potential) as what_if:
            code = what_if.verdict()
            if code:
                reason = self.reasons[code]
                if reason.status is Status.ERROR:
                    cache.fail(row, reason.reasons[0])
                else:
                    cache.refuse(row, reason.reasons)
                return
            violating, others = self._by_budget(by_importance(potential))
            for pod in (*violating, *others):
                what_if.put_back(pod)
                if what_if.verdict():
                    what_if.take_away(pod)
                    victims.append(pod)
                    violations += pod in violating
        if not victims:
            cache.fail(row, f'expected at least one victim pod on node "{self.snapshot.name(row)}"')
            return
        if violating and others:
            victims = by_importance(victims)
        cache.offer(Candidate(row, tuple(victims), violations))

    def _by_budget(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Pods whose eviction would violate a disruption budget, and the rest; budgets are used up in order."""
        if not self.snapshot.catalog.disruption_budgets:
            return [], pods
        limits = DisruptionLimits(self.snapshot.catalog)
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            (violating if limits.is_violated_by(pod) else others).append(pod)
        return violating, others

    def _message(self, counts: dict[str, int], looked_at: int) -> str:
        total = self.snapshot.node_count
        if looked_at < total:
            counts[NOT_HELPFUL] = counts.get(NOT_HELPFUL, 0) + total - looked_at
        return f"0/{total} nodes are available: {', '.join(sorted(f'{n} {reason}' for reason, n in counts.items()))}."
