"""Trying changes: the scheduler decides about the changed pod in the changed cluster, which is then as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.library import Planner
from bayplan.scheduler.planning.reasons import every_refusal, limits_in
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.simulation.fixes.base import Candidate, Change, Fix, Supposed, replace_pod, strongest
from bayplan.simulation.fixes.changes import candidates
from bayplan.simulation.fixes.devices import Holders, evicted_by, eviction, freeing_devices
from bayplan.simulation.fixes.selectors import labelled, with_terms
from bayplan.simulation.questions.consolidate_rules import belongs_to_node

_ABOVE_ALL: Final = 2_000_001_000
"""A priority above every other: whoever has it could evict anybody."""
_SHOWN_EVICTIONS: Final = 3


class Trial:
    """Tries changes on one planner. `still`: the pod, which evicts nobody by itself."""

    def __init__(
        self,
        planner: Planner,
        nodes: Mapping[str, core_v1.Node],
        still: core_v1.Pod,
        siblings: frozenset[str] = frozenset(),
    ) -> None:
        self.planner = planner
        self.nodes = nodes
        self.still = still
        self.siblings = siblings
        """`namespace/name` of pods whose eviction is never proposed."""
        self.tried = 0
        """How many states of affairs the scheduler was asked about."""
        self.holders = Holders(planner.snapshot)

    def decide(self, state: Supposed) -> Decision:
        """What the scheduler says in a state of affairs."""
        self.tried += 1
        with self._supposing(state):
            return self.planner.decide(state.pod)

    def after(self, changes: Iterable[Change]) -> Supposed:
        """The state of affairs after some changes."""
        state = Supposed(self.still)
        for change in changes:
            state = change.apply(state)
        return state

    def works(self, changes: Iterable[Change]) -> str:
        """The node on which the pod is placed after some changes; empty if there is none."""
        return self.decide(self.after(changes)).node or ""

    def candidates(self, state: Supposed) -> list[Candidate]:
        """The changes of pod and nodes that come into question in a state of affairs."""
        pod = state.pod
        decision = self.decide(state)
        with self._supposing(state):
            limits = limits_in(every_refusal(self.planner, pod))
        known = list(candidates(pod, decision, self.nodes, limits))
        spec = with_terms(pod.spec, ())
        if spec is not pod.spec or spec.node_selector:
            anywhere = self.decide(replace_pod(state, replace(pod, spec=replace(spec, node_selector={}))))
            verdicts = zip(anywhere.names, anywhere.codes.tolist(), strict=False)
            known += labelled(pod, self.nodes, sorted(name for name, code in verdicts if code == 0 and name))
        return known

    @contextmanager
    def _supposing(self, state: Supposed) -> Iterator[None]:
        planner, snapshot = self.planner, self.planner.snapshot
        for node in state.nodes.values():
            planner.add("Node", node)
        gone = [info for key in state.evicted if (info := snapshot.remove_pod(key)) is not None]
        places = [info.node_name for info in gone]
        daemons = []
        if state.added is not None:
            planner.add("Node", state.added.node(1))
            for pod in state.added.pods(1):
                planner.add("Pod", pod)
                daemons.append(pod_key(pod))
        try:
            with self.holders.without(state.evicted):
                yield
        finally:
            for key in daemons:
                planner.remove(key)
            if state.added is not None:
                snapshot.remove_node(state.added.node(1).metadata.name)
            for info, node_name in zip(gone, places, strict=True):
                snapshot.place(info, node_name)
            for name in state.nodes:
                planner.add("Node", self.nodes[name])

    def fix(self, candidates: tuple[Candidate, ...]) -> Fix | None:
        """The candidates together, each in the weakest form that helps; None if they do not help even in the strongest."""
        changes = tuple(strongest(one) for one in candidates)
        node = self.works(changes)
        if not node:
            return None
        softer = changes
        for index, candidate in enumerate(candidates):
            change = self._softened(candidate, (*softer[:index], *softer[index + 1 :]))
            softer = (*softer[:index], change, *softer[index + 1 :])
        return Fix(softer, self.works(softer) if softer != changes else node)

    def _softened(self, candidate: Candidate, others: tuple[Change, ...]) -> Change:
        """The weakest form of a change that helps together with others."""
        if isinstance(candidate, Change):
            return candidate
        works, fails = candidate.strongest, candidate.weakest - 1
        while works - fails > 1:
            middle = (works + fails) // 2
            if self.works((*others, candidate.at(middle))):
                works = middle
            else:
                fails = middle
        return candidate.at(works)

    def evictions(self, changes: tuple[Change, ...]) -> Iterator[Fix]:
        """Pods whose eviction makes room after some changes: as preemption would choose them if the pod were above all others,
        and those that have the devices that the pod lacks."""
        found = list(self._preempting(changes))
        known = {evicted_by(fix) for fix in found}
        if self.holders:
            freeing = freeing_devices(self, changes, _SHOWN_EVICTIONS)
            found += [fix for fix in freeing if evicted_by(fix) not in known]
        yield from found

    def is_kept(self, pod: core_v1.Pod) -> bool:
        """Whether it is of no use to evict a pod: it belongs to its node, or comes again as the pod does for which room is made."""
        return belongs_to_node(pod) or pod_key(pod) in self.siblings

    def _preempting(self, changes: tuple[Change, ...]) -> Iterator[Fix]:
        state = self.after(changes)
        spec = replace(state.pod.spec, priority=_ABOVE_ALL, preemption_policy="PreemptLowerPriority")
        self.tried += 1
        with self._supposing(state):
            decision = self.planner.decide(replace(state.pod, spec=spec))
        outcome = decision.post_filter
        if outcome is None or outcome.nominated is None:
            return
        ordered = sorted(outcome.candidates, key=lambda one: (one.cost, decision.names[one.row]))
        evictable = [one for one in ordered if not any(self.is_kept(victim.pod) for victim in one.victims)]
        for one in evictable[:_SHOWN_EVICTIONS]:
            change = eviction([victim.pod for victim in one.victims], decision.names[one.row], one.violations)
            node = self.works((*changes, change))
            if node:
                yield Fix((*changes, change), node)
