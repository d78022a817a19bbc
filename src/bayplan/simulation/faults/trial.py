"""One run of a fault plan: a workload lives through it, and what must hold is looked at after every change and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.types import apps_v1, batch_v1, core_v1
from bayplan.client import Client
from bayplan.client.client import MERGE_PATCH, WatchStream
from bayplan.client.transport import Transport
from bayplan.cluster.manifests.reading import read_manifests
from bayplan.cluster.manifests.unserved import UnservedKind
from bayplan.kubelet.simulator.nodes.objects import SILENT
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.faults.plan import Fault, Plan
from bayplan.simulation.faults.transport import Faults, FaultyTransport
from bayplan.simulation.faults.workload import usual_mix
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.randomness import SeededRandomness
from bayplan.support.tasks import Supervisor
from bayplan.support.virtual_time import run
from bayplan.testing.invariants import violations

_ZONE: Final = "topology.kubernetes.io/zone"
MENDED_WITHIN: Final = 1800.0
"""Virtual seconds within which everything has to be as it should after the last fault: longer than the longest back-off."""
_QUIET: Final = 400.0
"""Virtual seconds without a change after which nothing more happens: longer than the longest back-off of containers."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a run."""

    seed: int
    problems: tuple[str, ...]
    """What must not be, one sentence each; empty if all held."""
    happened: tuple[str, ...]
    """The faults, in order."""
    injected: int
    """Faults of the API among them."""
    writes: int
    seconds: float
    """Virtual."""
    trace: str
    unserved: tuple[UnservedKind, ...] = ()
    """Custom kinds of the workload, which were left out."""


def run_trial(plan: Plan, seed: int, sink: Callable[[str], object] | None = None) -> Trial:
    """Play a plan. Equal plans with equal seeds give equal trials. sink: gets the trace, line by line. Raises ManifestError."""
    return run(_Run(plan, seed, sink).play())


class _Run:
    def __init__(self, plan: Plan, seed: int, sink: Callable[[str], object] | None) -> None:
        self.plan = plan
        self.seed = seed
        self.chance = SeededRandomness(f"trial {seed}")
        self.api = Faults()
        self.transports: list[FaultyTransport] = []
        self.problems: dict[str, None] = {}
        self.happened: list[str] = []
        self.bound: dict[str, str] = {}
        """Uid of a pod -> its node."""
        self.cluster = VirtualCluster(
            seed=seed,
            nodes=SimulatorSettings(nodes=plan.nodes, zones=plan.zones),
            trace=sink,
            transport=self._faulty,
        )

    def _faulty(self, sound: Transport) -> Transport:
        found = FaultyTransport(sound, self.api, self.cluster.clock, self.chance)
        self.transports.append(found)
        return found

    @property
    def client(self) -> Client:
        return self.cluster.client

    async def play(self) -> Trial:
        async with self.cluster as cluster, Supervisor("trial") as tasks:
            tasks.spawn("pods", self._follow(await self.client.watch(core_v1.Pod, resource_version="0")))
            objects = read_manifests(self.plan.workload) if self.plan.workload else None
            manifests = [obj for _, obj in objects] if objects is not None else usual_mix()
            await cluster.apply(*manifests, unserved=cluster.unserved)
            began = cluster.clock.monotonic()
            for fault in self.plan.faults:
                await cluster.advance(seconds=max(0.0, began + fault.at - cluster.clock.monotonic()))
                self.happened.append(fault.describe())
                await self._commit(fault, tasks)
            await cluster.advance(seconds=max(0.0, began + self.plan.lasts - cluster.clock.monotonic()))
            await self._mend()
            if not await cluster.settle(quiet=_QUIET, within=MENDED_WITHIN):
                self.problems[f"not quiet within {MENDED_WITHIN:g} s after the last fault"] = None
            for problem in (*await violations(self.client), *await unfinished(self.client)):
                self.problems[problem] = None
            return Trial(
                self.seed,
                tuple(self.problems),
                tuple(self.happened),
                sum(one.injected for one in self.transports),
                cluster.trace.writes,
                cluster.clock.monotonic(),
                cluster.trace.digest(),
                tuple(cluster.unserved),
            )

    async def _follow(self, stream: WatchStream[core_v1.Pod]) -> None:
        """No pod is ever bound twice, and none comes back to life."""
        while batch := await stream.next_batch():
            for event_type, pod in batch:
                uid, node = pod.metadata.uid, pod.spec.node_name
                if event_type == "DELETED":
                    self.bound.pop(uid, None)
                elif node and self.bound.setdefault(uid, node) != node:
                    self.problems[f"pod {pod.metadata.name} was bound to {self.bound[uid]} and then to {node}"] = None

    async def _commit(self, fault: Fault, tasks: Supervisor) -> None:
        if fault.do == "crash-node":
            await self._silence([fault.target], True)
            self._later(tasks, fault, lambda: self._silence([fault.target], False))
        elif fault.do == "fail-zone":
            nodes = (await self.client.list(core_v1.Node, label_selector=f"{_ZONE}={fault.target}")).items
            names = [one.metadata.name for one in nodes]
            await self._silence(names, True)
            self._later(tasks, fault, lambda: self._silence(names, False))
        elif fault.do == "restart":
            await self._stop(fault.target)
            self._later(tasks, fault, lambda: self._start(fault.target))
        elif fault.do == "unreliable-api":
            for name, likely in fault.details.items():
                setattr(self.api, name, likely)
            self._later(tasks, fault, self._calm_api)
        else:
            await self._to_pods(fault)

    def _later(self, tasks: Supervisor, fault: Fault, act: Callable[[], Any]) -> None:
        async def after() -> None:
            await self.cluster.advance(seconds=fault.lasts)
            await act()

        tasks.spawn(fault.do, after())

    async def _calm_api(self) -> None:
        self.api.stop()

    async def _silence(self, names: list[str], silent: bool) -> None:
        patch = {"metadata": {"annotations": {SILENT: "true" if silent else None}}}
        for name in names:
            await self._quietly(self.client.patch(core_v1.Node, name, "", patch, patch_type=MERGE_PATCH))

    async def _quietly(self, call: Any) -> None:
        """What is to be hurt may be gone already."""
        try:
            await call
        except ApiError as error:
            if error.code != 404:
                raise

    async def _stop(self, component: str) -> None:
        if self.cluster.components.is_running(component):
            await self.cluster.components.stop(component)

    async def _start(self, component: str) -> None:
        if not self.cluster.components.is_running(component):
            self.cluster.components.start(component)

    async def _to_pods(self, fault: Fault) -> None:
        pods = (await self.client.list(core_v1.Pod, label_selector=fault.target)).items
        chosen = [pod for pod in pods if not pod.metadata.deletion_timestamp]
        self.chance.shuffle(chosen)
        for pod in chosen[: fault.count]:
            namespace, name = pod.metadata.namespace, pod.metadata.name
            if fault.do == "kill-pods":
                await self._quietly(self.client.delete(core_v1.Pod, name, namespace, grace_period_seconds=0))
            else:
                patch = {"metadata": {"annotations": dict(fault.details)}}
                await self._quietly(self.client.patch(core_v1.Pod, name, namespace, patch, patch_type=MERGE_PATCH))

    async def _mend(self) -> None:
        """From now on nothing goes wrong; what was hurt is healed."""
        self.api.stop()
        for component in self.cluster.components.names:
            await self._start(component)
        nodes = (await self.client.list(core_v1.Node)).items
        await self._silence([one.metadata.name for one in nodes], False)
        hurt = {key: None for fault in self.plan.faults if fault.do == "patch-pods" for key in fault.details}
        for pod in (await self.client.list(core_v1.Pod)).items:
            if any(key in pod.metadata.annotations for key in hurt):
                patch = {"metadata": {"annotations": hurt}}
                namespace, name = pod.metadata.namespace, pod.metadata.name
                await self._quietly(self.client.patch(core_v1.Pod, name, namespace, patch, patch_type=MERGE_PATCH))


async def unfinished(client: Client) -> list[str]:
    """Workloads that are not as they were asked to be."""
    found = []
    for deployment in (await client.list(apps_v1.Deployment)).items:
        status, wanted = deployment.status, deployment.spec.replicas or 0
        counts = (status.replicas, status.updated_replicas, status.available_replicas)
        if counts != (wanted,) * 3:
            found.append(
                f"Deployment {deployment.metadata.name}: {counts} replicas, updated, available; {wanted} wanted"
            )
    for stateful in (await client.list(apps_v1.StatefulSet)).items:
        if stateful.status.ready_replicas != stateful.spec.replicas:
            ready = stateful.status.ready_replicas
            found.append(f"StatefulSet {stateful.metadata.name}: {ready} of {stateful.spec.replicas} are ready")
    nodes = len((await client.list(core_v1.Node)).items)
    found.extend(
        f"DaemonSet {daemons.metadata.name}: {daemons.status.number_available} available on {nodes} nodes"
        for daemons in (await client.list(apps_v1.DaemonSet)).items
        if daemons.status.number_available != nodes
    )
    for job in (await client.list(batch_v1.Job)).items:
        kinds = {one.type for one in job.status.conditions if one.status == "True"}
        if not kinds & {"Complete", "Failed", "Suspended"}:
            found.append(f"Job {job.metadata.name} has neither completed nor failed: {job.status}")
        elif "Complete" in kinds and job.status.succeeded != job.spec.completions:
            found.append(f"Job {job.metadata.name}: {job.status.succeeded} of {job.spec.completions} succeeded")
    pods = (await client.list(core_v1.Pod)).items
    names = Counter((pod.metadata.namespace, pod.metadata.name) for pod in pods)
    found.extend(f"pod {name} is there twice" for (_, name), count in names.items() if count > 1)
    return found
