"""One cycle for a whole gang: its pods are placed one after the other, and if too few find a place, all are taken back.

Nothing else happens in between, so no gang ever holds room that another waits for. A pod that needs victims counts as
placed with its victims gone, so that the pods after it see the cluster as it would be; if the gang fits that way, the
victims are evicted and all its pods wait, nominated to their nodes.

A group whose placement is constrained is tried on one set of nodes at a time; `placement_search` says on which.

Follows the pod group cycle of kube-scheduler 1.36 (`schedule_one_podgroup.go`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bayplan.api.feature_gates import WORKLOAD_PREEMPTION
from bayplan.scheduler.binding_cycle import BindingCycle, Failure
from bayplan.scheduler.cache import Cache
from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.extenders.protocol import Extender, Questions
from bayplan.scheduler.extenders.steps import decision_of
from bayplan.scheduler.framework.placements import Placements
from bayplan.scheduler.framework.verdicts import PluginError, Reject, Status
from bayplan.scheduler.gangs.gang_preemption import GangPreemption, GroupPreemption, priority_of
from bayplan.scheduler.gangs.placement_search import Assignments, PlacementSearch
from bayplan.scheduler.gangs.placement_steps import decision_within
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.labels import IntRows
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod

GANG: Final = "GangScheduling"
UNSCHEDULABLE: Final = "pod group is unschedulable"
INCOMPLETE: Final = (
    f"{UNSCHEDULABLE}, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to wait and no "
    "plugin rejected pod"
)
PREEMPTING: Final = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"
NO_PREEMPTION_BY_PLACEMENT: Final = (
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)
NO_DOMAIN_WITHIN: Final = "no feasible placements found: the composite group's nodes have none"
UNSCHEDULABLE_REASON: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


def minimum_of_group(snapshot: Snapshot, pod: Pod) -> int | None:
    """How many pods of the pod's group have to be placed together: 0 if that is no matter; None if it belongs to none."""
    if pod.spec.scheduling_group is None:
        return None
    group = snapshot.catalog.pod_groups.get(group_key(pod))
    if group is None:
        return None
    gang = group.spec.scheduling_policy.gang
    return gang.min_count if gang is not None else 0


@dataclass(slots=True)
class Member:
    """One pod's part in the cycle."""

    queued: QueuedPod
    decision: Decision
    binding_cycle: BindingCycle | None = None
    """Its way to its node, if it was placed."""
    removed: list[tuple[PodInfo, str]] = field(default_factory=list)
    """Its victims with their nodes, supposed to be gone."""
    nominated: str = ""
    """The node to which it was nominated when it was placed: it must not count there twice."""

    @property
    def preempts(self) -> bool:
        """Whether it was placed where others have to go first."""
        return bool(self.removed)


@dataclass(frozen=True, slots=True)
class GroupAttempt:
    """What came of placing the pods of a group; those that found a node are assumed there."""

    members: list[Member]
    cause: str = UNSCHEDULABLE
    """Why the group is not placed, if it is not."""
    is_constrained: bool = False
    rejection: Reject | None = None
    """Why no pod was tried."""

    @property
    def error(self) -> str:
        """What failed, after which no pod was tried."""
        return self.members[-1].decision.error if self.members else ""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What became of the group, for its `PodGroupScheduled` condition."""

    key: str
    scheduled: bool
    reason: str
    message: str
    preemption: GroupPreemption | None = None
    """The pods that have to go for the whole group."""
    is_composite: bool = False
    """Whether the key is that of a composite group."""

    @property
    def outcome(self) -> str:
        """In one word, as metrics tell it."""
        if self.scheduled:
            return "scheduled"
        if self.reason == SCHEDULER_ERROR:
            return "error"
        return "waiting_on_preemption" if self.message == PREEMPTING else "unschedulable"


class GangCycle:
    """See the module. The extenders that have a say in a pod are asked about it in its turn."""

    def __init__(self, cycle: Cycle, cache: Cache, extenders: Sequence[Extender] = (), *, scored: bool = False) -> None:
        """scored: keep the scores in the members' decisions."""
        self.cycle = cycle
        self.cache = cache
        self.snapshot = cycle.snapshot
        self._extenders = extenders
        self._scored = scored

    def run(self, gang: Sequence[QueuedPod], min_count: int) -> Questions[tuple[list[Member], GroupResult]]:
        """Try all pods. Those with a binding cycle afterwards are assumed on their nodes, the others are not.

        If the steps are given up halfway, all is taken back.
        """
        with self.snapshot.sharing_allocations():
            try:
                attempt = yield from self.place(gang, min_count)
            except PluginError as error:
                return self._failed([], gang, str(error))
            if attempt.rejection is not None:
                return self._nowhere(gang, attempt.rejection)
            members, result = self._judge(attempt.members, gang, min_count, attempt.cause)
            return (yield from self._preempt(members, result, gang, min_count, is_constrained=attempt.is_constrained))

    def place(
        self, gang: Sequence[QueuedPod], min_count: int, within: IntRows | None = None
    ) -> Questions[GroupAttempt]:
        """Place the pods of a group where its topology allows, perhaps on some rows only. Raises PluginError.

        Whether that is enough, and what is to be taken back, is for the caller to say.
        """
        search = PlacementSearch(self.cycle, gang, min_count)
        levels = search.levels()
        if isinstance(levels, Reject):
            return GroupAttempt([], rejection=levels)
        if levels is None:
            return GroupAttempt((yield from self._try_all(gang, within)))
        if within is not None:
            levels = tuple(one for level in levels if len((one := level.within(within)).numbers))
        for level in levels:
            found = yield from self._search(search, level)
            if found is not None:
                return GroupAttempt(found)
        if not levels:
            return GroupAttempt([], rejection=Reject(Status.UNSCHEDULABLE, (NO_DOMAIN_WITHIN,)))
        members = yield from self._try_all(gang, search.most_promising)
        return GroupAttempt(members, search.explanation(), is_constrained=True)

    def _preempt(
        self,
        members: list[Member],
        result: GroupResult,
        gang: Sequence[QueuedPod],
        min_count: int,
        *,
        is_constrained: bool = False,
    ) -> Questions[tuple[list[Member], GroupResult]]:
        """Look for room for the whole group, if it does not fit and the feature is on."""
        if result.reason != UNSCHEDULABLE_REASON or WORKLOAD_PREEMPTION not in self.cycle.profile.feature_gates:
            return members, result
        found: GroupPreemption | str = NO_PREEMPTION_BY_PLACEMENT
        if not is_constrained:
            needed = max(min_count - self.snapshot.gangs.count_placed(result.key), 1)
            search = GangPreemption(
                self.cycle,
                gang,
                needed,
                lambda: self._nodes(gang, needed),
                priority=priority_of(self.snapshot.catalog.pod_groups[result.key], gang),
                by_columns=not self._extenders,
            )
            found = yield from search.find()
        if isinstance(found, str):
            return members, replace(result, message=f"{result.message}, {found}")
        plugins = {GANG}
        for member in members:
            plugins.update(member.decision.unschedulable_plugins)
        for member in members:
            self.refuse(member.decision, PREEMPTING, plugins, found.nodes.get(member.queued.pod.key, ""))
        return members, replace(result, message=PREEMPTING, preemption=found)

    def _nodes(self, gang: Sequence[QueuedPod], needed: int) -> Questions[dict[str, str] | None]:
        """Where the group's pods go as things are, all being taken back; None if too few of them go anywhere."""
        members = yield from self._try_all(gang)
        cycles = [member.binding_cycle for member in members if member.binding_cycle is not None]
        nodes = {cycle.pod.key: cycle.node_name for cycle in cycles}
        is_without_victims = not any(member.preempts for member in members)
        self.undo_all(members)
        return nodes if is_without_victims and len(nodes) >= needed else None

    def _search(self, search: PlacementSearch, level: Placements) -> Questions[list[Member] | None]:
        """The members on the best set of nodes of a level; None if no set holds the group."""
        search.begin(level)
        kept: dict[int, list[Member]] = {}
        while (number := search.next()) is not None:
            members = yield from self._try_all(search.gang, level.rows_of(number))
            placed = [member.queued.pod.shape for member in members if member.binding_cycle is not None]
            if members[-1].decision.error:
                return members
            is_done = search.take(Assignments(number, placed))
            if is_done and search.best() == number:
                return members
            self.undo_all(members)
            kept[number] = members
            if is_done:
                break
        best = search.best()
        return None if best is None else [self._placed(item.queued, item.decision) for item in kept[best]]

    def _try_all(self, gang: Sequence[QueuedPod], within: IntRows | None = None) -> Questions[list[Member]]:
        """The members in turn, perhaps on some rows only; none after one whose decision is an error."""
        members: list[Member] = []
        try:
            for queued in gang:
                if within is None:
                    decision = yield from decision_of(self.cycle, self._extenders, queued.pod, scored=self._scored)
                else:
                    decision = yield from decision_within(self.cycle, self._extenders, queued.pod, within)
                members.append(self._placed(queued, decision))
                if decision.error:
                    break
        except BaseException:
            self.undo_all(members)
            raise
        return members

    def _judge(
        self, members: list[Member], gang: Sequence[QueuedPod], min_count: int, cause: str = UNSCHEDULABLE
    ) -> tuple[list[Member], GroupResult]:
        """What becomes of the gang, and of what was assumed for it. `cause`: why, if it is not placed."""
        if members and members[-1].decision.error:
            return self._failed(members, gang, members[-1].decision.error)
        key = group_key(gang[0].pod.pod)
        placed = any(member.binding_cycle is not None for member in members)
        count = self.snapshot.gangs.count_placed(key)
        if not placed or count < min_count:
            if cause == UNSCHEDULABLE and min_count > 1:
                cause += f"; {count} of the {min_count} pods that are needed fit"
            return self._take_back(members), GroupResult(key, False, UNSCHEDULABLE_REASON, cause)
        if any(member.preempts for member in members):
            return self._wait_for_victims(members), GroupResult(key, False, UNSCHEDULABLE_REASON, PREEMPTING)
        return members, GroupResult(key, True, "Scheduled", "")

    def _placed(self, queued: QueuedPod, decision: Decision) -> Member:
        """Assume a pod on its node, with its victims gone; the decision refuses it if a plugin does."""
        pod = queued.pod
        member = Member(queued, decision)
        node_name = decision.node or decision.nominated_node
        if not node_name:
            return member
        outcome = decision.post_filter
        if outcome is not None and outcome.nominated is not None:
            for victim in outcome.nominated.victims:
                member.removed.append((victim, victim.node_name))
                self.snapshot.remove_pod(victim.key)
        self.cache.assume(pod, node_name)
        member.nominated = self.cycle.nominator.node_of(pod.key)
        self.cycle.nominator.remove(pod.key)
        plugin_plan = self.cycle.profile.plugin_plan(pod.shape)
        binding_cycle = BindingCycle(plugin_plan, self.cycle.state_of(pod.shape), pod, node_name, self.cycle.profile)
        failure = binding_cycle.begin()
        if failure is None:
            member.binding_cycle = binding_cycle
        else:
            self._undo(member, pod)
            decision.refuse(failure)
        return member

    def _undo(self, member: Member, pod: PodInfo) -> None:
        """Take a pod from its node again, and put its victims back."""
        if member.binding_cycle is not None:
            member.binding_cycle.undo()
            member.binding_cycle = None
        self.cache.forget(pod.key)
        if member.nominated:
            self.cycle.nominator.add(pod, member.nominated)
            member.nominated = ""
        for victim, node_name in member.removed:
            self.snapshot.place(victim, node_name)
        member.removed.clear()

    def undo_all(self, members: Sequence[Member]) -> None:
        """Take all pods from their nodes again, the last one first."""
        for member in reversed(members):
            if member.binding_cycle is not None:
                self._undo(member, member.queued.pod)

    def _take_back(self, members: list[Member]) -> list[Member]:
        """Too few were placed: all that were go back, and wait for what those that were not wait for."""
        plugins = {GANG}
        for member in members:
            if member.binding_cycle is None:
                plugins.update(member.decision.unschedulable_plugins)
        for member in reversed(members):
            if member.binding_cycle is not None:
                self._undo(member, member.queued.pod)
                self.refuse(member.decision, INCOMPLETE, plugins)
        return members

    def _wait_for_victims(self, members: list[Member]) -> list[Member]:
        """The gang fits once some victims are gone: all its pods wait, nominated."""
        for member in reversed(members):
            if member.binding_cycle is not None:
                preempts = member.preempts
                node_name = member.binding_cycle.node_name
                self._undo(member, member.queued.pod)
                if not preempts:
                    self.refuse(member.decision, PREEMPTING, {GANG}, node_name)
        return members

    def _nowhere(self, gang: Sequence[QueuedPod], reject: Reject) -> tuple[list[Member], GroupResult]:
        """No node comes into question for the group as a whole."""
        message = ", ".join(reject.reasons)
        members = [Member(queued, self.cycle.opened(queued.pod)) for queued in gang]
        plugins = {plugin.name for plugin in self.cycle.profile.placement_generate}
        for member in members:
            self.refuse(member.decision, message, plugins)
        return members, GroupResult(group_key(gang[0].pod.pod), False, UNSCHEDULABLE_REASON, message)

    def _failed(
        self, members: list[Member], gang: Sequence[QueuedPod], message: str
    ) -> tuple[list[Member], GroupResult]:
        """A plugin failed: nobody is scheduled, all are tried again later."""
        self.undo_all(members)
        whole = f"failed to schedule other pod from a pod group: {message}" if members else message
        members += [Member(queued, self.cycle.opened(queued.pod)) for queued in gang[len(members) :]]
        for member in members:
            if not member.decision.error:
                self.fail(member.decision, whole)
        return members, GroupResult(group_key(gang[0].pod.pod), False, SCHEDULER_ERROR, whole)

    def fail(self, decision: Decision, message: str) -> None:
        """Make a decision one of an error, after which the pod is tried again."""
        decision.refuse(Failure(GANG, Reject(Status.ERROR, (message,)), False))

    def refuse(self, decision: Decision, message: str, plugins: set[str], nominated: str = "") -> None:
        """Make a decision one of no node, since its group is not placed."""
        decision.post_filter = None
        failure = Failure(GANG, Reject(Status.UNSCHEDULABLE, (message,)), True, frozenset(plugins), nominated, message)
        decision.refuse(failure)
