"""Which nodes can go, in which order, and where everything that runs on them moves.

Nodes are tried from the emptiest to the fullest: if the scheduler finds other nodes for all pods that have to move, the
node goes. What was found is then played through once more as it would be carried out: all nodes that are to go are
cordoned, then drained one after the other; a node for which that fails stays. Nobody is preempted, and what belongs to
a node (daemons, mirror pods) goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.selectors import SelectorError, parse_labels
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.planner_moves import NodeUse, moving, use_of_nodes
from bayplan.simulation.consolidate_rules import Budgets, Fate, Rules, judge, node_blocker
from bayplan.simulation.copies_planner import QuestionError, fresh, planner_of

if TYPE_CHECKING:
    from pathlib import Path

    from bayplan.api.types import core_v1
    from bayplan.scheduler.library import Planner
    from bayplan.simulation.copies import ClusterCopy

PATIENCE: Final = 100
"""Nodes in a row whose pods fit nowhere else, after which fuller ones are not tried."""

Told = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Move:
    """One pod and where it goes."""

    pod: str
    to: str
    budgets: tuple[str, ...] = ()
    """Disruption budgets that have to allow it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One node that goes."""

    node: str
    moves: tuple[Move, ...]
    left_behind: tuple[str, ...]
    """Pods that go with the node."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        moves = [
            {"pod": one.pod, "to": one.to, **({"budgets": list(one.budgets)} if one.budgets else {})}
            for one in self.moves
        ]
        return {"node": self.node, "moves": moves, "goWithTheNode": list(self.left_behind)}


@dataclass(frozen=True, slots=True)
class Kept:
    """One node that has to stay, and why."""

    node: str
    why: tuple[str, ...]


@dataclass(slots=True)
class Consolidation:
    """The answer."""

    steps: list[Step] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    """Nodes fuller than those whose pods already fitted nowhere."""
    before: list[NodeUse] = field(default_factory=list)
    after: list[NodeUse] = field(default_factory=list)
    """The nodes that remain."""

    @property
    def removed(self) -> frozenset[str]:
        """The nodes that go."""
        return frozenset(step.node for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "nodes": {"before": len(self.before), "after": len(self.after)},
            "packing": {"before": packing(self.before), "after": packing(self.after)},
            "steps": [step.to_dict() for step in self.steps],
            "kept": [{"node": one.node, "why": list(one.why)} for one in self.kept],
            "untried": self.untried,
        }


def packing(uses: Sequence[NodeUse]) -> dict[str, float]:
    """Share of cpu and memory of all nodes together that pods ask for."""
    answer = {}
    for resource in ("cpu", "memory"):
        offered = sum(use.allocatable.get(resource, 0) for use in uses)
        asked = sum(use.requested.get(resource, 0) for use in uses)
        answer[resource] = round(asked / offered, 4) if offered else 0.0
    return answer


def consolidate(
    copy: ClusterCopy,
    *,
    rules: Rules | None = None,
    selector: str = "",
    keep: int = 1,
    most: int | None = None,
    config: Path | None = None,
    told: Told | None = None,
) -> Consolidation:
    """Find nodes that can go: those that `selector` selects, at most `most` of them, so that at least `keep` nodes remain. Raises QuestionError."""
    finder = _Finder(copy, rules or Rules(), config)
    try:
        chosen = finder.find(finder.candidates(_selected(copy, selector)), keep, most, told)
        return finder.played_through(chosen)
    except SchedulerError as error:
        raise QuestionError(str(error)) from error


def _selected(copy: ClusterCopy, selector: str) -> list[core_v1.Node]:
    try:
        compiled = parse_labels(selector) if selector else None
    except SelectorError as error:
        raise QuestionError(f"--selector {selector}: {error}") from error
    nodes: list[core_v1.Node] = copy.of("Node")
    return [node for node in nodes if compiled is None or compiled.matches(node.metadata.labels)]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node that may go if its pods find room."""

    node: str
    moving: tuple[core_v1.Pod, ...]
    """In the order in which the scheduler would take them."""
    left_behind: tuple[str, ...]


class _Finder:
    """Looks for nodes of one copy that can go."""

    def __init__(self, copy: ClusterCopy, rules: Rules, config: Path | None) -> None:
        self.copy = copy
        self.rules = rules
        self.config = config
        self.budgets = Budgets(copy.of("PodDisruptionBudget"), copy.of("Pod"))
        self.kept: dict[str, tuple[str, ...]] = {}
        self.untried: list[str] = []
        self._pods: dict[str, list[core_v1.Pod]] = {}
        self._fresh: dict[str, core_v1.Pod] = {}
        for pod in copy.of("Pod"):
            if pod.spec.node_name:
                self._pods.setdefault(pod.spec.node_name, []).append(pod)

    def candidates(self, nodes: Iterable[core_v1.Node]) -> dict[str, _Candidate]:
        """The nodes that no rule keeps, by name; what keeps the others is noted."""
        found = {}
        for node in nodes:
            name = node.metadata.name
            reasons = [blocker] if (blocker := node_blocker(node, self.rules)) else []
            moving_, left = [], []
            for pod in self._pods.get(name, ()):
                judgement = judge(pod, self.budgets, self.rules)
                if judgement.fate is Fate.BLOCKS:
                    reasons.append(f"pod {_key(pod)}: {judgement.why}")
                elif judgement.fate is Fate.MOVES:
                    moving_.append(pod)
                else:
                    left.append(_key(pod))
            if reasons:
                self.kept[name] = tuple(reasons)
            else:
                moving_.sort(key=lambda pod: (-(pod.spec.priority or 0), _key(pod)))
                found[name] = _Candidate(name, tuple(moving_), tuple(left))
        return found

    def find(
        self, candidates: dict[str, _Candidate], keep: int, most: int | None, told: Told | None
    ) -> list[_Candidate]:
        """The nodes that can go one after the other, from the emptiest to the fullest."""
        planner = planner_of(self.copy, self.config)
        uses = {use.node: use for use in use_of_nodes(planner)}
        order = sorted(candidates.values(), key=lambda one: (uses[one.node].fullness, len(one.moving), one.node))
        limit = len(uses) - keep if most is None else min(most, len(uses) - keep)
        chosen: list[_Candidate] = []
        closed: set[int] = set()
        received: dict[str, dict[str, core_v1.Pod]] = {}
        failures = 0
        for number, one in enumerate(order):
            if len(chosen) >= limit or failures >= PATIENCE:
                self.untried = [other.node for other in order[number:]]
                break
            closed.add(planner.snapshot.row_of[one.node])
            more = received.get(one.node, {})
            moved, why = self._moved(planner, (*one.moving, *more.values()), frozenset(closed))
            if why:
                closed.discard(planner.snapshot.row_of[one.node])
                self.kept[one.node] = (why,)
                failures += 1
            else:
                failures = 0
                chosen.append(one)
                for pod, to in moved:
                    received.setdefault(to, {})[_key(pod)] = pod
            if told is not None:
                told(number + 1)
        return chosen

    def _moved(
        self, planner: Planner, pods: Sequence[core_v1.Pod], closed: frozenset[int]
    ) -> tuple[list[tuple[core_v1.Pod, str]], str]:
        """Where pods go if these rows are closed; if one finds no node, nothing is changed and the text says why."""
        moved: list[tuple[core_v1.Pod, str]] = []
        with moving(planner, closed) as moves:
            for pod in pods:
                moves.take(_key(pod))
            for pod in pods:
                decision = moves.place(planner.pod(self._anew(pod)))
                if decision.node is None:
                    return [], f"pod {_key(pod)} fits nowhere else: {_short(decision.message)}"
                moved.append((pod, decision.node))
            moves.keep()
        return moved, ""

    def _anew(self, pod: core_v1.Pod) -> core_v1.Pod:
        """The pod as its owner makes it again."""
        key = _key(pod)
        found = self._fresh.get(key)
        if found is None:
            found = self._fresh[key] = fresh(pod)
        return found

    def played_through(self, chosen: Sequence[_Candidate]) -> Consolidation:
        """Cordon all chosen nodes, then drain one after the other; those for which that fails stay."""
        left = list(chosen)
        while True:
            answer, failed = self._play(left)
            if failed is None:
                answer.kept = [Kept(node, why) for node, why in sorted(self.kept.items())]
                answer.untried = sorted(self.untried)
                return answer
            node, why = failed
            self.kept[node] = (why,)
            left = [one for one in left if one.node != node]

    def _play(self, chosen: Sequence[_Candidate]) -> tuple[Consolidation, tuple[str, str] | None]:
        planner = planner_of(self.copy, self.config)
        answer = Consolidation(before=use_of_nodes(planner))
        closed = frozenset(planner.snapshot.row_of[one.node] for one in chosen)
        for one in chosen:
            moved, why = self._moved(planner, one.moving, closed)
            if why:
                return answer, (one.node, why)
            moves = tuple(Move(_key(pod), to, self._budgets_of(pod)) for pod, to in moved)
            answer.steps.append(Step(one.node, moves, one.left_behind))
        removed = answer.removed
        answer.after = [use for use in use_of_nodes(planner) if use.node not in removed]
        return answer, None

    def _budgets_of(self, pod: core_v1.Pod) -> tuple[str, ...]:
        return tuple(one.metadata.name for one in self.budgets.of(pod))


def _key(pod: core_v1.Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _short(message: str) -> str:
    """The reasons of a message, without the count of nodes and what was said of preemption."""
    return message.partition("nodes are available: ")[2].partition(". ")[0].rstrip(".") or message
