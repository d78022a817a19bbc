"""What came of a question, as plain data. `docs/ask.md` says what the fields mean; `openapi.py` describes them for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

import numpy as np

from bayplan.scheduler.decision import BEST_NAMED, Decision, ScoredChoice
from bayplan.scheduler.questions.openapi import API_VERSION, KIND


@dataclass(slots=True)
class PodAnswer:
    """Where one pod would go."""

    pod: str
    """`namespace/name`."""
    workload: str
    scheduled: bool = False
    """Whether there is a node for it."""
    node: str = ""
    """"" if there is none, or if it stands for one pod on each node."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else is known; of the pods of a workload the first one of each outcome has it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        found: dict[str, Any] = {"pod": self.pod, "workload": self.workload, "scheduled": self.scheduled}
        if self.node:
            found["node"] = self.node
        return found | self.details


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question."""

    pods: list[PodAnswer]
    nodes: int
    """Nodes of the cluster."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        placed = sum(one.scheduled for one in self.pods)
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "nodes": self.nodes,
            "placed": placed,
            "pending": len(self.pods) - placed,
            "pods": [one.to_dict() for one in self.pods],
        }


def details_of(decision: Decision, *, explain: bool) -> dict[str, Any]:
    """What a decision says besides the node. explain: node by node, as `bayplan.scheduler.Decision.to_dict` has it."""
    details: dict[str, Any] = {"profile": decision.profile}
    if decision.scheduled:
        details |= _chosen(decision)
    elif decision.gate is not None:
        plugin, reject = decision.gate
        details |= {"reason": "SchedulingGated", "message": ", ".join(reject.reasons), "plugins": [plugin]}
    else:
        details |= {"reason": decision.reason, "message": decision.message, "plugins": decision.unschedulable_plugins}
        if len(decision.codes):
            details["refusals"] = [
                {"reason": reason, "nodes": count} for reason, count in sorted(decision.histogram().items())
            ]
        if decision.victims:
            details["preemption"] = {"node": decision.nominated_node, "victims": list(decision.victims)}
    if explain:
        details["decision"] = decision.to_dict()
    return details


def _chosen(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = {"feasible": int(np.count_nonzero(decision.codes == 0))}
    if decision.decided_by:
        return found | {"decidedBy": decision.decided_by}
    choice = decision.choice if decision.choice is not None else _choice_of(decision)
    if choice.scores:
        found["score"] = sum(choice.scores.values())
        found["scores"] = {name: score for name, score in sorted(choice.scores.items()) if score}
    return found | {"equallyGood": choice.equally_good, "best": [decision.names[row] for row in choice.best]}


def _choice_of(decision: Decision) -> ScoredChoice:
    """How the node was chosen, from the scores of all."""
    rows = decision.best_rows
    scores = {name: int(values[decision.row]) for name, values in decision.scores.items()}
    return ScoredChoice(scores, len(rows), tuple(nsmallest(BEST_NAMED, rows, key=decision.names.__getitem__)))


def everywhere(decision: Decision) -> dict[str, Any]:
    """On how many nodes a pod fits, and what keeps it from the others: for workloads that want one on each."""
    details: dict[str, Any] = {"profile": decision.profile, "fits": int(np.count_nonzero(decision.codes == 0))}
    if decision.error or decision.rejection is not None or decision.gate is not None:
        details["message"] = decision.message or ", ".join(decision.gate[1].reasons if decision.gate else ())
    details["refusals"] = [{"reason": reason, "nodes": count} for reason, count in sorted(decision.histogram().items())]
    return details
