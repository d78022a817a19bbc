"""Plans of the cluster autoscaler: how much to grow which group, and which nodes can go. Pure functions over a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.types import core_v1, policy_v1
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import (
    SCALE_DOWN_DISABLED,
    Drain,
    MakeSandbox,
    NodeGroup,
    Option,
    Sandbox,
    bound,
    from_template,
    likeness,
    needs_moving,
    obstacle,
    unbound,
    utilization,
)

_AT_MAXIMUM = "max node group size reached"


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as the autoscaler sees it."""

    nodes: Mapping[str, core_v1.Node]
    """Nodes that stay or are on their way, as they will be, by name."""
    pods: Mapping[str, Sequence[core_v1.Pod]]
    """Node -> pods on it that have not ended."""
    pending: Sequence[core_v1.Pod]
    groups: Sequence[NodeGroup]
    sizes: Mapping[str, int]
    """Group -> nodes that it has or is making."""
    others: Mapping[str, Iterable[Any]]
    """Further objects that bear on scheduling, by kind."""
    sandbox: MakeSandbox
    daemons: Sequence[core_v1.Pod] = ()
    """One pod of each DaemonSet, without node: such pods come to every new node that lets them in."""

    def copy(self) -> Sandbox:
        """A fresh sandbox."""
        pods = (pod for name in self.nodes for pod in self.pods.get(name, ()))
        return self.sandbox(self.nodes.values(), pods, self.others)


@dataclass(slots=True)
class Growth:
    """How to help pods that wait."""

    best: Option | None = None
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Uid of a pod that no group helps -> why, group by group."""
    waiting: list[core_v1.Pod] = field(default_factory=list)
    """Pods that fit nowhere, not even on nodes that are on their way."""
    expected: dict[str, list[core_v1.Pod]] = field(default_factory=dict)
    """Node -> pods that wait and will find their place there."""


def growth(view: View, unavailable: Mapping[str, str], choose: Callable[[Sequence[Option]], Option | None]) -> Growth:
    """Which group to grow, by how much, for whom. `unavailable`: groups that cannot be asked now, and why; `choose`: which of several options is taken."""
    if not view.pending:
        return Growth()
    ordered = sorted(view.pending, key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or ""))
    placing, waiting = _Placing(view.copy()), []
    expected: dict[str, list[core_v1.Pod]] = {}
    for pod in ordered:
        if where := placing.place(pod):
            expected.setdefault(where, []).append(bound(pod, where))
        else:
            waiting.append(pod)
    found = Growth(waiting=waiting, refused={pod.metadata.uid: [] for pod in waiting}, expected=expected)
    if not waiting:
        return found
    options = []
    for group in view.groups:
        size = view.sizes.get(group.name, 0)
        reason = unavailable.get(group.name) or (_AT_MAXIMUM if size >= group.maximum else "")
        if reason:
            for refused in found.refused.values():
                refused.append(reason)
            continue
        option = _estimate(view, group, waiting, group.maximum - size, found.refused)
        if option is not None:
            options.append(option)
    found.best = choose(options) if options else None
    for option in options:
        for pod in option.pods:
            found.refused.pop(pod.metadata.uid, None)
    return found


class _Placing:
    """A sandbox that remembers which kinds of pods found no place: while no node comes, their likes find none either."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._hopeless: dict[Hashable, tuple[str, ...] | None] = {}
        """Kind of pod -> why it cannot be on the newest node, once somebody has asked."""

    def add_node(self, node: core_v1.Node, daemons: Iterable[core_v1.Pod]) -> None:
        """A node comes, and with it the daemons that it lets in."""
        self._hopeless.clear()
        self._sandbox.add_node(node)
        name = node.metadata.name
        for daemon in daemons:
            if not self._sandbox.refusal(daemon, name):
                self._sandbox.add_pod(bound(daemon, name))

    def place(self, pod: core_v1.Pod) -> str:
        """See Sandbox."""
        kind = likeness(pod)
        if kind in self._hopeless:
            return ""
        where = self._sandbox.place(pod)
        if not where:
            self._hopeless[kind] = None
        return where

    def refusal(self, pod: core_v1.Pod, node: str) -> tuple[str, ...]:
        """See Sandbox."""
        kind = likeness(pod)
        known = self._hopeless.get(kind)
        if known is None:
            known = self._hopeless[kind] = self._sandbox.refusal(pod, node)
        return known


def _estimate(
    view: View, group: NodeGroup, waiting: Sequence[core_v1.Pod], room: int, refused: dict[str, list[str]]
) -> Option | None:
    """How many nodes of a group the waiting pods take, and which pods then have a place. Pods that do not fit an empty node are told why."""
    placing, made, empty, newest, placed = _Placing(view.copy()), 0, False, "", []
    for pod in waiting:
        where = placing.place(pod)
        if not where and not empty and made < room:
            made, empty = made + 1, True
            node = from_template(group, made)
            newest = node.metadata.name
            placing.add_node(node, view.daemons)
            where = placing.place(pod)
        if where:
            placed.append(pod)
            empty = empty and where != newest
        elif empty:
            refused[pod.metadata.uid] += placing.refusal(pod, newest)
        else:
            refused[pod.metadata.uid].append(_AT_MAXIMUM)
    nodes = made - 1 if empty else made
    return Option(group, nodes, tuple(placed)) if nodes > 0 and placed else None


@dataclass(frozen=True, slots=True)
class Removable:
    """A node that can go."""

    node: core_v1.Node
    group: NodeGroup
    utilization: float
    to_move: tuple[core_v1.Pod, ...]
    """Pods that find a place elsewhere."""
    going: tuple[core_v1.Pod, ...]
    """Pods that go with the node."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When nodes may go."""

    threshold: float = 0.5
    """Part of cpu or memory that is requested, below which a node is hardly used."""
    drain: Drain = field(default_factory=Drain)
    candidates: int = 30
    """Nodes with pods that are looked at in one round."""


def removable(
    view: View,
    group_of: Callable[[core_v1.Node], NodeGroup | None],
    budgets: Sequence[policy_v1.PodDisruptionBudget],
    limits: Limits,
    before: Iterable[str],
    now: float,
) -> tuple[list[Removable], dict[str, str]]:
    """Nodes that can all go together, and why others cannot (name -> reason).

    `before`: nodes that could go at the last look; they come first, so that the choice is steady.
    """
    remembered = frozenset(before)
    candidates, kept = [], {}
    for name, node in view.nodes.items():
        group = group_of(node)
        if group is None:
            continue
        pods = view.pods.get(name, ())
        used = utilization(node, pods)
        if node.metadata.annotations.get(SCALE_DOWN_DISABLED) == "true":
            kept[name] = "ScaleDownDisabledAnnotation"
        elif used >= limits.threshold:
            kept[name] = "NotUnderutilized"
        else:
            movers = tuple(pod for pod in pods if needs_moving(pod, now))
            rest = tuple(pod for pod in pods if not needs_moving(pod, now))
            candidates.append(Removable(node, group, used, movers, rest))
    candidates.sort(
        key=lambda one: (
            bool(one.to_move),
            one.node.metadata.name not in remembered,
            one.utilization,
            one.node.metadata.name,
        )
    )
    return _together(view, candidates, budgets, limits, kept, now), kept


def _together(
    view: View,
    candidates: Sequence[Removable],
    budgets: Sequence[policy_v1.PodDisruptionBudget],
    limits: Limits,
    kept: dict[str, str],
    now: float,
) -> list[Removable]:
    """Candidates that can go one after the other, each after those before it."""
    sandbox: Sandbox | None = None
    sizes, found, looked = dict(view.sizes), [], 0
    guests: dict[str, list[core_v1.Pod]] = {}
    for one in candidates:
        name = one.node.metadata.name
        if sizes.get(one.group.name, 0) <= one.group.minimum:
            kept[name] = "NodeGroupMinSizeReached"
            continue
        problem = next(filter(None, (obstacle(pod, budgets, limits.drain, now) for pod in one.to_move)), "")
        if problem:
            kept[name] = problem
            continue
        if one.to_move:
            looked += 1
            if looked > limits.candidates:
                kept[name] = "UnexpectedError: too many candidates in one round"
                continue
        sandbox = view.copy() if sandbox is None else sandbox
        if not _moves(sandbox, view.pods.get(name, ()), one, guests):
            kept[name] = "NoPlaceToMovePods"
            continue
        sizes[one.group.name] -= 1
        found.append(one)
    return found


def _moves(sandbox: Sandbox, here: Sequence[core_v1.Pod], one: Removable, guests: dict[str, list[core_v1.Pod]]) -> bool:
    """Take a node out and put its pods elsewhere, also those that came from nodes taken out before (`guests`: by node). If one finds no place, everything is
    as before."""
    name = one.node.metadata.name
    visiting = guests.get(name, [])
    for pod in (*here, *visiting):
        sandbox.remove_pod(pod)
    sandbox.remove_node(name)
    moved: dict[str, list[core_v1.Pod]] = {}
    for pod in (*one.to_move, *visiting):
        copied = unbound(pod)
        where = sandbox.place(copied)
        if not where:
            for others in moved.values():
                for other in others:
                    sandbox.remove_pod(other)
            sandbox.add_node(one.node)
            for other in (*here, *visiting):
                sandbox.add_pod(other)
            return False
        moved.setdefault(where, []).append(bound(copied, where))
    guests.pop(name, None)
    for where, pods in moved.items():
        guests.setdefault(where, []).extend(pods)
    return True
