"""Decisions of a scheduler and of the library about the same pods, and how they differ."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.scheduler import Planner
from bayplan.scheduler.decision import Decision
from tests.differential.clusters import Cluster, Tree
from tests.differential.extender import answered
from tests.differential.running import SENTINEL_NODE, Outcome, Refused, Site
from tests.differential.sampling import Places


@dataclass(slots=True)
class Report:
    """What was compared."""

    decisions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """How many places in the turns of nodes were possible after each decision, if nodes are sampled."""
    passing: int = 0
    """Differences that were gone when the pod was decided about once more: the scheduler had not heard of something yet."""


def difference(decision: Decision, outcome: Outcome) -> str:
    """How a scheduler's outcome differs from the library's decision; "" if it does not."""
    if outcome.node:
        if not decision.scheduled:
            return f"placed on {outcome.node}; the library: {decision.message}"
        if outcome.node not in decision.best:
            totals = {
                name: int(decision.total[decision.names.index(name)]) for name in (outcome.node, decision.best[0])
            }
            return (
                f"placed on {outcome.node}; the library: one of {decision.best[:5]} {totals if decision.scores else ''}"
            )
        return ""
    if decision.gate is not None:
        return "" if outcome.reason == "SchedulingGated" else f"{outcome.reason}; the library: gated"
    if decision.scheduled:
        return f"{outcome.reason}: {outcome.message}; the library: placed on {decision.best[:5]}"
    if (outcome.reason, outcome.message) != (decision.reason, decision.message):
        return f"{outcome.reason}: {outcome.message}\n      the library: {decision.reason}: {decision.message}"
    nodes = _nominations(decision)
    if outcome.nominated not in (nodes or {"": set()}):
        return f"nominated {outcome.nominated!r}; the library: one of {sorted(nodes)}"
    if outcome.nominated and outcome.victims != nodes[outcome.nominated]:
        return (
            f"victims {sorted(outcome.victims)} on {outcome.nominated}; the library: {sorted(nodes[outcome.nominated])}"
        )
    return ""


def _nominations(decision: Decision) -> dict[str, set[str]]:
    """Nodes among which the scheduler may choose, and the victims on each."""
    outcome = decision.post_filter
    if outcome is None or outcome.nominated is None:
        return {}
    # Those that are being deleted are not deleted once more.
    return {
        decision.names[each.row]: {victim.key for victim in each.victims if not victim.pod.metadata.deletion_timestamp}
        for each in outcome.tied or (outcome.nominated,)
    }


class _Run:
    """Both schedulers on one cluster, pod after pod; each is placed where the scheduler under test has put it."""

    def __init__(
        self, site: Site, cluster: Cluster, report: Report, chance: random.Random, percentage: int, extenders: Tree
    ) -> None:
        self._site, self._cluster, self._report, self._chance = site, cluster, report, chance
        self._configuration: Tree = {"percentageOfNodesToScore": percentage, **extenders}
        self._places: Places | None = None
        self._objects = dict(enumerate(cluster.objects))
        self._placed: dict[str, Tree] = {}
        self._planner = Planner(config=self._configuration, ask=answered)
        self._extra: list[tuple[str, Tree]] = []
        """What there was at the last `fill`, namespaces and the sentinel's node included."""

    @property
    def objects(self) -> list[tuple[str, Tree]]:
        """All that there is now, pods that were placed included."""
        return [*self._objects.values(), *(("Pod", pod) for pod in self._placed.values())]

    async def fill(self) -> None:
        """Let both have what there is, and nothing else."""
        self._extra = await self._site.fill(self.objects)
        self._planner = Planner(config=self._configuration, ask=answered)
        for kind, tree in self._extra:
            self._planner.add(kind, tree)
        self._places = Places(self._planner) if self._configuration["percentageOfNodesToScore"] < 100 else None

    def _fresh(self) -> Planner:
        """A planner that has seen nothing of what happened before."""
        planner = Planner(config=self._configuration, ask=answered)
        known = {(kind, _key(tree)) for kind, tree in self.objects}
        for kind, tree in [*self._extra, *self.objects]:
            if kind not in ("Node", "Pod") or (kind, _key(tree)) in known or tree["metadata"]["name"] == SENTINEL_NODE:
                planner.add(kind, tree)
        return planner

    async def step(self, pod: Tree, keep: Path | None) -> bool:
        """One pod. False if there is no going on. Raises Refused."""
        outcome, found, stored = await _decided(self._site, self._planner, pod, self._places)
        report, key = self._report, _key(stored)
        if self._places is not None:
            report.places.append(len(self._places.possible))
        if (
            found
            and self._places is None
            and not difference(self._fresh().decide(stored, full=True, explain=True), outcome)
        ):
            found += "\n      a library that has just read the cluster agrees with the scheduler"
        elif found:
            await self.fill()
            outcome, found, stored = await _decided(self._site, self._planner, pod, self._places)
            report.passing += not found
        report.decisions += 1
        report.outcomes[_sort(outcome)] += 1
        if found:
            report.differences.append(f"{self._cluster.name}: {key}: {found}")
            if keep is not None:
                _keep(keep / f"{len(report.differences)}.json", self.objects, stored, report.differences[-1])
        for victim in outcome.victims:
            self._forget(victim)
        if outcome.node and not outcome.waits:
            now = await self._site.run(key)
            self._planner.add("Pod", now)
            self._placed[key] = now
        else:
            await self._site.remove(key)
        return not outcome.waits

    def _forget(self, key: str) -> None:
        self._planner.remove(key)
        self._placed.pop(key, None)
        for number, (kind, tree) in list(self._objects.items()):
            if kind == "Pod" and _key(tree) == key:
                del self._objects[number]

    async def churn(self) -> None:
        """A pod ends, or a node changes."""
        nodes = [number for number, (kind, _) in self._objects.items() if kind == "Node"]
        if self._placed and self._chance.random() < 0.7:
            key = self._chance.choice(list(self._placed))
            await self._site.remove(key)
            self._forget(key)
        elif nodes:
            number = self._chance.choice(nodes)
            node = changed(self._objects[number][1], self._chance)
            self._objects[number] = ("Node", node)
            await self._site.change_node(node)
            self._planner.add("Node", node)


def changed(node: Tree, chance: random.Random) -> Tree:
    """A node that is cordoned or not, or has another taint or label."""
    spec, metadata = dict(node.get("spec") or {}), dict(node["metadata"])
    kind = chance.choice(("cordon", "taint", "label"))
    if kind == "cordon":
        spec["unschedulable"] = not spec.get("unschedulable", False)
    elif kind == "taint":
        effect = chance.choice(("NoSchedule", "PreferNoSchedule"))
        spec["taints"] = [{"key": "pool", "value": chance.choice("xy"), "effect": effect}] * (chance.random() < 0.5)
    else:
        metadata["labels"] = {
            **(metadata.get("labels") or {}),
            "zone": chance.choice("abc"),
            "disk": chance.choice(("ssd", "hdd")),
        }
    return {**node, "metadata": metadata, "spec": spec}


async def compare(
    site: Site,
    cluster: Cluster,
    report: Report,
    most: int,
    keep: Path | None,
    chance: random.Random,
    percentage: int = 100,
    extenders: Tree | None = None,
) -> None:
    """Let both decide about the pods of a cluster, one after the other, while pods end and nodes change. most: pods. percentage: of the nodes that the scheduler
    looks at."""
    run = _Run(site, cluster, report, chance, percentage, extenders or {})
    await run.fill()
    for pod in cluster.queue[:most]:
        if chance.random() < 0.15:
            await run.churn()
        try:
            if not await run.step(pod, keep):
                return
        except Refused:
            report.outcomes["refused by the API server"] += 1


def _key(pod: Tree) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


async def _decided(site: Site, planner: Planner, pod: Tree, places: Places | None) -> tuple[Outcome, str, Tree]:
    """What the scheduler did, how the library differs, and the pod as both saw it."""
    decisions: list[Decision] = []

    def decision_of(stored: Tree) -> Decision:
        if not decisions:
            decisions.append(planner.decide(stored, full=True, explain=True))
        return decisions[0]

    known: dict[str, Any] = {}

    def victims(node: str) -> set[str]:
        return _nominations(decision_of(known["pod"])).get(node, set()) if known else set()

    def created(stored: Tree) -> None:
        known["pod"] = stored

    outcome, stored = await site.submit(pod, victims, created)
    if places is not None:
        return outcome, places.difference(stored, lambda decision: difference(decision, outcome)), stored
    return outcome, difference(decision_of(stored), outcome), stored


def _sort(outcome: Outcome) -> str:
    if outcome.waits:
        return "placed, waits for volumes"
    return "placed" if outcome.node else "preempting" if outcome.nominated else outcome.reason


def _keep(path: Path, objects: list[tuple[str, Tree]], pod: Tree, text: str) -> None:
    """Write down what is needed to decide again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"difference": text, "objects": objects, "pod": pod}))
