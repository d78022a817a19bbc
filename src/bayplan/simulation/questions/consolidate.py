"""Which nodes can go, in which order, and where everything that runs on them moves.

Which nodes could go is guessed from the room that there is, the emptiest first; then it is tried as it would be carried
out: all of them are cordoned, then drained one after the other, and the scheduler places every pod that has to move. A
node for which that fails is opened again and stays. So it goes on until no further node can go, and then (unless all
went at the first attempt) once more from the start, so that every pod moves once only. Nobody is preempted, and what
belongs to a node (daemons, mirror pods) goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.selectors.labels import SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.planning.relocation import NodeUse, emptied_by_room, moving, packing, use_of_nodes
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.simulation.questions.consolidate_rules import Budgets, Fate, Rules, judge, node_blocker
from bayplan.simulation.snapshots.planner import QuestionError, fresh, planner_of

if TYPE_CHECKING:
    from pathlib import Path

    from bayplan.api.types import core_v1
    from bayplan.scheduler.library import Planner
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_ROUNDS: Final = 6
"""How often nodes are looked for; each round finds fewer."""

_ALONE: Final = 50
"""Nodes that are tried although the guess sees no room for their pods."""

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
    """Nodes for whose pods there is plainly no room elsewhere, or that need not go because enough others do."""
    limited: bool = False
    """As many nodes go as were allowed to."""
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


def consolidate(
    copy: ClusterSnapshot,
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
        return finder.find(finder.candidates(_selected(copy, selector)), keep, most, told)
    except SchedulerError as error:
        raise QuestionError(str(error)) from error


def _selected(copy: ClusterSnapshot, selector: str) -> list[core_v1.Node]:
    try:
        compiled = parse_labels(selector) if selector else None
    except SelectorError as error:
        raise QuestionError(f"--selector {selector}: {error}") from error
    nodes: list[core_v1.Node] = copy.of("Node")
    found = [node for node in nodes if compiled is None or compiled.matches(node.metadata.labels)]
    if nodes and not found:
        raise QuestionError(f"--selector {selector}: no node has such labels; the cluster has {len(nodes)} nodes")
    return found


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node that may go if its pods find room."""

    node: str
    moving: tuple[core_v1.Pod, ...]
    """In the order in which the scheduler would take them."""
    left_behind: tuple[str, ...]


class _Finder:
    """Looks for nodes of one copy that can go."""

    def __init__(self, copy: ClusterSnapshot, rules: Rules, config: Path | None) -> None:
        self.copy = copy
        self.rules = rules
        self.config = config
        self.budgets = Budgets(copy.of("PodDisruptionBudget"), copy.of("Pod"))
        self.kept: dict[str, tuple[str, ...]] = {}
        self.names: list[str] = []
        """All nodes that are looked at."""
        self._movable: dict[str, tuple[int, core_v1.Pod]] = {}
        """All pods that have to move if their node goes, with their place in the order in which they do."""
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
            self.names.append(name)
            reasons = [blocker] if (blocker := node_blocker(node, self.rules)) else []
            moving_, left = [], []
            for pod in self._pods.get(name, ()):
                judgement = judge(pod, self.budgets, self.rules)
                if judgement.fate is Fate.BLOCKS:
                    reasons.append(f"pod {pod_key(pod)}: {judgement.why}")
                elif judgement.fate is Fate.MOVES:
                    moving_.append(pod)
                else:
                    left.append(pod_key(pod))
            if reasons:
                self.kept[name] = tuple(reasons)
            else:
                moving_.sort(key=lambda pod: (-(pod.spec.priority or 0), pod_key(pod)))
                self._movable.update(
                    (pod_key(pod), (number, pod)) for number, pod in enumerate(moving_, len(self._movable))
                )
                found[name] = _Candidate(name, tuple(moving_), tuple(left))
        return found

    def find(self, candidates: dict[str, _Candidate], keep: int, most: int | None, told: Told | None) -> Consolidation:
        """Rounds of guess and trial, until a round empties no further node; then everything once more from the start."""
        planner = planner_of(self.copy, self.config)
        before = use_of_nodes(planner)
        limit = len(before) - keep if most is None else min(most, len(before) - keep)
        gone: list[_Candidate] = []
        steps: list[Step] = []
        as_planned = True  # all nodes that go, and no others, were cordoned at once: nothing has to be done anew
        left = dict(candidates)
        for _ in range(_ROUNDS):
            chosen = self._guess(planner, left, limit - len(gone), gone)
            emptied, further = self._drained(planner, chosen, gone, told)
            as_planned = as_planned and (not emptied or (not gone and len(emptied) == len(chosen)))
            gone += emptied
            steps += further
            for one in chosen:
                del left[one.node]
            if not emptied or len(gone) >= limit:
                break
        alone = self._tried_alone(planner, left, limit - len(gone), gone)
        gone += alone
        if alone or not as_planned:
            planner = planner_of(self.copy, self.config)
            _, steps = self._drained(planner, gone, (), told)
        return self._answer(planner, steps, limit, before)

    def _guess(
        self, planner: Planner, left: dict[str, _Candidate], most: int, gone: Sequence[_Candidate]
    ) -> list[_Candidate]:
        """Nodes that may go by the room that there is, from the emptiest to the fullest."""
        snapshot = planner.snapshot
        uses = {use.node: use for use in use_of_nodes(planner) if use.node in left}
        order = sorted(left.values(), key=lambda one: (uses[one.node].fullness, len(one.moving), one.node))
        there = self._there(planner, left)
        listed = [(one.node, [pod_key(pod) for pod in there[one.node]]) for one in order]
        closed = frozenset(snapshot.row_of[one.node] for one in gone)
        return [left[name] for name in emptied_by_room(planner, listed, most, closed)]

    def _tried_alone(
        self, planner: Planner, left: dict[str, _Candidate], most: int, gone: Sequence[_Candidate]
    ) -> list[_Candidate]:
        """The emptiest of the nodes for which the guess saw no room, one by one: it may be wrong, and the scheduler says why not."""
        fullness = {use.node: use.fullness for use in use_of_nodes(planner)}
        emptied: list[_Candidate] = []
        for one in sorted(left.values(), key=lambda one: (fullness[one.node], len(one.moving), one.node))[:_ALONE]:
            if len(emptied) >= most:
                break
            emptied += self._drained(planner, (one,), (*gone, *emptied), None)[0]
        return emptied

    def _there(self, planner: Planner, nodes: Iterable[str]) -> dict[str, list[core_v1.Pod]]:
        """The pods that have to move from nodes, as things are in the planner, those that came there included."""
        snapshot, movable = planner.snapshot, self._movable
        found = {}
        for name in nodes:
            there = (movable[key] for key in snapshot.pods_on[snapshot.row_of[name]] if key in movable)
            found[name] = [pod for _, pod in sorted(there, key=itemgetter(0))]
        return found

    def _drained(
        self, planner: Planner, chosen: Sequence[_Candidate], gone: Sequence[_Candidate], told: Told | None
    ) -> tuple[list[_Candidate], list[Step]]:
        """Cordon all chosen nodes, then drain one after the other. One for which that fails is opened again and stays."""
        rows = planner.snapshot.row_of
        closed = {rows[one.node] for one in (*gone, *chosen)}
        there = self._there(planner, [one.node for one in chosen])
        emptied: list[_Candidate] = []
        steps: list[Step] = []
        for one in chosen:
            moved, why = self._moved(planner, there[one.node], closed)
            if why:
                closed.discard(rows[one.node])
                self.kept[one.node] = (why,)
                continue
            emptied.append(one)
            moves = tuple(Move(pod_key(pod), to, self._budgets_of(pod)) for pod, to in moved)
            steps.append(Step(one.node, moves, one.left_behind))
            if told is not None:
                told(len(gone) + len(emptied))
        return emptied, steps

    def _answer(self, planner: Planner, steps: list[Step], limit: int, before: list[NodeUse]) -> Consolidation:
        """The steps, which were carried out on the planner: all nodes cordoned at first, every pod moved once."""
        answer = Consolidation(steps, before=before)
        removed = answer.removed
        answer.after = [use for use in use_of_nodes(planner) if use.node not in removed]
        answer.kept = [Kept(node, why) for node, why in sorted(self.kept.items())]
        answer.untried = sorted(name for name in self.names if name not in removed and name not in self.kept)
        answer.limited = len(removed) >= limit
        return answer

    def _moved(
        self, planner: Planner, pods: Sequence[core_v1.Pod], closed: Collection[int]
    ) -> tuple[list[tuple[core_v1.Pod, str]], str]:
        """Where pods go if these rows are closed; if one finds no node, nothing is changed and the text says why."""
        moved: list[tuple[core_v1.Pod, str]] = []
        with moving(planner, closed) as moves:
            for pod in pods:
                moves.take(pod_key(pod))
            for pod in pods:
                decision = moves.place(planner.pod(self._anew(pod)))
                if decision.node is None:
                    return [], f"pod {pod_key(pod)} fits nowhere else: {_short(decision.message)}"
                moved.append((pod, decision.node))
            moves.keep()
        return moved, ""

    def _anew(self, pod: core_v1.Pod) -> core_v1.Pod:
        """The pod as its owner makes it again."""
        key = pod_key(pod)
        found = self._fresh.get(key)
        if found is None:
            found = self._fresh[key] = fresh(pod)
        return found

    def _budgets_of(self, pod: core_v1.Pod) -> tuple[str, ...]:
        return tuple(one.metadata.name for one in self.budgets.of(pod))


def _short(message: str) -> str:
    """The reasons of a message, without the count of nodes and what was said of preemption."""
    _, found, reasons = message.partition("nodes are available:")
    if not found:
        return message
    return reasons.partition(". ")[0].strip().rstrip(".") or "no other node is left"
