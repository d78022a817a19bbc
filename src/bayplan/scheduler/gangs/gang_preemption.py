"""Room for a whole pod group: which pods have to go so that all of it fits (KEP-5710).

All pods of lower priority are taken away; if the group fits then, they are put back one by one, those whose disruption
budget would be violated first, then by importance, and those stay that leave the group its room. What cannot be put back
are the victims, for the whole group at once. The pods of a group with `disruptionMode: PodGroup` go together or stay
together, by the priority of their group.

Follows `PodGroupEvaluator` of kube-scheduler 1.36, with two differences: the group's pods are nominated to the nodes where
they fit once the victims are gone, and while victims of the group terminate no others are looked for. Whether the group
still fits is told from columns where that is exact, so that a victim costs no attempt to place the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.extenders.protocol import Questions
from bayplan.scheduler.framework.disruption import DisruptionLimits, is_being_preempted
from bayplan.scheduler.framework.placements import Placements
from bayplan.scheduler.framework.post_filter import start_of
from bayplan.scheduler.gangs.placement_capacity import FIT
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.group_trees import NewerPodGroup
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup

NEVER: Final = "not eligible due to preemptionPolicy=Never."
NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
DOES_NOT_FIT: Final = "pod group is unschedulable"

Nodes = dict[str, str]
"""Pod (`namespace/name`) -> the node where it fits."""
Place = Callable[[], Questions[Nodes | None]]
"""Tries to place the group as things are, and takes all back; None if too few of its pods fit."""


@dataclass(frozen=True, slots=True)
class GroupPreemption:
    """What makes room for a group: `victims` have to go, none if some terminate already; `nodes` are where its pods fit then."""

    victims: tuple[PodInfo, ...]
    nodes: Nodes
    pods: tuple[str, ...] = ()
    """All pods that wait for that (`namespace/name`)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that are evicted together or not at all, with the nodes where they are."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_grouped: bool

    @property
    def rank(self) -> tuple[int, bool, int, str]:
        """The lowest is the most important: by priority; groups before pods; larger groups, then what was started first."""
        size = len(self.pods) if self.is_grouped else 0
        return -self.priority, not self.is_grouped, -size, min(start_of(pod) for pod in self.pods)


def priority_of(group: PodGroup, gang: Sequence[QueuedPod]) -> int:
    """The priority by which a group preempts: its own, or of groups that have none the lowest of their pods."""
    if isinstance(group, CustomPodGroup) or (isinstance(group, NewerPodGroup) and group.spec.priority is None):
        return min(queued.pod.priority for queued in gang)
    return group.spec.priority or 0


class GangPreemption:
    """The search for one group."""

    def __init__(
        self,
        cycle: Cycle,
        gang: Sequence[QueuedPod],
        needed: int,
        place: Place,
        *,
        priority: int,
        by_columns: bool,
    ) -> None:
        """needed: pods that have to be placed. priority: whatever has less may go. by_columns: nobody but the plugins has a say in whether pods fit."""
        self._cycle = cycle
        self._snapshot = cycle.snapshot
        self._gang = gang
        self._needed = needed
        self._place = place
        self._own = {group_key(queued.pod.pod) for queued in gang}
        self._priority = priority
        self._shapes = Counter(queued.pod.shape for queued in gang)
        self._by_columns = by_columns and not len(cycle.nominator)
        self._everywhere: Placements | None = None

    def find(self) -> Questions[GroupPreemption | str]:
        """What makes room for the group, or why nothing does. Raises PluginError."""
        if any(queued.pod.pod.spec.preemption_policy == "Never" for queued in self._gang):
            return NEVER
        groups = self._snapshot.catalog.pod_groups
        if any(isinstance(one := groups.get(key), NewerPodGroup) and not one.preempts for key in self._own):
            return NEVER
        waiting = tuple(queued.pod.key for queued in self._gang)
        nominated = self._nominated()
        if any(self._terminates_for_us(node) for node in nominated.values()):
            return GroupPreemption((), nominated, waiting)
        units = self._units()
        if not units:
            return NO_VICTIMS
        with self._without(units) as gone:
            if not (yield from self._fits()):
                return DOES_NOT_FIT
            for unit in self._in_order(units):
                gone.put_back(unit)
                if not (yield from self._fits()):
                    gone.take_away(unit)
            nodes = yield from self._place()
            victims = [unit for unit in units if unit in gone]
        if nodes is None or not victims:
            return DOES_NOT_FIT
        victims.sort(key=lambda unit: unit.rank)
        return GroupPreemption(tuple(pod for unit in victims for pod in unit.pods), nodes, waiting)

    def _nominated(self) -> Nodes:
        nominator = self._cycle.nominator
        keys = (queued.pod.key for queued in self._gang)
        return {key: node for key in keys if (node := nominator.node_of(key))}

    def _terminates_for_us(self, node: str) -> bool:
        row = self._snapshot.row_of.get(node)
        pods = self._snapshot.pods_on[row].values() if row is not None else ()
        return any(pod.priority < self._priority and is_being_preempted(pod) for pod in pods)

    def _units(self) -> list[Unit]:
        """All that is less important than the group, in the order of the pods."""
        found: list[Unit] = []
        groups: dict[str, list[PodInfo]] = {}
        priorities: dict[str, int] = {}
        for pod in self._snapshot.pods.values():
            if pod.row < 0:
                continue
            key = group_key(pod.pod)
            if key in self._own:
                continue
            whole = self._disrupted_with(key) if key else None
            if whole is not None:
                priorities[whole[0]] = whole[1]
                if whole[1] < self._priority:
                    groups.setdefault(whole[0], []).append(pod)
            elif pod.priority < self._priority:
                found.append(Unit((pod,), pod.priority, bool(key)))
        found += [Unit(tuple(pods), priorities[key], True) for key, pods in groups.items()]
        return found

    def _disrupted_with(self, key: str) -> tuple[str, int] | None:
        """The group all of which goes if a pod of a pod group does, and its priority; None if pods go one by one."""
        catalog = self._snapshot.catalog
        for parent in catalog.trees.above(key):
            group = catalog.trees.composites[parent].group
            if group.spec.disruption_mode == "PodGroup":
                return f"{parent} (composite)", group.spec.priority or 0
        own = catalog.pod_groups.get(key)
        if own is None or own.spec.disruption_mode != "PodGroup":
            return None
        return key, own.spec.priority or 0

    def _in_order(self, units: list[Unit]) -> list[Unit]:
        """The order in which they are put back."""
        limits = DisruptionLimits(self._snapshot.catalog)
        ranked = sorted(units, key=lambda unit: unit.rank)
        violating = [unit for unit in ranked if any(limits.is_violated_by(pod) for pod in unit.pods)]
        kept = set(map(id, violating))
        return [*violating, *(unit for unit in ranked if id(unit) not in kept)]

    # Whether the group fits

    def _fits(self) -> Questions[bool]:
        known = self._fits_by_columns()
        return known if known is not None else (yield from self._place()) is not None

    def _fits_by_columns(self) -> bool | None:
        """Whether the group fits; None if that takes an attempt. Raises PluginError."""
        if self._everywhere is None or len(self._everywhere.domain_of) != self._snapshot.capacity:
            everywhere = np.where(self._snapshot.alive, 0, -1).astype(np.int32)
            self._everywhere = Placements("", ("the cluster",), everywhere)
        capacity = self._cycle.placement_capacity
        room = {shape: int(capacity.of(shape, self._everywhere)[0]) for shape in self._shapes}
        if sum(min(room[shape], count) for shape, count in self._shapes.items()) < self._needed:
            return False
        return True if self._by_columns and self._is_exact() else None

    def _is_exact(self) -> bool:
        """Whether the columns tell exactly how many pods fit: all are equal, and only resources on their node refuse them."""
        if len(self._shapes) > 1:
            return False
        (shape,) = self._shapes
        return self._cycle.evaluation(shape).filters_by_pods() <= {FIT} and not shape.host_ports

    @contextmanager
    def _without(self, units: Sequence[Unit]) -> Iterator[_Gone]:
        gone = _Gone(self._cycle)
        try:
            for unit in units:
                gone.take_away(unit)
            yield gone
        finally:
            for unit in units:
                if unit in gone:
                    gone.put_back(unit)


class _Gone:
    """Units that are not counted on their nodes for a while."""

    def __init__(self, cycle: Cycle) -> None:
        self._snapshot = cycle.snapshot
        self._nodes: dict[int, list[tuple[PodInfo, str]]] = {}

    def __contains__(self, unit: Unit) -> bool:
        return id(unit) in self._nodes

    def take_away(self, unit: Unit) -> None:
        self._nodes[id(unit)] = [(pod, pod.node_name) for pod in unit.pods]
        for pod in unit.pods:
            self._snapshot.remove_pod(pod.key)

    def put_back(self, unit: Unit) -> None:
        for pod, node_name in self._nodes.pop(id(unit)):
            self._snapshot.place(pod, node_name)
