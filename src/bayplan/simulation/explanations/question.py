"""The question `why` about an object of a copy: finds the object and asks whoever knows its kind."""

from __future__ import annotations

import difflib
import functools
from pathlib import Path
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.library import Planner
from bayplan.simulation.explanations.base import Explanation, Facts, home_of, is_namespaced
from bayplan.simulation.explanations.claims import explain_claim
from bayplan.simulation.explanations.nodes import explain_node
from bayplan.simulation.explanations.pods import explain_pod, told_by_scheduler
from bayplan.simulation.explanations.workloads import explain_workload
from bayplan.simulation.snapshots.planner import QuestionError, planner_of
from bayplan.simulation.snapshots.snapshot import KINDS, ClusterSnapshot

WORKLOADS: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob")
EXPLAINED: Final = ("Pod", *WORKLOADS, "PersistentVolumeClaim", "Node")
"""The kinds that can be explained."""


def kind_explained(name: str) -> str:
    """The kind that can be explained which kubectl knows by this name (`deploy`, `pvc`, ...); empty if there is none."""
    try:
        kind = KINDS.storage_kind(KINDS.named(name)).kind
    except KeyError:
        return ""
    return kind if kind in EXPLAINED else ""


class Explainer:
    """Says why objects of one copy are as they are. config: the scheduler's, by which pending pods are judged."""

    def __init__(self, copy: ClusterSnapshot, config: Path | str | None = None) -> None:
        self._facts = Facts(copy)
        self._config = config

    def find(self, kind: str, name: str, namespace: str) -> Any:
        """An object. Raises QuestionError if there is none."""
        found = self._facts.named(kind, namespace, name)
        if found is None:
            raise QuestionError(self._missing(kind, name, namespace))
        return found

    def _missing(self, kind: str, name: str, namespace: str) -> str:
        """That an object does not exist, and which one may be meant."""
        where = f" in namespace {namespace}" if is_namespaced(kind) else ""
        others = self._facts.copy.of(kind)
        same = [one.metadata.name for one in others if not where or home_of(kind, one) == namespace]
        elsewhere = [one.metadata.namespace for one in others if where and one.metadata.name == name]
        near = difflib.get_close_matches(name, same, 1)
        hint = f"there is one in namespace {elsewhere[0]}" if elsewhere else f"did you mean {near[0]}?" if near else ""
        return f"there is no {kind} {name}{where}" + (f"; {hint}" if hint else "")

    def explain(self, kind: str, obj: Any) -> Explanation:
        """Why an object of a kind that can be explained is as it is."""
        if kind == "Pod":
            return explain_pod(self._facts, obj)
        if kind == "Node":
            return explain_node(self._facts, obj)
        if kind == "PersistentVolumeClaim":
            return explain_claim(self._facts, obj)
        return explain_workload(self._facts, kind, obj, self.why_pending)

    @functools.cached_property
    def _planner(self) -> Planner:
        return planner_of(self._facts.copy, self._config)

    def why_pending(self, pod: core_v1.Pod) -> str:
        """What the scheduler says of a pod without a node; where nodes may not be read, what it said last."""
        if self._facts.copy.why_unread("Node"):
            return told_by_scheduler(pod)
        try:
            decision = self._planner.decide(pod)
        except SchedulerError as error:
            return str(error)
        return decision.message or (", ".join(decision.gate[1].reasons) if decision.gate is not None else "")


def explain(
    copy: ClusterSnapshot, kind: str, name: str, namespace: str = "default", config: Path | str | None = None
) -> Explanation:
    """Why an object of a copy is as it is. config: the scheduler's, by which pending pods are judged. Raises QuestionError."""
    explainer = Explainer(copy, config)
    return explainer.explain(kind, explainer.find(kind, name, namespace))
