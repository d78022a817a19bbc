"""Decisions about pods that are not there, by the cycles of a running scheduler.

The pods of a question are decided about one after the other, by priority and then as they were named; each is counted on its node until the answer is there, so
that the next one sees it. Then all is taken back: the scheduler's picture is as before, and nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS
from bayplan.scheduler.cache import Cache
from bayplan.scheduler.configuration.settings import DEFAULT_SCHEDULER_NAME
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.errors import QuestionError
from bayplan.scheduler.extenders.protocol import Questions
from bayplan.scheduler.extenders.steps import decision_of
from bayplan.scheduler.gangs.composite_cycle import CompositeCycle
from bayplan.scheduler.gangs.gang_cycle import GangCycle, Member, minimum_of_group
from bayplan.scheduler.questions.answers import Answer, PodAnswer, details_of, everywhere
from bayplan.scheduler.questions.manifests import AskedPod, Question
from bayplan.scheduler.queueing.nominator import Nominator
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.catalog import object_key
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.group_trees import NewerPodGroup, TreeError
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.tentative import TentativePlacements


def answer(core: SchedulerCore, question: Question, *, explain: bool = False, keeps: bool = False) -> Questions[Answer]:
    """What the scheduler would do with the pods of a question. explain: say it node by node. Raises QuestionError.

    keeps: what is evaluated for the question is kept as long as what is evaluated for pods, instead of being the first to go.

    Extenders are asked as for other pods. Until the answer is there, the core must hear of nothing and schedule nothing.
    """
    asking = _Asking(core, explain)
    with ExitStack() as meanwhile:
        if question.groups or question.composites or question.claims:
            meanwhile.enter_context(_supposed(core, question))
        for cycle in () if keeps else core.cycles.values():
            meanwhile.enter_context(cycle.asked())
        return (yield from asking.run(question.pods))


@contextmanager
def _supposed(core: SchedulerCore, question: Question) -> Iterator[None]:
    """For a while, let the objects be there that would come with the pods. Those that are there already stay as they are."""
    snapshot, catalog = core.snapshot, core.snapshot.catalog
    has_trees = any(COMPOSITE_POD_GROUPS in cycle.profile.feature_gates for cycle in core.cycles.values())
    composites = [one for one in question.composites if has_trees and one.key not in catalog.trees.composites]
    groups = question.groups if has_trees else map(_alone, question.groups)
    named: list[tuple[str, Any]] = [("PodGroup", one) for one in groups]
    named += [("PersistentVolumeClaim", one) for one in question.claims]
    known: dict[str, Container[str]] = {
        "PodGroup": catalog.pod_groups,
        "PersistentVolumeClaim": catalog.claims,
    }
    put: list[tuple[str, str]] = []
    try:
        for one in composites:
            catalog.put_composite(one.key, one)
        for kind, obj in named:
            key = object_key(obj)
            if key not in known[kind]:
                snapshot.put_object(kind, obj)
                put.append((kind, key))
        yield
    finally:
        for kind, key in put:
            snapshot.remove_object(kind, key)
        for one in composites:
            catalog.put_composite(one.key, None)


def _alone(group: Any) -> Any:
    """A pod group that is in no tree, since this scheduler knows none."""
    return msgspec.structs.replace(group, parent="") if isinstance(group, NewerPodGroup) else group


class _Asking:
    """One question on its way."""

    def __init__(self, core: SchedulerCore, explain: bool) -> None:
        self._core = core
        self._explain = explain
        self._placements = TentativePlacements(core.snapshot, Nominator())
        self._answers: dict[str, PodAnswer] = {}
        self._told: set[tuple[str, bool]] = set()
        """Workloads, and whether a pod of theirs found a node, of which the details have been given."""
        self._placed: list[str] = []
        """Keys of the pods that are counted on nodes, in this order."""
        self._refused: dict[int, Decision] = {}
        """By shape, decisions that no pod placed since can have changed."""

    def run(self, asked: Sequence[AskedPod]) -> Questions[Answer]:
        """Decide about all pods, and take them back."""
        snapshot = self._core.snapshot
        infos = [(one, self._info(one)) for one in asked]
        gangs: dict[str, list[PodInfo]] = {}
        try:
            for left, (one, info) in enumerate(sorted(infos, key=lambda item: -item[1].priority), 1 - len(infos)):
                group = group_key(info.pod)
                if group and minimum_of_group(snapshot, info.pod) is not None:
                    gangs.setdefault(group, []).append(info)
                else:
                    yield from self._decide(one, info, is_last=not left and not gangs)
            trees: dict[str, dict[str, list[PodInfo]]] = {}
            for group, members in gangs.items():
                trees.setdefault(self._root_of(group) or group, {})[group] = members
            for root, parts in trees.items():
                yield from self._decide_gangs(root, parts)
        finally:
            for key in reversed(self._placed):
                self._placements.take_back(key)
        return Answer([self._answers[info.key] for _, info in infos], snapshot.node_count)

    def _info(self, one: AskedPod) -> PodInfo:
        """The pod as the scheduler holds it. Raises QuestionError."""
        info = self._core.snapshot.pod_info(self._core.custom_groups.joined(one.pod), pending=True)
        if self._core.cycle_for(info) is None:
            name = one.pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
            raise QuestionError(f"pod {info.key}: spec.schedulerName: this scheduler has no profile {name!r}")
        if info.key in self._answers:
            raise QuestionError(f"pod {info.key} is asked about twice")
        if info.key in self._core.snapshot.pods:
            raise QuestionError(
                f"pod {info.key} is there already, on node {self._core.snapshot.pods[info.key].node_name}"
            )
        self._answers[info.key] = PodAnswer(info.key, one.workload)
        return info

    def _cycle(self, info: PodInfo) -> Cycle:
        cycle = self._core.cycle_for(info)
        assert cycle is not None
        return cycle

    def _decide(self, one: AskedPod, info: PodInfo, *, is_last: bool) -> Questions[None]:
        """Decide about a pod, and count it on its node unless nobody comes after it and nothing is reserved for it."""
        cycle, found = self._cycle(info), self._answers[info.key]
        known = self._refused.get(id(info.shape))
        if known is not None:
            return self._note(found, known)
        is_told = self._explain or (one.workload, True) not in self._told
        decision = yield from decision_of(
            cycle,
            self._core.settings.extenders,
            info,
            full=is_told,
            explain=self._explain,
            scored=self._explain,
            brief=is_told,
        )
        if one.everywhere:
            found.details = everywhere(decision)
            found.scheduled = bool(found.details["fits"])
            return None
        if decision.scheduled and is_last and not cycle.profile.plugin_plan(info.shape).reserve:
            return self._note(found, decision)
        if decision.scheduled:
            self._placements.place(cycle, info, decision)
        if decision.scheduled:
            self._placed.append(info.key)
            self._refused.clear()
        else:
            self._refused[id(info.shape)] = decision
        return self._note(found, decision)

    def _note(self, found: PodAnswer, decision: Decision) -> None:
        found.node = decision.node or ""
        found.scheduled = decision.scheduled
        told = (found.workload, found.scheduled)
        if self._explain or told not in self._told:
            self._told.add(told)
            found.details = details_of(decision, explain=self._explain)

    def _root_of(self, group: str) -> str:
        """The composite group on top of a pod group; "" if it stands alone, or its tree is not complete, which its pods are told at the gate."""
        trees = self._core.snapshot.catalog.trees
        try:
            return trees.root_of(group)
        except TreeError:
            return ""

    def _decide_gangs(self, root: str, infos: Mapping[str, Sequence[PodInfo]]) -> Questions[None]:
        """Decide about the pods of a gang, or of the gangs of a tree, together, as the scheduler does once all are there.

        root: the topmost composite group, or the gang itself.
        """
        core, snapshot = self._core, self._core.snapshot
        everybody = [(group, info) for group, members in infos.items() for info in members]
        cycle = self._cycle(everybody[0][1])
        for group, info in everybody:
            if self._cycle(info) is not cycle:
                raise QuestionError(f"pod group {group}: the pods of {root} name different schedulers")
        there = {group: set(snapshot.gangs.members(group)) for group in infos}
        for group, info in everybody:
            snapshot.gangs.add(group, info.key)
        cache = Cache(snapshot)
        gang_cycle = GangCycle(cycle, cache, core.settings.extenders, scored=True)
        gangs = {group: [QueuedPod(info, (), 0.0) for info in members] for group, members in infos.items()}
        members: list[Member] = []
        try:
            if root in gangs:
                minimum = minimum_of_group(snapshot, everybody[0][1].pod) or 0
                members, _ = yield from gang_cycle.run(gangs[root], minimum)
            else:
                tree = yield from CompositeCycle(gang_cycle, root, gangs).run()
                members = [member for one in tree.members.values() for member in one]
            for member in members:
                self._note(self._answers[member.queued.pod.key], member.decision)
        finally:
            for member in reversed(members):
                if member.binding_cycle is not None:
                    member.binding_cycle.undo()
                    cache.forget(member.queued.pod.key)
            for group, info in everybody:
                if info.key not in there[group]:
                    snapshot.gangs.remove(group, info.key)
