"""Decisions: what the scheduler decided about a pod, and why, node by node.

A decision refers to the arrays of the scheduling cycle and turns them into names and text only when asked:
`to_dict()` gives everything, `summary()` what a person takes in at once, `message` what Kubernetes writes into the
pod's condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from bayplan.scheduler.binding_cycle import Failure
from bayplan.scheduler.explanation import Facts, Group, groups_of, refusal_lines, some
from bayplan.scheduler.extenders.protocol import EXTENDER_NAME
from bayplan.scheduler.framework.post_filter import Candidate, PostFilterOutcome
from bayplan.scheduler.framework.verdicts import Codes, Reason, ReasonTable, Reject, Status
from bayplan.scheduler.scoring.evaluation import Amounts, amounts_in
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot

ONLY_FEASIBLE_NODE = "onlyFeasibleNode"
NOMINATED_NODE = "nominatedNodeName"

EMPTY_CODES: Codes = np.zeros(0, dtype=np.int32)


BEST_NAMED: Final = 10
"""Nodes that are named of those that are equally good."""


@dataclass(frozen=True, slots=True)
class ScoredChoice:
    """How the node was chosen by its scores, without those of others."""

    scores: dict[str, int]
    """By plugin, weighted, of the chosen node."""
    equally_good: int
    """How many nodes have the same total, which is the highest."""
    best: tuple[int, ...]
    """The first rows of these by name, `BEST_NAMED` at most."""


@dataclass(slots=True, repr=False)
class Decision:
    """One scheduling attempt.

    `node` is the chosen node, None if there is none. `codes` and `scores` are per row of `names`; `codes` is
    0 for feasible rows, -1 for rows without a node. Scores, or the `choice` by them, are there only where nodes were scored.
    """

    pod: str
    profile: str
    reasons: ReasonTable
    names: tuple[str, ...] = ()
    node_count: int = 0
    revision: int = 0
    gate: tuple[str, Reject] | None = None
    skipped: bool = False
    rejection: tuple[str, Reject] | None = None
    narrowed: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()
    codes: Codes = field(default_factory=lambda: EMPTY_CODES)
    scores: dict[str, Ints] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    choice: ScoredChoice | None = None
    """What scores made of the choice, where only that was wanted."""
    row: int = -1
    decided_by: str = ""
    post_filter: PostFilterOutcome | None = None
    error: str = ""
    error_plugin: str = ""
    other_errors: tuple[str, ...] = ()
    """Further failures, on other nodes."""
    extender_refused: bool = False
    """An extender refused some node."""
    overruled: tuple[str, ...] = ()
    """Plugins that refused nodes of which an extender then told its own reason."""
    failure: Failure | None = None
    """A node was found, but a plugin of Reserve or Permit refused it."""
    info: PodInfo | None = None
    """The pod as it was judged, for `summary`."""
    snapshot: Snapshot | None = None
    """What the nodes were judged by; it lives on, so figures taken from it are those of the moment they are asked for."""
    _counted: tuple[Codes, Amounts] | None = field(default=None, init=False, compare=False)
    """Verdicts, and how many nodes each reason refuses by them: by `codes`, unless other ones have come since."""

    def __repr__(self) -> str:
        return self.summary()

    def refuse(self, failure: Failure) -> None:
        """Take the node back: a plugin of Reserve or Permit refuses it."""
        self.failure = failure
        self.row = -1
        self.decided_by = ""
        if not failure.unfit:
            self.error, self.error_plugin = failure.message, failure.plugin

    def fail(self, failures: Sequence[Reason]) -> None:
        """Plugins failed on some nodes: there is no node for the pod, whatever the others said."""
        self.error, self.error_plugin = failures[0].reasons[0], failures[0].plugin
        self.other_errors = tuple(failure.reasons[0] for failure in failures[1:])

    @property
    def node(self) -> str | None:
        """The chosen node."""
        return self.names[self.row] if self.row >= 0 else None

    @property
    def scheduled(self) -> bool:
        """Whether a node was found."""
        return self.row >= 0

    @property
    def total(self) -> Ints:
        """The sum of the scores per row, -1 where not feasible; worked out anew with every call."""
        total = np.zeros(len(self.codes), dtype=np.int64)
        for scores in self.scores.values():
            total += scores
        return np.where(self.codes == 0, total, -1)

    @property
    def best_rows(self) -> list[int]:
        """The feasible rows with the highest total."""
        if self.decided_by or not len(self.codes) or self.row < 0:
            return [self.row] if self.row >= 0 else []
        total = self.total
        rows: list[int] = np.flatnonzero(total == total.max()).tolist()
        return rows

    @property
    def best(self) -> list[str]:
        """The feasible nodes with the highest total, by name."""
        return sorted(self.names[row] for row in self.best_rows)

    @property
    def nominated_node(self) -> str:
        """The node on which preemption makes room; empty if it does not help."""
        outcome = self.post_filter
        return self.names[outcome.nominated.row] if outcome is not None and outcome.nominated is not None else ""

    @property
    def nomination(self) -> str | None:
        """The pod's `status.nominatedNodeName` after an attempt that found no node; None: as it is."""
        outcome = self.post_filter
        if self.failure is not None:
            return self.failure.nominated
        if self.error or outcome is None:
            return ""
        if outcome.nominated is not None:
            return self.nominated_node
        return "" if outcome.withdraws else None

    @property
    def victims(self) -> tuple[str, ...]:
        """`namespace/name` of the pods to evict from the nominated node, most important first."""
        outcome = self.post_filter
        if outcome is None or outcome.nominated is None:
            return ()
        return tuple(victim.key for victim in outcome.nominated.victims)

    @property
    def unschedulable_plugins(self) -> list[str]:
        """The plugins that rejected the pod or some node."""
        if self.failure is not None:
            return sorted(self.failure.plugins)
        if self.decided_by == NOMINATED_NODE:
            return []
        found = {reason.plugin for reason in self._distinct() if reason.status is not Status.ERROR}
        if self.rejection is not None:
            found.add(self.rejection[0])
        if self.narrowed is not None and not self._ended_early:
            found.update(self.narrowed_by)
        found.update(self.overruled)
        if self.extender_refused:
            found.add(EXTENDER_NAME)
        return sorted(found - {""})

    @property
    def _ended_early(self) -> bool:
        """A plugin rejected the pod so that PreFilter went no further; who narrowed the choice of nodes before is forgotten then."""
        return (
            self.rejection is not None and bool(self.rejection[0]) and self.rejection[1].status is Status.UNRESOLVABLE
        )

    @property
    def reason(self) -> str:
        """The reason of the pod's `PodScheduled=False` condition; empty if a node was found."""
        if self.scheduled or self.gate is not None or self.skipped:
            return ""
        return "SchedulerError" if self.error else "Unschedulable"

    @property
    def message(self) -> str:
        """Why no node was found, in Kubernetes' words; empty if one was found."""
        if self.scheduled or self.gate is not None or self.skipped:
            return ""
        if self.error:
            return self.error
        if self.failure is not None:
            return self.failure.message
        if self.node_count == 0:
            return "no nodes available to schedule pods"
        text = f"0/{self.node_count} nodes are available:"
        if self.rejection is not None:
            text += f" {', '.join(self.rejection[1].reasons)}."
        else:
            histogram = self.histogram()
            if histogram:
                text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in histogram.items()))}."
        added = self.post_filter_message
        return f"{text} {added}" if added else text

    @property
    def post_filter_message(self) -> str:
        """What PostFilter adds to the message."""
        return ", ".join(self.post_filter.reasons) if self.post_filter is not None else ""

    def histogram(self) -> dict[str, int]:
        """Reason -> number of nodes that it refuses; a node can have several."""
        counts: Counter[str] = Counter()
        for code, amount in self._amounts():
            for reason in self.reasons[code].reasons:
                counts[reason] += amount
        return dict(counts)

    def take(self, codes: Codes, amounts: Amounts) -> None:
        """Take verdicts with what is known of them already. They must not change any more."""
        self.codes = codes
        self._counted = (codes, amounts)

    def _amounts(self) -> Amounts:
        counted = self._counted
        if counted is None or counted[0] is not self.codes:
            counted = self._counted = (self.codes, amounts_in(self.codes))
        return counted[1]

    def verdict(self, node: str) -> Reason | None:
        """Why a node was refused; None if it was not. KeyError for an unknown node."""
        try:
            row = self.names.index(node)
        except ValueError:
            raise KeyError(node) from None
        code = int(self.codes[row]) if len(self.codes) else 0
        return self.reasons[code] if code > 0 else None

    def _distinct(self) -> list[Reason]:
        return [self.reasons[code] for code, _ in self._amounts()]

    # Rendering

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data; the form is described in the golden data's README."""
        if self.gate is not None:
            plugin, reject = self.gate
            return {"preEnqueue": _reject(plugin, reject)}
        result: dict[str, Any] = {"preEnqueue": {"ok": True}}
        if self.skipped:
            return result | {"skipped": f"skip schedule deleting pod: {self.pod}"}
        if self.node_count:
            result["preFilter"] = self._pre_filter()
            if self.rejection is None:
                result["nodes"] = self._nodes()
        if self.weights:
            result["weights"] = dict(self.weights)
        if self.scheduled:
            result["best"] = self.best
            if self.decided_by:
                result["decidedBy"] = self.decided_by
        else:
            result["reason"] = self.reason
            result["message"] = self.message
        if self.error:
            result["errors"] = [self.error, *self.other_errors]
        if self.unschedulable_plugins:
            result["unschedulablePlugins"] = self.unschedulable_plugins
        if self.post_filter is not None:
            result["postFilter"] = self._post_filter(self.post_filter)
        return result

    def _pre_filter(self) -> dict[str, Any]:
        if self.rejection is not None:
            return _reject(*self.rejection)
        answer: dict[str, Any] = {"ok": True}
        if self.narrowed is not None:
            answer["nodes"] = sorted(self.narrowed)
        return answer

    def _nodes(self) -> dict[str, Any]:
        nodes: dict[str, Any] = {}
        codes, total = self.codes.tolist(), self.total
        for row in sorted(range(len(codes)), key=lambda row: self.names[row]):
            code = codes[row]
            if code > 0:
                nodes[self.names[row]] = {"filter": _reason(self.reasons[code])}
            elif code == 0:
                entry: dict[str, Any] = {"filter": {"ok": True}}
                if self.scores or self.weights:
                    entry["scores"] = {name: int(scores[row]) for name, scores in sorted(self.scores.items())}
                    entry["total"] = int(total[row])
                nodes[self.names[row]] = entry
        return nodes

    def _post_filter(self, outcome: PostFilterOutcome) -> dict[str, Any]:
        result: dict[str, Any] = {
            "nominatedNode": self.nominated_node,
            "victims": list(self.victims),
            "message": self.post_filter_message,
        }
        if outcome.tied:
            result["nominatedNodes"] = sorted(self.names[item.row] for item in outcome.tied)
        if outcome.candidates:
            ordered = sorted(outcome.candidates, key=lambda item: self.names[item.row])
            result["candidates"] = [self._candidate(item) for item in ordered]
        if outcome.clears:
            result["clearsNominations"] = sorted(item.key for item in outcome.clears)
        return result

    def _candidate(self, candidate: Candidate) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "node": self.names[candidate.row],
            "victims": [victim.key for victim in candidate.victims],
        }
        if candidate.violations:
            entry["pdbViolations"] = candidate.violations
        return entry

    def summary(self, examples: int = 3, top: int = 5) -> str:
        """The decision on one screen: reasons with counts and example nodes, the best nodes with their scores."""
        groups = self._groups()
        facts = Facts(self.snapshot, self.info, self.names) if self.snapshot and self.info else None
        lines = [f"{self.pod}: {self._headline(groups)}"]
        lines += refusal_lines(groups, facts, self.names, examples)
        feasible = np.flatnonzero(self.codes == 0)
        if len(feasible) and self.rejection is None:
            lines.append(f"  {len(feasible):>6} feasible")
        if self.scores and len(feasible):
            total = self.total
            ranked = sorted((int(row) for row in feasible), key=lambda row: (-int(total[row]), self.names[row]))
            for row in ranked[:top]:
                parts = ", ".join(f"{name} {int(values[row])}" for name, values in self.scores.items() if values[row])
                lines.append(f"         {int(total[row]):>5}  {self.names[row]}  ({parts})")
        return "\n".join(lines)

    def _groups(self) -> list[Group]:
        return groups_of((self.reasons[code], np.flatnonzero(self.codes == code)) for code, _ in self._amounts())

    def _headline(self, groups: list[Group]) -> str:
        if self.skipped:
            return "not scheduled because it is being deleted"
        if self.scheduled:
            return f"placed on {self.node} because {self._why_here()}"
        if self.victims:
            return (
                f"pending because it waits for room on {self.nominated_node}, where it evicts {some(self.victims, 5)}"
            )
        return f"pending because {self._why_pending(groups)}"

    def _why_here(self) -> str:
        if self.decided_by == NOMINATED_NODE:
            return "it was nominated to this node before and now fits there"
        feasible = int((self.codes == 0).sum())
        if self.decided_by == ONLY_FEASIBLE_NODE:
            return f"it is the only one of {self.node_count} nodes that fits" if self.node_count > 1 else "it fits"
        ties = len(self.best)
        of = f" of the {feasible} that fit" if feasible > 1 else ""
        return f"it is one of {ties} equally good nodes{of}" if ties > 1 else f"it has the highest score{of}"

    def _why_pending(self, groups: list[Group]) -> str:
        if self.gate is not None:
            return f"it is held back: {', '.join(self.gate[1].reasons)} ({self.gate[0]})"
        if self.error:
            return f"scheduling failed: {self.error}"
        if self.failure is not None:
            return (
                f"the node that was found is refused: {', '.join(self.failure.reject.reasons)} ({self.failure.plugin})"
            )
        if self.node_count == 0:
            return "the cluster has no nodes"
        if self.rejection is not None:
            plugin, reject = self.rejection
            return f"it fits nowhere: {', '.join(reject.reasons)}" + (f" ({plugin})" if plugin else "")
        nodes = f"none of {self.node_count} nodes fits" if self.node_count > 1 else "the only node does not fit"
        causes = [f"{len(group.rows)} {', '.join(group.reasons)}" for group in groups]
        return f"{nodes}: {some(causes, 4)}" if causes else nodes


def _reason(reason: Reason) -> dict[str, Any]:
    answer: dict[str, Any] = {"code": reason.status.value}
    if reason.plugin:
        answer["plugin"] = reason.plugin
    answer["reasons"] = sorted(reason.reasons)
    return answer


def _reject(plugin: str, reject: Reject) -> dict[str, Any]:
    answer: dict[str, Any] = {"code": reject.status.value}
    if plugin:
        answer["plugin"] = plugin
    answer["reasons"] = list(reject.reasons)
    return answer


__all__ = ["NOMINATED_NODE", "ONLY_FEASIBLE_NODE", "Decision", "Status"]
