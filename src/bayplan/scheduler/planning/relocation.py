"""Moving the pods of a planner's cluster about: place with some nodes closed, and take back what was done.

A closed node is what `kubectl cordon` makes of it, without the price of a changed node: it still counts as a domain of
topologies, but no pod goes there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from bayplan.scheduler.decision import Decision
from bayplan.scheduler.library import Planner
from bayplan.scheduler.scoring.shared_answers import NO_NODE
from bayplan.scheduler.snapshot.labels import Bools, Ints
from bayplan.scheduler.snapshot.pods import PodInfo


@dataclass(slots=True)
class Relocations:
    """Changes of pods, undone last first unless they are kept."""

    planner: Planner
    closed: Ints
    """Rows that take no pod."""
    _undo: list[tuple[str, PodInfo, str]] = field(default_factory=list)
    """("put" or "taken", pod, node)"""

    def take(self, key: str) -> PodInfo | None:
        """Take a pod (`namespace/name`) from its node; None if it is nowhere."""
        info = self.planner.snapshot.pods.get(key)
        if info is None:
            return None
        self._undo.append(("taken", info, info.node_name))
        self.planner.snapshot.remove_pod(key)
        return info

    def place(self, info: PodInfo) -> Decision:
        """Put a pod where the scheduler wants it, closed nodes left out; nobody is preempted. Raises SchedulerError."""
        planner = self.planner
        cycle = planner.cycle_for(info)
        decision = cycle.opened(info)
        if decision.gate is not None or decision.skipped or not decision.node_count:
            return decision
        evaluation, codes = cycle.judged(info)
        decision.rejection = evaluation.rejection
        if decision.rejection is not None:
            return decision
        codes = codes.copy()
        codes[self.closed] = NO_NODE
        decision.codes = codes
        feasible = np.flatnonzero(codes == 0)
        if len(feasible) == 1:
            decision.row = int(feasible[0])
        elif len(feasible):
            decision.row = cycle.best_row(evaluation, codes)
        if decision.node is not None:
            self._undo.append(("put", info, decision.node))
            planner.settle(cycle, info, decision)
        return decision

    def undo(self) -> None:
        """Make everything as it was."""
        for what, info, node_name in reversed(self._undo):
            if what == "put":
                self.planner.take_back(info.key)
            else:
                self.planner.snapshot.place(info, node_name)
        self._undo.clear()

    def keep(self) -> None:
        """Leave everything as it is now."""
        self._undo.clear()


@contextmanager
def moving(planner: Planner, closed: Collection[int] = ()) -> Iterator[Relocations]:
    """Changes that are undone at the end, unless `keep` is called. `closed`: rows that take no pod."""
    relocations = Relocations(planner, np.fromiter(closed, dtype=np.int64, count=len(closed)))
    try:
        yield relocations
    finally:
        relocations.undo()


def emptied_by_room(
    planner: Planner, nodes: Sequence[tuple[str, Sequence[str]]], most: int, closed: frozenset[int] = frozenset()
) -> list[str]:
    """A guess at which nodes can be emptied into the others, judged by resources, pod limits and taints alone.

    `nodes`: (name, `namespace/name` of the pods that have to move), in the order in which they should go. Each pod takes
    the place furthest back in that order; nodes that are not listed are furthest back of all. Nodes that had to take
    pods do not go. The scheduler has the last word on all this.
    """
    snapshot = planner.snapshot
    size = snapshot.size
    free = snapshot.allocatable[:, :size] - snapshot.requested[:, :size]
    slots = snapshot.pod_limit[:size] - snapshot.pod_count[:size]
    taints = snapshot.taints.ids[:size]
    open_ = snapshot.alive[:size] & ~snapshot.unschedulable[:size]
    open_[list(closed)] = False
    untainted = np.array([not snapshot.taints.get(row) for row in range(size)], dtype=np.bool_)
    rank = np.full(size, len(nodes), dtype=np.int64)
    rows = [snapshot.row_of[name] for name, _ in nodes]
    rank[rows] = np.arange(len(nodes))
    taken: set[int] = set()
    emptied: list[str] = []
    for (name, keys), row in zip(nodes, rows, strict=True):
        if len(emptied) >= most:
            break
        if row in taken:
            continue
        usable = open_ & (untainted | (taints == taints[row]))
        usable[row] = False
        targets = _fitting(free, slots, usable, rank, [snapshot.pods[key] for key in keys])
        if targets is None:
            continue
        for info, target in targets:
            for column, amount in info.requests:
                free[column, target] -= amount
            slots[target] -= 1
            taken.add(target)
        open_[row] = False
        emptied.append(name)
    return emptied


def _fitting(
    free: Ints, slots: Ints, usable: Bools, rank: Ints, pods: Sequence[PodInfo]
) -> list[tuple[PodInfo, int]] | None:
    """Rows for all pods, none of them overfilled; None if there are no such rows. The arrays are left as they are."""
    extra: dict[int, dict[int, int]] = {}
    counts: dict[int, int] = {}
    found: list[tuple[PodInfo, int]] = []
    for info in pods:
        fits = usable & (slots > 0)
        for column, amount in info.requests:
            fits &= free[column] >= amount
        for row, used in extra.items():
            fits[row] &= slots[row] > counts[row] and all(
                free[column, row] - used.get(column, 0) >= amount for column, amount in info.requests
            )
        if not fits.any():
            return None
        target = int(np.where(fits, rank, -1).argmax())
        used = extra.setdefault(target, {})
        for column, amount in info.requests:
            used[column] = used.get(column, 0) + amount
        counts[target] = counts.get(target, 0) + 1
        found.append((info, target))
    return found


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What the pods on a node ask for, and what it offers."""

    node: str
    pods: int
    pod_limit: int
    requested: dict[str, int]
    """Resource -> amount; cpu in thousandths, all else in whole units."""
    allocatable: dict[str, int]

    def share(self, resource: str) -> float:
        """The part of a resource that is asked for; 0 if the node has none of it."""
        offered = self.allocatable.get(resource, 0)
        return self.requested.get(resource, 0) / offered if offered else 0.0

    @property
    def fullness(self) -> float:
        """The larger of the shares of cpu and memory."""
        return max(self.share("cpu"), self.share("memory"))


def use_of_nodes(planner: Planner) -> list[NodeUse]:
    """How full the nodes are, by name."""
    snapshot = planner.snapshot
    names = snapshot.resources.names
    found = []
    for name, row in sorted(snapshot.row_of.items()):
        offered = snapshot.allocatable[:, row].tolist()
        asked = snapshot.requested[:, row].tolist()
        amounts = {resource: offered[column] for column, resource in enumerate(names) if offered[column]}
        taken = {resource: asked[column] for column, resource in enumerate(names) if asked[column]}
        found.append(NodeUse(name, int(snapshot.pod_count[row]), int(snapshot.pod_limit[row]), taken, amounts))
    return found


def packing(uses: Sequence[NodeUse]) -> dict[str, float]:
    """Share of cpu and memory of all nodes together that pods ask for."""
    answer = {}
    for resource in ("cpu", "memory"):
        offered = sum(use.allocatable.get(resource, 0) for use in uses)
        asked = sum(use.requested.get(resource, 0) for use in uses)
        answer[resource] = round(asked / offered, 4) if offered else 0.0
    return answer
