"""One cycle for a tree of pod groups: as many of its groups are placed as its composite groups need, or none of its pods.

Children are tried one after the other on the nodes that their parent left them. A child that does not fit is taken back, and its parent may do
without it; a composite group with too few children is taken back as a whole. One that is bound to a topology is tried on one domain
at a time, those first that can hold most: the first that holds it is taken.

Follows KEP-6012 and kube-scheduler 1.37, which tries all domains and then takes the best one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bayplan.api.feature_gates import WORKLOAD_PREEMPTION
from bayplan.scheduler.extenders.protocol import Questions
from bayplan.scheduler.framework.placements import Placements
from bayplan.scheduler.framework.verdicts import PluginError, Reject
from bayplan.scheduler.gangs.gang_cycle import (
    GANG,
    INCOMPLETE,
    NO_PREEMPTION_BY_PLACEMENT,
    PREEMPTING,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    UNSCHEDULABLE_REASON,
    GangCycle,
    GroupResult,
    Member,
)
from bayplan.scheduler.gangs.gang_preemption import GangPreemption, GroupPreemption
from bayplan.scheduler.gangs.placement_search import PlacementSearch
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.group_trees import CompositeGroup
from bayplan.scheduler.snapshot.labels import IntRows


@dataclass(slots=True)
class Branch:
    """What came of a group in the tree, and of those under it."""

    key: str
    fits: bool
    message: str = ""
    """Why it does not fit."""
    members: list[Member] = field(default_factory=list)
    """The pods of a pod group that were tried."""
    children: list[Branch] = field(default_factory=list)
    is_composite: bool = False

    def pods(self) -> list[Member]:
        """All pods that were tried, in this order."""
        return [*self.members, *(member for child in self.children for member in child.pods())]


@dataclass(frozen=True, slots=True)
class TreeOutcome:
    """What became of a tree: its pods by pod group, and the results of all groups, the root's first."""

    members: Mapping[str, list[Member]]
    results: Sequence[GroupResult]


class CompositeCycle:
    """See the module."""

    def __init__(self, cycle: GangCycle, root: str, gangs: Mapping[str, Sequence[QueuedPod]]) -> None:
        """`gangs`: the pods of each pod group of the tree that are to be placed."""
        self._cycle = cycle
        self._snapshot = cycle.snapshot
        self._trees = cycle.snapshot.catalog.trees
        self._root = root
        self._gangs = gangs

    def run(self) -> Questions[TreeOutcome]:
        """Try the tree. Those pods with a binding cycle afterwards are assumed on their nodes, the others are not."""
        with self._snapshot.sharing_allocations():
            try:
                branch = yield from self._composite(self._root, None)
                preemption = None if branch.fits else (yield from self._preemption())
            except PluginError as error:
                return self._failed(str(error))
        return self._outcome(branch, preemption)

    # Placing

    def _composite(self, key: str, within: IntRows | None) -> Questions[Branch]:
        """Place a composite group, perhaps on some rows only; all is taken back if it does not fit. Raises PluginError."""
        composite = self._trees.composites[key]
        levels = self._levels(composite)
        if levels is None:
            return (yield from self._children(composite, within))
        if isinstance(levels, Reject):
            return Branch(key, False, ", ".join(levels.reasons), is_composite=True)
        tried = 0
        for level in levels:
            limited = level if within is None else level.within(within)
            search = self._search(composite, limited)
            while search is not None and (number := search.next()) is not None:
                branch = yield from self._children(composite, limited.rows_of(number))
                if branch.fits:
                    return branch
            tried = len(limited.numbers)
        message = f"0/{tried} placements are available, first placement status: {UNSCHEDULABLE}"
        return Branch(key, False, message, is_composite=True)

    def _levels(self, composite: CompositeGroup) -> tuple[Placements, ...] | Reject | None:
        generators = self._cycle.cycle.profile.placement_generate
        if not generators:
            return None
        pods, gangs = self._snapshot.pods, self._snapshot.gangs
        leaves = self._trees.leaves(composite.key)
        placed = [pods[key] for leaf in leaves for key in gangs.members(leaf) if key in pods]
        return generators[0].generate_placements(composite.group, placed)

    def _search(self, composite: CompositeGroup, level: Placements) -> PlacementSearch | None:
        """The search among the domains of a level; None if there are no pods to place."""
        leaves = list(self._trees.leaves(composite.key))
        queued = [one for leaf in leaves for one in self._gangs.get(leaf, ())]
        if not queued:
            return None
        placed = sum(self._snapshot.gangs.count_placed(leaf) for leaf in leaves)
        search = PlacementSearch(self._cycle.cycle, queued, self._fewest(composite.key), placed)
        search.begin(level)
        return search

    def _children(self, composite: CompositeGroup, within: IntRows | None) -> Questions[Branch]:
        """Place the children in the order in which they came; if that does not do, those first that need the fewest pods."""
        children = [(key, self._minimum(key), False) for key in self._trees.groups_in(composite.key)]
        children += [(key, self._fewest(key), True) for key in self._trees.composites_in(composite.key)]
        branch = yield from self._in_order(composite, children, within)
        smallest_first = sorted(children, key=lambda child: child[1])
        if branch.fits or smallest_first == children or composite.needed >= len(children):
            return branch
        other = yield from self._in_order(composite, smallest_first, within)
        return other if other.fits else branch

    def _in_order(
        self, composite: CompositeGroup, children: Sequence[tuple[str, int, bool]], within: IntRows | None
    ) -> Questions[Branch]:
        """Place children: each with its key, the pods that it needs, and whether it is a composite group."""
        branch = Branch(composite.key, False, is_composite=True)
        try:
            for key, _, is_composite in children:
                placing = self._composite(key, within) if is_composite else self._group(key, within)
                branch.children.append((yield from placing))
        except BaseException:
            self._cycle.undo_all(branch.pods())
            raise
        fitting = sum(child.fits for child in branch.children)
        branch.fits = fitting >= composite.needed
        if not branch.fits:
            branch.message = f"{UNSCHEDULABLE}; {fitting} of the {composite.needed} groups that are needed fit"
            self._cycle.undo_all(branch.pods())
        return branch

    def _group(self, key: str, within: IntRows | None) -> Questions[Branch]:
        gang, needed = self._gangs.get(key, ()), self._minimum(key)
        if not gang:
            fits = self._snapshot.gangs.count_placed(key) >= needed
            return Branch(key, fits, "" if fits else UNSCHEDULABLE)
        attempt = yield from self._cycle.place(gang, needed, within)
        if attempt.rejection is not None:
            return Branch(key, False, ", ".join(attempt.rejection.reasons))
        branch = Branch(key, False, attempt.cause, attempt.members)
        if attempt.error:
            self._cycle.undo_all(attempt.members)
            raise PluginError(GANG, attempt.error)
        count = self._snapshot.gangs.count_placed(key)
        branch.fits = count >= needed and any(member.binding_cycle is not None for member in attempt.members)
        if branch.fits:
            branch.message = ""
        else:
            if attempt.cause == UNSCHEDULABLE:
                branch.message += f"; {count} of the {needed} pods that are needed fit"
            self._cycle.undo_all(attempt.members)
        return branch

    def _minimum(self, key: str) -> int:
        group = self._snapshot.catalog.pod_groups.get(key)
        gang = group.spec.scheduling_policy.gang if group is not None else None
        return max(gang.min_count if gang is not None else 0, 1)

    def _fewest(self, key: str) -> int:
        return self._trees.fewest_pods(key, self._minimum)

    # Preemption

    def _preemption(self) -> Questions[GroupPreemption | str | None]:
        """What makes room for the tree, or why nothing does; None if the feature is off. Raises PluginError."""
        root = self._trees.composites[self._root]
        if WORKLOAD_PREEMPTION not in self._cycle.cycle.profile.feature_gates or not root.preempts:
            return None
        groups = self._snapshot.catalog.pod_groups
        if self._trees.is_constrained(self._root) or any(
            groups[key].spec.scheduling_constraints is not None for key in self._gangs if key in groups
        ):
            return NO_PREEMPTION_BY_PLACEMENT
        queued = [one for gang in self._gangs.values() for one in gang]
        own = root.group.spec.priority
        priority = min(one.pod.priority for one in queued) if own is None else own
        search = GangPreemption(self._cycle.cycle, queued, 1, self._nodes, priority=priority, by_columns=False)
        return (yield from search.find())

    def _nodes(self) -> Questions[dict[str, str] | None]:
        """Where the pods go as things are, all being taken back; None if the tree does not fit."""
        branch = yield from self._composite(self._root, None)
        if not branch.fits:
            return None
        cycles = [one.binding_cycle for one in branch.pods() if one.binding_cycle is not None]
        nodes = {cycle.pod.key: cycle.node_name for cycle in cycles}
        self._cycle.undo_all(branch.pods())
        return nodes

    # Results

    def _outcome(self, root: Branch, preemption: GroupPreemption | str | None) -> TreeOutcome:
        if isinstance(preemption, str):
            root.message = f"{root.message}, {preemption}"
        found = preemption if isinstance(preemption, GroupPreemption) else None
        if found is not None:
            root.message = PREEMPTING
        members: dict[str, list[Member]] = {}
        results: list[GroupResult] = []
        self._collect(root, root, found, members, results)
        for key, gang in self._gangs.items():
            if key not in members:
                members[key] = self._refused(gang, root.message)
        if found is not None:
            results[0] = replace(results[0], preemption=found)
        return TreeOutcome(members, results)

    def _collect(
        self,
        branch: Branch,
        root: Branch,
        preemption: GroupPreemption | None,
        members: dict[str, list[Member]],
        results: list[GroupResult],
    ) -> None:
        is_scheduled = root.fits and branch.fits
        message = "" if is_scheduled else root.message if preemption is not None else branch.message or root.message
        reason = "Scheduled" if is_scheduled else UNSCHEDULABLE_REASON
        results.append(GroupResult(branch.key, is_scheduled, reason, message, is_composite=branch.is_composite))
        gang = self._gangs.get(branch.key, ()) if not branch.is_composite else ()
        if gang:
            members[branch.key] = branch.members or self._refused(gang, message)
            for member in branch.members:
                self._mark(member, is_scheduled, preemption)
        for child in branch.children:
            self._collect(child, root, preemption, members, results)

    def _mark(self, member: Member, is_scheduled: bool, preemption: GroupPreemption | None) -> None:
        """The decision about a pod whose group is not placed, or waits for victims."""
        if preemption is not None:
            node = preemption.nodes.get(member.queued.pod.key, "")
            plugins = {GANG, *member.decision.unschedulable_plugins}
            self._cycle.refuse(member.decision, PREEMPTING, plugins, node)
        elif not is_scheduled and (member.decision.node or member.decision.nominated_node):
            self._cycle.refuse(member.decision, INCOMPLETE, {GANG})

    def _refused(self, gang: Sequence[QueuedPod], message: str) -> list[Member]:
        members = [Member(queued, self._cycle.cycle.opened(queued.pod)) for queued in gang]
        for member in members:
            self._cycle.refuse(member.decision, message, {GANG})
        return members

    def _failed(self, message: str) -> TreeOutcome:
        """A plugin failed: nobody is scheduled, all are tried again later."""
        members = {}
        for key, gang in self._gangs.items():
            members[key] = [Member(queued, self._cycle.cycle.opened(queued.pod)) for queued in gang]
            for member in members[key]:
                self._cycle.fail(member.decision, message)
        results = [GroupResult(self._root, False, SCHEDULER_ERROR, message, is_composite=True)]
        results += [GroupResult(key, False, SCHEDULER_ERROR, message) for key in self._gangs]
        return TreeOutcome(members, results)
