"""Gangs: groups of equal pods that both schedulers place as a whole or not at all, within one zone or anywhere.

Of a gang that is bound to no topology each pod's node has to be one of those that the library finds best when the pods before it are where
the scheduler has put them. Of one that is, all pods have to be in one zone, in which the library places the gang as well.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayplan.api.feature_gates import GANG_SCHEDULING, GENERIC_WORKLOAD, TOPOLOGY_AWARE
from bayplan.scheduler import Planner
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from tests.differential.clusters import Cluster, Tree, clusters
from tests.differential.comparing import Report, difference
from tests.differential.running import Outcome, Refused, Site, running

GATES: Final = (GENERIC_WORKLOAD, GANG_SCHEDULING, TOPOLOGY_AWARE)
GROUPS: Final = "/apis/scheduling.k8s.io/v1alpha2/namespaces"
_ZONES: Final = ("zone", "topology.kubernetes.io/zone")
"""Labels of nodes by which gangs are bound to one zone."""
_DECISION_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.02
_LARGEST: Final = 6
_GANGS_PER_CLUSTER: Final = 12
_TRIES: Final = 40
"""So often the library is asked until it chooses as the scheduler did among nodes and zones that are equally good."""


@dataclass(frozen=True, slots=True)
class Gang:
    """A group and its pods, as the server has them."""

    group: Tree
    pods: list[Tree]

    @property
    def key(self) -> str:
        """The label of nodes of which all of its pods are to have one value; empty if they may be anywhere."""
        constraints = self.group["spec"].get("schedulingConstraints")
        return constraints["topology"][0]["key"] if constraints else ""


def scheduler_words(program: Sequence[str]) -> list[str]:
    """The program with the gates that gangs need."""
    return [*program, "--feature-gates=" + ",".join(f"{gate}=true" for gate in GATES)]


def gangs(cluster: Cluster, chance: random.Random) -> list[Gang]:
    """Gangs of pods like those of the cluster's queue, all of one priority."""
    found = []
    labels = {key for kind, tree in cluster.objects if kind == "Node" for key in tree["metadata"].get("labels", {})}
    keys = [key for key in _ZONES if key in labels]
    for number in range(_GANGS_PER_CLUSTER):
        like = chance.choice(cluster.queue)
        size, namespace = chance.randint(2, _LARGEST), like["metadata"]["namespace"]
        name = f"gang-{number}"
        spec: Tree = {"schedulingPolicy": {"gang": {"minCount": size}}}
        if keys and chance.random() < 0.4:
            spec["schedulingConstraints"] = {"topology": [{"key": chance.choice(keys)}]}
        pod_spec = {key: value for key, value in like["spec"].items() if key != "priorityClassName"}
        pods = [
            {
                "metadata": {**like["metadata"], "name": f"{name}-{index}"},
                "spec": {**pod_spec, "schedulingGroup": {"podGroupName": name}},
            }
            for index in range(size)
        ]
        group = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        found.append(Gang(group, pods))
    return found


async def run(
    program: Sequence[str], decisions: int, seed: int, largest: int, directory: Path, configuration: Tree | None = None
) -> Report:
    """Compare at least so many decisions about pods of gangs; differences are printed as they are found."""
    report, chance = Report(), random.Random(seed)
    served = {"runtime_config": ("scheduling.k8s.io/v1alpha2=true",), "feature_gates": frozenset(GATES)}
    async with running(scheduler_words(program), directory, configuration or {}, **served) as site:
        for cluster in clusters(seed, largest):
            objects = [one for one in cluster.objects if one[0] in ("Namespace", "Node")]
            trial = _Trial(site, report, await site.fill(objects), [tree for kind, tree in objects if kind == "Node"])
            for gang in gangs(cluster, chance):
                shown = len(report.differences)
                try:
                    await trial.step(gang)
                except Refused:
                    report.outcomes["refused by the API server"] += len(gang.pods)
                except TimeoutError:
                    report.differences.append(f"{gang.group['metadata']['name']}: no decision in time")
                for text in report.differences[shown:]:
                    print(f"{cluster.name}: {text}", flush=True)
            if report.decisions >= decisions:
                break
    return report


class _Trial:
    """Both schedulers on one cluster, gang after gang."""

    def __init__(self, site: Site, report: Report, objects: list[tuple[str, Tree]], nodes: list[Tree]) -> None:
        self._site, self._report = site, report
        self._labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in nodes}
        self._planner, self._asked = (Planner(config=load(None, frozenset(GATES)), choice=_Choice()) for _ in range(2))
        """What there is; and the same, for gangs that are tried as a whole."""
        for kind, tree in objects:
            self._planner.add(kind, tree)
            self._asked.add(kind, tree)

    async def step(self, gang: Gang) -> None:
        """One gang. Raises Refused."""
        metadata = gang.group["metadata"]
        groups = f"{GROUPS}/{metadata['namespace']}/podgroups"
        group = await self._site.ask("POST", groups, gang.group)
        nodes: list[str] = []
        try:
            created = [await self._site.create(pod) for pod in gang.pods]
            nodes = await self._nodes(f"{groups}/{metadata['name']}", created)
            self._compare(gang, group, created, nodes)
        finally:
            await self._end(gang, bool(nodes))
            path = f"{groups}/{metadata['name']}"
            await self._site.ask("DELETE", path)
            # Nobody else takes the protection away, and a group that is still there keeps the next of its name out.
            await self._site.ask("PATCH", path, {"metadata": {"finalizers": []}}, "application/merge-patch+json")

    async def _nodes(self, group: str, pods: list[Tree]) -> list[str]:
        """The nodes of the pods once the scheduler has decided; empty if it has placed none."""
        async with asyncio.timeout(_DECISION_SECONDS):
            while True:
                found = [(await self._site.ask("GET", _path(pod)))["spec"].get("nodeName", "") for pod in pods]
                if all(found):
                    return found
                status = (await self._site.ask("GET", group)).get("status", {})
                refused = [one for one in status.get("conditions", ()) if one["status"] == "False"]
                if refused and not any(found):
                    return []
                await asyncio.sleep(_LOOK_SECONDS)

    def _compare(self, gang: Gang, group: Tree, pods: list[Tree], nodes: list[str]) -> None:
        report = self._report
        report.decisions += len(pods)
        zone = "in a zone" if gang.key else "anywhere"
        report.outcomes[f"{'placed' if nodes else 'unschedulable'} {zone}"] += len(pods)
        key = f"{group['metadata']['name']} of {len(pods)}, {zone}"
        if nodes and not gang.key:
            if told := self._told_one_by_one(pods, nodes):
                report.differences.append(f"{key}: on {nodes}; {told}")
            return
        zones = self._zones(gang, nodes)
        expected = next(
            (each for _ in range(_TRIES) if self._zones(gang, each := self._as_a_whole(group, pods)) == zones), None
        )
        if len(zones) > 1 or expected is None:
            report.differences.append(f"{key}: on {nodes} in {zones}; the library: {self._as_a_whole(group, pods)}")

    def _zones(self, gang: Gang, nodes: list[str]) -> set[str]:
        return {self._labels[node].get(gang.key, "") for node in nodes}

    def _as_a_whole(self, group: Tree, pods: list[Tree]) -> list[str]:
        """Where the library places a gang; empty if it does not."""
        planner = self._asked
        planner.add("PodGroup", group)
        for pod in pods:
            planner.snapshot.gangs.add(f"{group['metadata']['namespace']}/{group['metadata']['name']}", _key(pod))
        queued = [QueuedPod(planner.pod(pod), (), 0.0) for pod in pods]
        members, result = planner.decide_gang(queued, scored=True)
        for pod in pods:
            planner.remove(_key(pod))
        return [member.decision.node or "" for member in members] if result.scheduled else []

    def _told_one_by_one(self, pods: list[Tree], nodes: list[str]) -> str:
        """How the library differs about pods that are equal and came from the queue in an order that is not known; "" if it does not in one of these."""
        if not pods:
            return ""
        pod = {**pods[0], "spec": {**pods[0]["spec"]}}
        pod["spec"].pop("schedulingGroup")
        decision = self._planner.decide(pod, full=True, explain=True)
        found = [difference(decision, Outcome(node=node)) for node in nodes]
        for node in dict.fromkeys(node for node, told in zip(nodes, found, strict=True) if not told):
            pod["spec"]["nodeName"] = node
            self._planner.add("Pod", pod)
            index = nodes.index(node)
            told = self._told_one_by_one(pods[1:], nodes[:index] + nodes[index + 1 :])
            self._planner.remove(_key(pod))
            if not told:
                return ""
            found.append(told)
        return found[-1]

    async def _end(self, gang: Gang, has_nodes: bool) -> None:
        """Every third gang that was placed stays, so that the cluster fills up."""
        stays = has_nodes and int(gang.group["metadata"]["name"].rpartition("-")[2]) % 3 == 0
        for pod in gang.pods:
            if not stays:
                await self._site.remove(_key(pod))
                continue
            now = await self._site.run(_key(pod))
            del now["spec"]["schedulingGroup"]
            for planner in (self._planner, self._asked):
                planner.add("Pod", now)


class _Choice:
    """Any of equally good nodes and zones, as kube-scheduler chooses."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    def index(self, count: int) -> int:
        return self._chance.randrange(count)


def _key(pod: Any) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _path(pod: Tree) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
