"""What happens to a cluster if something is done to it: the question behind `bayplan simulate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bayplan.api.feature_gates import ALL_GATES
from bayplan.api.types import core_v1
from bayplan.cluster.manifests.unserved import UnservedKind
from bayplan.cluster.settings import CLUSTER_API, CLUSTER_CONTROLLERS, ClusterSettings
from bayplan.descheduler.report import Attempt
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.actions import Action
from bayplan.simulation.observer import FINISHED, Departure, Observer, Placement, Sample, Workload, nodes_used
from bayplan.simulation.snapshots.revival import revived
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.simulation.uncreated_pods import UncreatedPods, uncreated_pods
from bayplan.simulation.virtual_cluster import EPOCH, VirtualCluster
from bayplan.support.virtual_time import run

SETTLE_WITHIN: Final = 3600.0
"""Virtual seconds after which an outcome is told even if the cluster has not come to rest."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod without a node in the end."""

    pod: str
    reason: str
    """The scheduler's message."""
    new: bool
    """Whether it had a node before, or was not there."""


@dataclass(frozen=True, slots=True)
class Move:
    """A pod of a workload left one node, and one of that workload came to another."""

    workload: str
    left: str
    reason: str
    came_to: str
    """"" if nobody came."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened."""

    actions: tuple[str, ...]
    problems: tuple[str, ...]
    """What did not work, such as a drain that budgets forbid."""
    seconds: float
    """Virtual seconds until the cluster was at rest, or until the end that was asked for."""
    settled: bool
    placements: tuple[Placement, ...]
    departures: tuple[Departure, ...]
    pending: tuple[Pending, ...]
    missing: tuple[UncreatedPods, ...]
    """Pods that could not even be made."""
    workloads: tuple[Workload, ...]
    """Those that were short of pods at some time, worst first."""
    samples: tuple[Sample, ...]
    before: dict[str, int]
    """Pods per node."""
    after: dict[str, int]
    unserved: tuple[UnservedKind, ...]
    """Custom kinds of which objects were to be applied, and left out."""
    descheduled: tuple[Attempt, ...]
    """What the descheduler evicted, and what was kept from that."""
    trace: str
    """Digest of the run: equal questions with equal seeds have equal ones."""

    @property
    def good(self) -> bool:
        """Whether everything worked and no pod is pending or missing that was not before."""
        return not (self.problems or any(one.new for one in self.pending) or any(one.new for one in self.missing))

    def moves(self) -> list[Move]:
        """Who left, and who came instead, in order of time. What was there and is done is no move."""
        arrivals: dict[str, list[str]] = {}
        for placement in self.placements:
            arrivals.setdefault(placement.workload, []).append(placement.node)
        found = []
        for departure in self.departures:
            if departure.reason != FINISHED:
                came = arrivals.get(departure.workload)
                node = came.pop(0) if came else ""
                found.append(Move(departure.workload, departure.node, departure.reason, node))
        return found

    def descheduled_moves(self) -> list[tuple[Attempt, str]]:
        """What the descheduler evicted, with the node that another pod of the workload came to; "" if none came."""
        left = [one for one in self.departures if one.reason != FINISHED]
        came_to = {departure.pod: move.came_to for departure, move in zip(left, self.moves(), strict=True)}
        return [(one, came_to.get(one.pod, "")) for one in self.descheduled if one.evicted]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        unserved = [one.to_dict() for one in self.unserved]
        return {"good": self.good, **dataclasses.asdict(self), "unserved": unserved}


def simulate(
    copy: ClusterSnapshot,
    actions: Sequence[Action],
    *,
    seconds: float | None = None,
    seed: int = 0,
    config: Path | None = None,
    plugins: Sequence[Path] = (),
) -> Outcome:
    """Let a copy of a cluster come to rest, act, and see what happens, for so many virtual seconds or until it is at rest again.

    config: KubeSchedulerConfiguration. plugins: files of Python with scheduler plugins. Raises ActionError, DecodeError, PluginFileError, and what a
    broken configuration raises.
    """
    settings = ClusterSettings(
        scheduler_config=config,
        scheduler_plugins=tuple(plugins),
        are_plugins_followed=False,
        cloud="",
        api=replace(CLUSTER_API, feature_gates=ALL_GATES),
        controller=replace(CLUSTER_CONTROLLERS, feature_gates=ALL_GATES),
    )
    return run(_simulate(copy, actions, seconds, seed, settings))


async def _simulate(
    copy: ClusterSnapshot, actions: Sequence[Action], seconds: float | None, seed: int, settings: ClusterSettings
) -> Outcome:
    nodes = SimulatorSettings(adopts=True)
    cluster = VirtualCluster(seed=seed, nodes=nodes, settings=settings, contents=revived(copy, EPOCH))
    async with cluster:
        await cluster.settle(within=SETTLE_WITHIN)
        before = (await cluster.client.list(core_v1.Pod)).items
        waiting = {pod.metadata.uid for pod in before if not pod.spec.node_name}
        missing = await uncreated_pods(cluster.client)
        began = cluster.clock.monotonic()
        problems: list[str] = []
        async with Observer(cluster) as seen:
            for action in actions:
                problems.extend(await action.run(cluster))
            acted = cluster.clock.monotonic()
            settled = True
            if seconds is None:
                await cluster.advance(seconds=max((action.takes for action in actions), default=0.0))
                settled = await cluster.settle(within=SETTLE_WITHIN)
            else:
                await cluster.advance(seconds=max(0.0, began + seconds - cluster.clock.monotonic()))
            pending = tuple(
                Pending(f"{pod.metadata.namespace}/{pod.metadata.name}", _reason(pod), pod.metadata.uid not in waiting)
                for pod in seen.pending
            )
        short = sorted(
            (one for one in seen.workloads.values() if one.missing), key=lambda one: (-one.missing, one.name)
        )
        after = (await cluster.client.list(core_v1.Pod)).items
        last = cluster.clock.monotonic() if seconds is not None else max(acted, cluster.trace.last_change)
        return Outcome(
            actions=tuple(action.describe() for action in actions),
            problems=tuple(problems),
            seconds=max(0.0, last - began),
            settled=settled,
            placements=tuple(seen.placements),
            departures=tuple(seen.departures),
            pending=pending,
            missing=await uncreated_pods(cluster.client, missing),
            workloads=tuple(short),
            samples=tuple(seen.samples),
            before=nodes_used(before),
            after=nodes_used(after),
            unserved=tuple(cluster.unserved),
            descheduled=tuple(cluster.descheduled),
            trace=cluster.trace.digest(),
        )


def _reason(pod: core_v1.Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return "the scheduler has not looked at it"
