"""Decisions about pods that are not there, by the cycles of a running scheduler.

The pods of a question are decided about one after the other, by priority and then as they were named; each is counted on its node until the answer is there, so
that the next one sees it. Then all is taken back: the scheduler's picture is as before, and nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from bayplan.scheduler.cache import Cache
from bayplan.scheduler.configuration.settings import DEFAULT_SCHEDULER_NAME
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.extenders.protocol import Questions
from bayplan.scheduler.extenders.steps import decision_of
from bayplan.scheduler.gang_cycle import GangCycle, minimum_of_group
from bayplan.scheduler.nominator import Nominator
from bayplan.scheduler.questions.answers import Answer, PodAnswer, details_of, everywhere
from bayplan.scheduler.questions.errors import QuestionError
from bayplan.scheduler.questions.manifests import AskedPod, Question
from bayplan.scheduler.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.catalog import object_key
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.tentative import TentativePlacements


def answer(core: SchedulerCore, question: Question, *, explain: bool = False, keeps: bool = False) -> Questions[Answer]:
    """What the scheduler would do with the pods of a question. explain: say it node by node. Raises QuestionError.

    keeps: what is evaluated for the question is kept as long as what is evaluated for pods, instead of being the first to go.

    Extenders are asked as for other pods. Until the answer is there, the core must hear of nothing and schedule nothing.
    """
    asking = _Asking(core, explain)
    with ExitStack() as meanwhile:
        meanwhile.enter_context(_supposed(core, question))
        for cycle in () if keeps else core.cycles.values():
            meanwhile.enter_context(cycle.asked())
        return (yield from asking.run(question.pods))


@contextmanager
def _supposed(core: SchedulerCore, question: Question) -> Iterator[None]:
    """For a while, let the objects be there that would come with the pods. Those that are there already stay as they are."""
    snapshot = core.snapshot
    named: list[tuple[str, Any]] = [("PodGroup", one) for one in question.groups]
    named += [("PersistentVolumeClaim", one) for one in question.claims]
    known: dict[str, Container[str]] = {
        "PodGroup": snapshot.catalog.pod_groups,
        "PersistentVolumeClaim": snapshot.catalog.claims,
    }
    put: list[tuple[str, str]] = []
    try:
        for kind, obj in named:
            key = object_key(obj)
            if key not in known[kind]:
                snapshot.put_object(kind, obj)
                put.append((kind, key))
        yield
    finally:
        for kind, key in put:
            snapshot.remove_object(kind, key)


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
            for group, members in gangs.items():
                yield from self._decide_gang(group, members)
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

    def _decide_gang(self, group: str, infos: list[PodInfo]) -> Questions[None]:
        """Decide about the pods of a gang together, as the scheduler does once all are there."""
        core = self._core
        cycle, snapshot = self._cycle(infos[0]), core.snapshot
        if any(self._cycle(info) is not cycle for info in infos):
            raise QuestionError(f"pod group {group}: its pods name different schedulers")
        there = set(snapshot.gangs.members(group))
        for info in infos:
            snapshot.gangs.add(group, info.key)
        cache = Cache(snapshot)
        gang = [QueuedPod(info, (), 0.0) for info in infos]
        members: list[Any] = []
        try:
            minimum = minimum_of_group(snapshot, infos[0].pod) or 0
            members, _ = yield from GangCycle(cycle, cache, core.settings.extenders, scored=True).run(gang, minimum)
            for member in members:
                self._note(self._answers[member.queued.pod.key], member.decision)
        finally:
            for member in reversed(members):
                if member.binding_cycle is not None:
                    member.binding_cycle.undo()
                    cache.forget(member.queued.pod.key)
            for info in infos:
                if info.key not in there:
                    snapshot.gangs.remove(group, info.key)
