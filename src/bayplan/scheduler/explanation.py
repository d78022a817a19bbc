"""A decision in words: one plain sentence, then the refusals in groups with the figures behind them, then the best nodes.

Made only when somebody asks (`Decision.summary`). The figures come from the snapshot as it is at that moment: free
room, taints and labels of the refused nodes. However many nodes there are, the text fits a screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bayplan.api.quantity import Format, Quantity
from bayplan.api.selectors.nodes import required_of
from bayplan.scheduler.framework.verdicts import Reason
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.scheduler.snapshot.taints import NO_EXECUTE, NO_SCHEDULE, tolerated

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import NodeSelectorRequirement, PodSpec

_GROUPS: Final = 8
"""Groups of refusals that are shown in full."""
_VALUES: Final = 4
"""Taints, labels and values that are named within a group."""
_STEPS: Final = (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that are refused for the same reasons by the same plugin."""

    plugin: str
    reasons: tuple[str, ...]
    rows: Ints

    @property
    def title(self) -> str:
        """Reasons and plugin."""
        return ", ".join(self.reasons) + (f" ({self.plugin})" if self.plugin else "")


def groups_of(codes: Iterable[tuple[Reason, Ints]]) -> list[Group]:
    """Groups of refusals, the largest first; what differs in the status only is one group."""
    rows: dict[tuple[str, tuple[str, ...]], list[Ints]] = {}
    for reason, found in codes:
        rows.setdefault((reason.plugin, reason.reasons), []).append(found)
    groups = [Group(plugin, reasons, np.concatenate(parts)) for (plugin, reasons), parts in rows.items()]
    return sorted(groups, key=lambda group: (-len(group.rows), group.title))


def refusal_lines(groups: Sequence[Group], facts: Facts | None, names: Sequence[str], examples: int) -> list[str]:
    """One line for a group, and one with the figures behind it where there are any."""
    lines = []
    for group in groups[:_GROUPS]:
        lines.append(
            f"  {len(group.rows):>6} refused: {group.title}: {some(sorted(names[row] for row in group.rows), examples)}"
        )
        detail = facts.detail(group) if facts is not None else ""
        if detail:
            lines.append(f"         {detail}")
    rest = groups[_GROUPS:]
    if rest:
        lines.append(f"  {sum(len(group.rows) for group in rest):>6} refused for {len(rest)} more reasons")
    return lines


def some(names: Sequence[str], limit: int) -> str:
    """The first of some names, and how many more there are."""
    shown = ", ".join(names[:limit])
    return f"{shown}, ... {len(names) - limit} more" if len(names) > limit else shown


def amount_text(resource: str, amount: int) -> str:
    """An amount in the unit of its column, for people: memory is rounded down to a tenth of a unit."""
    if resource == "cpu":
        return str(Quantity(amount, 3))
    if resource != "memory" and not resource.startswith(("ephemeral-storage", "hugepages-")):
        return str(amount)
    exact = str(Quantity(amount, 0, Format.BINARY_SI))
    if len(exact) <= 7 and exact.endswith("i"):
        return exact
    for unit, shift in _STEPS:
        if amount >> shift:
            tenths = amount * 10 >> shift
            return f"{tenths // 10}.{tenths % 10}{unit}" if tenths % 10 else f"{tenths // 10}{unit}"
    return str(amount)


class Facts:
    """What the snapshot says about refused nodes, for one pod."""

    def __init__(self, snapshot: Snapshot, pod: PodInfo, names: Sequence[str]) -> None:
        self.snapshot = snapshot
        self.pod = pod
        self.names = names
        self._details: dict[str, Callable[[Group], str]] = {
            "NodeResourcesFit": self._room,
            "TaintToleration": self._taints,
            "NodeAffinity": self._labels,
            "NodeName": lambda group: f"asks for node {self.spec.node_name}",
            "NodePorts": self._ports,
        }

    @property
    def spec(self) -> PodSpec:
        """The pod's spec."""
        return self.pod.shape.spec

    def detail(self, group: Group) -> str:
        """The figures behind a group of refusals; "" if there are none."""
        known = self._details.get(group.plugin)
        present = group.rows[[row < self.snapshot.size and self._is_same(int(row)) for row in group.rows]]
        if known is None or not len(present):
            return ""
        return known(Group(group.plugin, group.reasons, present))

    def _is_same(self, row: int) -> bool:
        """Whether the row still is that of the node that was judged."""
        return self.snapshot.row_of.get(self.names[row]) == row

    def _room(self, group: Group) -> str:
        """What the pod asks for, and the most that a refused node has free."""
        snapshot, rows = self.snapshot, group.rows
        resources = snapshot.resources.names
        asks, free, empty = [], [], []
        for column, amount in self.pod.requests:
            name = resources[column]
            asks.append(f"{name} {amount_text(name, amount)}")
            allocatable = snapshot.allocatable[column, rows]
            left = np.maximum(allocatable - snapshot.requested[column, rows], 0)
            best = self._first(rows, left)
            free.append(f"{name} {amount_text(name, int(left.max()))} on {best}")
            if int(allocatable.max()) < amount:
                empty.append(f"{name} {amount_text(name, int(allocatable.max()))}")
        parts = []
        if asks:
            parts.append(f"asks for {', '.join(asks)}; most free: {', '.join(free)}")
        if empty:
            parts.append(f"even empty they have no more than {', '.join(empty)}")
        if "Too many pods" in group.reasons:
            limits = snapshot.pod_limit[rows]
            parts.append(f"they take {_span(int(limits.min()), int(limits.max()))} pods each and are full")
        return "; ".join(parts)

    def _first(self, rows: Ints, amounts: Ints) -> str:
        """Of the nodes with the largest amount the first by name."""
        largest: list[int] = rows[amounts == amounts.max()].tolist()
        return min(self.names[row] for row in largest)

    def _taints(self, group: Group) -> str:
        """The taints that nothing tolerates, and where they are."""
        tolerations = self.spec.tolerations
        nodes: dict[str, list[str]] = {}
        for row in group.rows:
            for taint in self.snapshot.taints.get(int(row)) or ():
                if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(tolerations, taint):
                    value = f"={taint.value}" if taint.value else ""
                    nodes.setdefault(f"{taint.key}{value}:{taint.effect}", []).append(self.names[row])
        ordered = sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
        shown = [f"{taint} on {_counted(sorted(found))}" for taint, found in ordered]
        return "not tolerated: " + some(shown, _VALUES)

    def _labels(self, group: Group) -> str:
        """What node selector and required affinity ask for, and what the refused nodes have instead."""
        asked, keys = [], []
        for key, value in self.spec.node_selector.items():
            asked.append(f"{key}={value}")
            keys.append(key)
        terms = []
        required = required_of(self.spec)
        for term in required.node_selector_terms if required is not None else ():
            terms.append(" and ".join(_requirement_text(one) for one in (*term.match_expressions, *term.match_fields)))
            keys.extend(one.key for one in term.match_expressions)
        if terms:
            asked.append(" or ".join(terms[:_VALUES]))
        found = [self._values(key, group.rows) for key in list(dict.fromkeys(keys))[:_VALUES]]
        text = f"asks for {' and '.join(asked)}" if asked else "the profile asks for other nodes"
        return f"{text}; these nodes have {'; '.join(found)}" if found else text

    def _values(self, key: str, rows: Ints) -> str:
        """How often each value of a label occurs."""
        counts: Counter[str] = Counter()
        for row in rows:
            node = self.snapshot.nodes[row]
            value = node.metadata.labels.get(key) if node is not None else None
            counts["no " + key if value is None else f"{key}={value}"] += 1
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return some([f"{value} ({_nodes(count)})" for value, count in ordered], _VALUES)

    def _ports(self, group: Group) -> str:
        wanted = sorted({f"{port.port}/{port.protocol}" for port in self.pod.host_ports})
        return f"asks for host port {some(wanted, _VALUES)}"


def _requirement_text(one: NodeSelectorRequirement) -> str:
    if one.operator in ("Exists", "DoesNotExist"):
        return f"{one.key} {'exists' if one.operator == 'Exists' else 'does not exist'}"
    if one.operator in ("Gt", "Lt"):
        return f"{one.key} {'>' if one.operator == 'Gt' else '<'} {', '.join(one.values)}"
    if len(one.values) == 1:
        return f"{one.key}{'=' if one.operator == 'In' else '!='}{one.values[0]}"
    return f"{one.key} {'in' if one.operator == 'In' else 'not in'} ({some(one.values, _VALUES)})"


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _counted(names: Sequence[str]) -> str:
    """A few names, or how many there are and the first."""
    return ", ".join(names) if len(names) <= 2 else f"{len(names)} nodes ({names[0]}, ...)"
