"""How many more pods fit into a cluster, what limits them, and how many nodes are missing for more.

The scheduler answers: see `bayplan.scheduler.planning.capacity`. Nodes that are not there yet get the pods of the daemon sets
first, as real ones would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.pods.resources import pod_total
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.planning.capacity import Limit, MixPodCapacity, PodCapacity, Told, capacity_for, capacity_for_mix
from bayplan.scheduler.planning.relocation import NodeUse, use_of_nodes
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.simulation.questions.quota_limits import QuotaLimits, quota_limits
from bayplan.simulation.snapshots.planner import NodeShape, QuestionError, planner_of

if TYPE_CHECKING:
    from pathlib import Path

    from bayplan.api.types import core_v1
    from bayplan.scheduler.library import Planner
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

MOST_NODES: Final = 100_000
"""Nodes beyond which no number of them is taken to be enough."""


@dataclass(frozen=True, slots=True)
class UncreatedPods:
    """How many nodes have to be added for all wanted pods to fit."""

    shape: NodeShape
    nodes: int
    """Nodes to add; -1 if no number of them helps."""
    per_node: int
    """How many of the pods fit on an empty one."""
    limits: list[Limit] = field(default_factory=list)
    """Why none helps."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        answer: dict[str, Any] = {"shape": self.shape.describe(), "nodes": self.nodes if self.nodes >= 0 else None}
        answer["podsPerNode"] = self.per_node
        if self.limits:
            answer["limits"] = [one.to_dict() for one in self.limits]
        return answer


@dataclass(slots=True)
class Capacity:
    """The answer about one pod."""

    pod: str
    requests: dict[str, str]
    room: PodCapacity
    wanted: int | None = None
    missing: UncreatedPods | None = None
    allowed: QuotaLimits | None = None
    """What allows fewer than fit, or than are wanted; None if nothing does."""
    uses: list[NodeUse] = field(default_factory=list)
    """How full the nodes are before."""

    @property
    def enough(self) -> bool:
        """Whether as many fit and are allowed as are wanted; one, if nothing is said."""
        wanted = self.wanted if self.wanted is not None else 1
        return self.room.total >= wanted and (self.allowed is None or self.allowed.pods >= wanted)

    def spread(self) -> list[tuple[int, int]]:
        """(pods, nodes that take so many), from the most to none."""
        counts = Counter(self.room.per_node.values())
        none = self.room.node_count - len(self.room.per_node)
        rows = sorted(counts.items(), reverse=True)
        return [*rows, (0, none)] if none else rows

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        room = self.room
        answer: dict[str, Any] = {"pod": self.pod, "requests": self.requests, "fits": room.total}
        if self.wanted is not None:
            answer |= {"wanted": self.wanted, "enough": self.enough}
        answer |= {
            "nodes": {"total": room.node_count, "withRoom": len(room.per_node)},
            "spread": [{"pods": pods, "nodes": nodes} for pods, nodes in self.spread()],
            "limits": [one.to_dict() for one in room.limits],
            "message": room.message,
            "oneByOne": room.one_by_one,
            "perNode": room.per_node,
        }
        if self.missing is not None:
            answer["missing"] = self.missing.to_dict()
        if self.allowed is not None:
            answer["allowed"] = self.allowed.to_dict()
        return answer


@dataclass(slots=True)
class MixCapacity:
    """The answer about pods in given proportions."""

    shares: list[tuple[str, int]]
    answer: MixPodCapacity
    wanted: int | None = None
    uses: list[NodeUse] = field(default_factory=list)
    """How full the nodes are before."""
    allowed: QuotaLimits | None = None
    """What allows fewer sets than fit, or than are wanted; None if nothing does."""

    @property
    def enough(self) -> bool:
        """Whether as many sets fit and are allowed as are wanted; one, if nothing is said."""
        wanted = self.wanted if self.wanted is not None else 1
        return self.answer.sets >= wanted and (self.allowed is None or self.allowed.pods >= wanted)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        found = self.answer
        answer: dict[str, Any] = {
            "mix": [{"pod": pod, "share": share} for pod, share in self.shares],
            "sets": found.sets,
            "fits": {pod: share * found.sets for pod, share in self.shares},
        }
        if self.wanted is not None:
            answer |= {"wanted": self.wanted, "enough": self.enough}
        if self.allowed is not None:
            answer["allowed"] = self.allowed.to_dict()
        return answer | {
            "stoppedBy": found.stopped_by,
            "limits": [one.to_dict() for one in found.room.limits],
            "message": found.room.message,
            "perNode": found.per_node,
        }


def capacity(
    copy: ClusterSnapshot,
    pod: core_v1.Pod,
    *,
    wanted: int | None = None,
    shape: Callable[[], NodeShape] | None = None,
    config: Path | None = None,
    told: Told | None = None,
) -> Capacity:
    """How many more of a pod fit; with `wanted`, also how many nodes of a shape are missing for that. Raises QuestionError."""
    planner = planner_of(copy, config)
    try:
        room = capacity_for(planner, pod, enough=wanted, told=told)
        answer = Capacity(_name(pod), _requests(pod), room, wanted, uses=use_of_nodes(planner))
        answer.allowed = _tighter(quota_limits(copy, [(pod, 1)]), room.total, wanted)
        if wanted is not None and shape is not None and room.total < wanted:
            answer.missing = _missing(planner, pod, wanted, shape())
    except SchedulerError as error:
        raise QuestionError(str(error)) from error
    return answer


def mix_capacity(
    copy: ClusterSnapshot,
    pods: Sequence[tuple[core_v1.Pod, int]],
    *,
    wanted: int | None = None,
    config: Path | None = None,
    told: Told | None = None,
) -> MixCapacity:
    """How many sets of pods fit. Raises QuestionError."""
    try:
        planner = planner_of(copy, config)
        uses = use_of_nodes(planner)
        found = capacity_for_mix(planner, pods, told=told)
    except SchedulerError as error:
        raise QuestionError(str(error)) from error
    shares = [(_name(pod), share) for pod, share in pods]
    return MixCapacity(shares, found, wanted, uses, _tighter(quota_limits(copy, pods), found.sets, wanted))


def _tighter(allowed: QuotaLimits | None, fits: int, wanted: int | None) -> QuotaLimits | None:
    """What allows fewer than fit, or than are wanted, where more room alone would not help."""
    return allowed if allowed is not None and allowed.pods < max(fits, wanted or 1) else None


def _missing(planner: Planner, pod: core_v1.Pod, wanted: int, shape: NodeShape) -> UncreatedPods:
    """The least number of added nodes with which all wanted pods fit. The planner is used up."""
    added = _Added(planner, shape)
    added.grow(1)
    with_one = capacity_for(planner, pod, enough=wanted)
    name = shape.node(1).metadata.name
    each = with_one.per_node.get(name, 0)
    if not each and not with_one.one_by_one:
        return UncreatedPods(shape, -1, 0, [one for one in with_one.limits if name in one.nodes])
    if with_one.total >= wanted:
        return UncreatedPods(shape, 1, each)
    enough, short = _bracket(planner, pod, wanted, added, each)
    if enough < 0:
        return UncreatedPods(shape, -1, each, capacity_for(planner, pod, most=wanted).limits)
    while enough - short > 1:
        middle = (enough + short) // 2
        added.set(middle)
        if capacity_for(planner, pod, most=wanted).total >= wanted:
            enough = middle
        else:
            short = middle
    return UncreatedPods(shape, enough, each)


def _bracket(planner: Planner, pod: core_v1.Pod, wanted: int, added: _Added, each: int) -> tuple[int, int]:
    """(a number of nodes that is enough, one that is not); -1 if none is found."""
    short, guess, before = 1, 2, -1
    while guess <= MOST_NODES:
        added.set(guess)
        total = capacity_for(planner, pod, most=wanted).total
        if total >= wanted:
            return guess, short
        if total == before and short > 2 * len(added.shape.zones):
            break  # more nodes changed nothing, in whatever zone
        before, short = total, guess
        guess = max(guess * 2, guess + (wanted - total) // max(each, 1))
    return -1, short


class _Added:
    """The nodes that were added to a planner."""

    def __init__(self, planner: Planner, shape: NodeShape) -> None:
        self.planner = planner
        self.shape = shape
        self.count = 0

    def set(self, count: int) -> None:
        """Have exactly so many."""
        if count > self.count:
            self.grow(count)
        while self.count > count:
            for pod in self.shape.pods(self.count):
                self.planner.remove(pod_key(pod))
            self.planner.snapshot.remove_node(self.shape.node(self.count).metadata.name)
            self.count -= 1

    def grow(self, count: int) -> None:
        """Have at least so many."""
        while self.count < count:
            self.count += 1
            self.planner.add("Node", self.shape.node(self.count))
            for pod in self.shape.pods(self.count):
                self.planner.add("Pod", pod)


def _name(pod: core_v1.Pod) -> str:
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


def _requests(pod: core_v1.Pod) -> dict[str, str]:
    return {name: str(amount) for name, amount in pod_total(pod.spec, "requests", overhead=True).items()}
