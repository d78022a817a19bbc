"""The rehearsal: a workload is played under both settings, and what becomes of each pod is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bayplan.scheduler.decision import Decision
from bayplan.scheduler.library import Planner
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.simulation.rehearsal.gates import GateHistory, changes
from bayplan.simulation.rehearsal.measures import Measures, measures_of
from bayplan.simulation.rehearsal.older_rules import uses_of_gates
from bayplan.simulation.rehearsal.setting import Setting
from bayplan.simulation.replay.records import PodRecord
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import Workload, replay

Told = Callable[[int], object]
_SCORES: Final = 3
"""Plugins that are named where scores decide."""


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod of which the second setting makes something else."""

    pod: str
    """`namespace/name`; a name that comes again has its number behind it."""
    before: PodRecord
    after: PodRecord
    reason: str
    """In the words of the scheduler under the setting that is worse for the pod; "" if it said nothing."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"pod": self.pod, "a": _data(self.before), "b": _data(self.after), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Pods that fare otherwise under the second setting; a pod may be in several lists."""

    elsewhere: tuple[PodChange, ...] = ()
    """Placed first on another node."""
    later: tuple[PodChange, ...] = ()
    sooner: tuple[PodChange, ...] = ()
    preempted: tuple[PodChange, ...] = ()
    """Preempted more often."""
    spared: tuple[PodChange, ...] = ()
    """Preempted less often."""
    pending: tuple[PodChange, ...] = ()
    """Never placed, but placed under the first setting."""
    placed: tuple[PodChange, ...] = ()
    """Placed, but never under the first setting."""

    def lists(self) -> Iterator[tuple[str, tuple[PodChange, ...]]]:
        """Each list by the name that it has in data."""
        yield "elsewhere", self.elsewhere
        yield "waitLonger", self.later
        yield "waitLess", self.sooner
        yield "preempted", self.preempted
        yield "preemptedNoMore", self.spared
        yield "pending", self.pending
        yield "placedNow", self.placed


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A workload under two settings."""

    settings: tuple[Setting, Setting]
    pods: int
    nodes: int
    gates: tuple[GateHistory, ...]
    """Gates that bear on the scheduler and differ between the settings' releases."""
    uses: Mapping[str, int]
    """Gate among them -> objects of the workload that are not the same without it, where there are any."""
    changes: PodChanges
    measures: tuple[Measures, Measures]
    runs: tuple[Replay, Replay]

    @property
    def good(self) -> bool:
        """Whether under the second setting no pod stays pending or is preempted that was not under the first."""
        return not self.changes.pending and not self.changes.preempted

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        first, second = self.settings
        return {
            "a": first.to_dict(),
            "b": second.to_dict(),
            "pods": self.pods,
            "nodes": self.nodes,
            "gates": [{**one.to_dict(), "objects": self.uses.get(one.name, 0)} for one in self.gates],
            "changes": {name: [one.to_dict() for one in found] for name, found in self.changes.lists()},
            "measures": {name: one.to_dict() for name, one in zip(("a", "b"), self.measures, strict=True)},
        }


def rehearse(
    workload: Workload, first: Setting, second: Setting, *, seed: int | None = None, told: Told | None = None
) -> Rehearsal:
    """Play a workload under both settings. seed: decides between equally good nodes; None takes the first by name. told: told how many pods
    were placed, in both runs. Raises SettingsError, PluginFileError, RehearsalError."""
    under = (first.workload(workload), second.workload(workload))
    with first.settings() as settings:
        before = replay(under[0], settings, seed=seed, told=told)
    explainer = _Explainer({name: record.node for name, record in before.records.of.items()})
    with second.settings() as settings:
        counted = None if told is None else lambda count: told(before.placed + count)
        after = replay(under[1], settings, seed=seed, told=counted, schedule=explainer.schedule)
    gates = changes(first.kubernetes, second.kubernetes)
    return Rehearsal(
        (first, second),
        len(workload.arrivals),
        len(workload.nodes),
        gates,
        uses_of_gates(workload, _switched(gates, first, second)),
        _changes(before, after, explainer.reasons),
        (measures_of(workload, before), measures_of(workload, after)),
        (before, after),
    )


def _switched(gates: Iterable[GateHistory], first: Setting, second: Setting) -> list[str]:
    """The gates that are on for one side only."""
    return [one.name for one in gates if one.is_on(first.kubernetes) != one.is_on(second.kubernetes)]


@dataclass(slots=True)
class _Explainer:
    """Schedules as a planner does, and asks why where a pod goes to another node than before."""

    nodes: Mapping[str, str]
    """Pod -> where it went under the first setting."""
    reasons: dict[str, str] = field(default_factory=dict)

    def schedule(self, planner: Planner, pod: PodInfo, name: str) -> Decision:
        """Decide, and count the pod on its node if one was found."""
        cycle = planner.cycle_for(pod)
        decision = planner.decide_in(cycle, pod, full=False, explain=False)
        before = self.nodes.get(name, "")
        if decision.row >= 0 and before and decision.node != before and name not in self.reasons:
            explained = planner.decide_in(cycle, pod, full=True, explain=True)
            self.reasons[name] = why_not(explained, before, decision.node or "")
        if decision.row >= 0:
            planner.settle(cycle, pod, decision)
        return decision


def why_not(decision: Decision, node: str, chosen: str) -> str:
    """Why a decision, made with `explain`, does not take a node but the chosen one."""
    if node not in decision.names:
        return f"there is no node {node}"
    if decision.rejection is not None or decision.gate is not None:
        return decision.message
    if refused := decision.verdict(node):
        return f"{node} is refused: {', '.join(refused.reasons)} ({refused.plugin})"
    if not decision.scores:
        return f"{node} is not looked at"
    row, other = decision.names.index(chosen), decision.names.index(node)
    gains = Counter({name: int(scores[row]) - int(scores[other]) for name, scores in decision.scores.items()})
    lead = sum(gains.values())
    if not lead:
        return f"{node} is as good"
    named = [f"{name} {gain:+d}" for name, gain in gains.most_common(_SCORES) if gain > 0]
    return f"{chosen} scores {lead} more than {node}: {', '.join(named)}"


def _changes(before: Replay, after: Replay, reasons: Mapping[str, str]) -> PodChanges:
    found: dict[str, list[PodChange]] = {name: [] for name, _ in PodChanges().lists()}
    for name, old in before.records.of.items():
        new = after.records.of[name]
        if old.was_placed and new.was_placed:
            if old.node != new.node:
                found["elsewhere"].append(PodChange(name, old, new, reasons.get(name, "")))
            if old.wait != new.wait:
                worse = new if new.wait > old.wait else old
                which = "waitLonger" if worse is new else "waitLess"
                found[which].append(PodChange(name, old, new, worse.message))
        elif old.was_placed or new.was_placed:
            which = "pending" if old.was_placed else "placedNow"
            found[which].append(PodChange(name, old, new, new.message if old.was_placed else old.message))
        if len(old.preempted_by) != len(new.preempted_by):
            worse = new if len(new.preempted_by) > len(old.preempted_by) else old
            by = f"by {', '.join(dict.fromkeys(worse.preempted_by))}"
            found["preempted" if worse is new else "preemptedNoMore"].append(PodChange(name, old, new, by))
    found["waitLonger"].sort(key=lambda one: one.before.wait - one.after.wait)
    found["waitLess"].sort(key=lambda one: one.after.wait - one.before.wait)
    return PodChanges(*(tuple(found[name]) for name, _ in PodChanges().lists()))


def _data(record: PodRecord) -> dict[str, Any]:
    return {
        "node": record.node,
        "waitSeconds": record.wait,
        "runningSeconds": record.running,
        "preemptedBy": record.preempted_by,
    }
