"""How many more pods of one shape a planner's cluster takes, node by node, and what stops the next one.

Where a pod's verdict on a node depends on that node alone, all nodes are filled at once: suppose n more pods on every
node, ask the filter plugins about all rows, and search for the largest n by halving. That asks the plugins themselves
and costs some ten passes over the columns, however many pods fit. Where pods see one another across nodes (spreading,
affinity), share volumes, devices or host ports, they are placed one by one as the scheduler would place them.

    free cpu 2500m, 700m; pod asks 600m  ->  {"node-1": 4, "node-2": 1}; the next: 2 Insufficient cpu
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.library import Planner
from bayplan.scheduler.scoring.evaluation import Evaluation
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod

Told = Callable[[int], object]
"""Told how many pods have been placed so far."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Nodes that take no further pod for one reason."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]

    def to_dict(self, examples: int = 5) -> dict[str, Any]:
        """Plain data."""
        return {
            "reasons": list(self.reasons),
            "plugin": self.plugin,
            "nodes": len(self.nodes),
            "examples": list(self.nodes[:examples]),
        }


@dataclass(slots=True)
class PodCapacity:
    """How many more pods fit."""

    per_node: dict[str, int] = field(default_factory=dict)
    """Node -> pods, nodes that take none left out, by name."""
    node_count: int = 0
    limits: list[Limit] = field(default_factory=list)
    """What stops the next pod, most nodes first; empty if the search was told to stop before."""
    message: str = ""
    """What the next pod's condition would say."""
    one_by_one: bool = False
    """The pods see one another, so that the number holds for the order in which the scheduler places them."""

    @property
    def total(self) -> int:
        """How many pods fit."""
        return sum(self.per_node.values())


def capacity_for(
    planner: Planner, pod: Pod, *, most: int | None = None, enough: int | None = None, told: Told | None = None
) -> PodCapacity:
    """How many more pods like this one fit, at most `most`. The planner is as before afterwards.

    `enough`: where pods are placed one by one, so many are all that anybody wants to know of.
    Raises SchedulerError if no profile schedules the pod, DecodeError.
    """
    spec = replace(pod.spec, preemption_policy="Never", node_name="", scheduling_group=None)
    pod = replace(pod, spec=spec)
    info = planner.pod(pod)
    cycle = planner.cycle_for(info)
    first = cycle.decide(info)
    if not first.scheduled or most == 0:
        return _full(planner, {}, first)
    evaluation = cycle.evaluation(info.shape)
    if is_local(planner, cycle, info, evaluation):
        return _fill(planner, cycle, info, most)
    return _place_all(planner, cycle, pod, most if most is not None else enough, told)


def is_local(planner: Planner, cycle: Cycle, info: PodInfo, evaluation: Evaluation) -> bool:
    """Whether the columns alone say how many fit: nothing that pods of this shape take is shared or counted elsewhere."""
    shape = info.shape
    plain = not (evaluation.has_cross_node_filters or shape.host_ports or shape.volumes or len(planner.nominator))
    return plain and not cycle.profile.plugin_plan(shape).reserve


def limits_of(decision: Decision) -> list[Limit]:
    """Why the nodes refuse a pod, in groups of equal reasons, largest first."""
    if decision.rejection is not None:
        plugin, reject = decision.rejection
        return [Limit(plugin, reject.reasons, tuple(sorted(name for name in decision.names if name)))]
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row, code in enumerate(decision.codes.tolist()):
        if code > 0:
            reason = decision.reasons[code]
            found.setdefault((reason.plugin, reason.reasons), []).append(decision.names[row])
    limits = [Limit(plugin, reasons, tuple(sorted(names))) for (plugin, reasons), names in found.items()]
    return sorted(limits, key=lambda one: (-len(one.nodes), one.plugin, one.reasons))


def _full(planner: Planner, per_node: dict[str, int], decision: Decision) -> PodCapacity:
    room = PodCapacity(dict(sorted(per_node.items())), planner.snapshot.node_count)
    room.limits = limits_of(decision)
    room.message = decision.message or (", ".join(decision.gate[1].reasons) if decision.gate is not None else "")
    return room


# All nodes at once


def _fill(planner: Planner, cycle: Cycle, info: PodInfo, most: int | None) -> PodCapacity:
    snapshot = planner.snapshot
    codes = cycle.evaluation(info.shape).codes
    rows: Ints = np.flatnonzero(codes == 0)
    fits = np.ones(len(rows), dtype=np.int64)
    """The most that is known to fit."""
    too_many = np.maximum(snapshot.pod_limit[rows] - snapshot.pod_count[rows], 1) + 1
    """The least that is known not to fit; no node takes more pods than it says."""
    while True:
        middle = (fits + too_many) // 2
        open_ = middle > fits
        if not open_.any():
            break
        good = _codes_with(cycle, info, rows, middle - 1)[rows] == 0
        fits = np.where(open_ & good, middle, fits)
        too_many = np.where(open_ & ~good, middle, too_many)
    names = cycle.names()
    per_node = {names[row]: count for row, count in sorted(zip(rows.tolist(), fits.tolist(), strict=True))}
    if most is not None and sum(per_node.values()) >= most:
        return PodCapacity(_first(dict(sorted(per_node.items())), most), snapshot.node_count)
    with snapshot.taking(info, rows, fits):
        decision = cycle.opened(info)
        decision.codes = _codes(cycle, info)
        return _full(planner, per_node, decision)


def _first(per_node: dict[str, int], most: int) -> dict[str, int]:
    """As many as are wanted, spread over the nodes in turn of their share."""
    left, kept = most, {}
    total = sum(per_node.values())
    for name, count in per_node.items():
        share = min(left, -(-count * most // total))
        if share:
            kept[name] = share
        left -= share
    return kept


def _codes_with(cycle: Cycle, info: PodInfo, rows: Ints, counts: Ints) -> Codes:
    """The verdicts if so many more pods were on the rows."""
    with cycle.snapshot.taking(info, rows, counts):
        return _codes(cycle, info)


def _codes(cycle: Cycle, info: PodInfo) -> Codes:
    evaluation = Evaluation(cycle.profile, info.shape)
    evaluation.refresh()
    return evaluation.codes


# One by one


def copy_of(planner: Planner, pod: Pod, number: int) -> PodInfo:
    """The `number`-th pod like this one."""
    metadata = replace(pod.metadata, name=f"{pod.metadata.name or 'pod'}-copy-{number}", uid=f"copy-{number}")
    return planner.pod(replace(pod, metadata=metadata))


def _place_all(planner: Planner, cycle: Cycle, pod: Pod, most: int | None, told: Told | None) -> PodCapacity:
    placed: dict[str, int] = {}
    keys: list[str] = []
    decision: Decision | None = None
    while most is None or len(keys) < most:
        info = copy_of(planner, pod, len(keys))
        decision = cycle.decide(info, full=False)
        if decision.row >= 0:
            planner.settle(cycle, info, decision)
        node = decision.node
        if node is None:
            break
        keys.append(info.key)
        placed[node] = placed.get(node, 0) + 1
        if told is not None and len(keys) % 100 == 0:
            told(len(keys))
    if decision is not None and not decision.scheduled:
        room = _full(planner, placed, decision)
    else:
        room = PodCapacity(dict(sorted(placed.items())), planner.snapshot.node_count)
    for key in reversed(keys):
        planner.take_back(key)
    room.one_by_one = True
    return room


# Several shapes


@dataclass(slots=True)
class MixPodCapacity:
    """How often a set of pods fits."""

    sets: int
    """Complete sets."""
    per_node: dict[str, int]
    """Node -> pods of all complete sets."""
    stopped_by: str
    """Name of the pod that found no node first; empty if the search was told to stop before."""
    room: PodCapacity
    """What stopped it."""


def capacity_for_mix(
    planner: Planner, pods: Sequence[tuple[Pod, int]], *, most: int | None = None, told: Told | None = None
) -> MixPodCapacity:
    """How many sets of pods fit, each set with so many of each pod, placed set by set as the scheduler would.

    Raises SchedulerError if no profile schedules one of them, DecodeError.
    """
    each = [
        replace(pod, spec=replace(pod.spec, preemption_policy="Never", node_name="", scheduling_group=None))
        for pod, count in pods
        for _ in range(count)
    ]
    placed: list[tuple[str, str]] = []
    current: list[tuple[str, str]] = []
    sets, stopped, failed = 0, "", PodCapacity(node_count=planner.snapshot.node_count)
    while most is None or sets < most:
        current = []
        for pod in each:
            info = copy_of(planner, pod, len(placed) + len(current))
            decision = planner.schedule(info)
            if decision.node is None:
                stopped, failed = f"{pod.metadata.namespace}/{pod.metadata.name}", _full(planner, {}, decision)
                break
            current.append((info.key, decision.node))
        if stopped:
            break
        placed += current
        current = []
        sets += 1
        if told is not None and sets % 20 == 0:
            told(len(placed))
    per_node: dict[str, int] = {}
    for _, node in placed:
        per_node[node] = per_node.get(node, 0) + 1
    for key, _ in reversed((*placed, *current)):
        planner.take_back(key)
    return MixPodCapacity(sets, dict(sorted(per_node.items())), stopped, failed)
