"""A node's kubelet: wires the parts together and runs them.

    API ──pods──▶ NodePods ──▶ PodWorkers ──▶ NodePodSyncer ──▶ PodRuntime ──▶ runtime
     ▲               ▲              ▲               │                            │
     └─StatusManager─┼──────────────┼───────────────┘                            │
                     └──────────────┴──────── PodLifecycleEvents ◀───── lists ───┘

State is derived: after a restart everything is read from the runtime (labels, annotations) and the API.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.events import EventRecorder
from bayplan.informers import InformerFactory
from bayplan.informers.informer import Informer
from bayplan.kubelet.allocations import ACTUATED, ALLOCATED, AllocationRecords
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.core.back_off import FIRST_RESTART, BackOff
from bayplan.kubelet.core.containers.resources import LimitSettings
from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.node_state import NodeState
from bayplan.kubelet.pods.container_events import ContainerEvents
from bayplan.kubelet.pods.container_starts import ContainerStarts
from bayplan.kubelet.pods.container_stopper import ContainerStopper
from bayplan.kubelet.pods.hooks import HookRunner
from bayplan.kubelet.pods.node_pods import Admit, NodePods
from bayplan.kubelet.pods.pleg import PodEvent, PodLifecycleEvents
from bayplan.kubelet.pods.pod_garbage import PodGarbage
from bayplan.kubelet.pods.pod_resizer import PodLimits, PodResizer
from bayplan.kubelet.pods.pod_resizes import PodResizes
from bayplan.kubelet.pods.pod_runtime import PodBuilder, PodRuntime
from bayplan.kubelet.pods.pod_states import Explain, PodStateReader, PodStates
from bayplan.kubelet.pods.pod_syncer import NodePodSyncer, PodDirectories, PodVolumes
from bayplan.kubelet.pods.pod_workers import PodWorkers, WorkState
from bayplan.kubelet.pods.static_pods import MirrorPods
from bayplan.kubelet.pods.status_manager import StatusManager
from bayplan.kubelet.prober.handlers import ProbeRunner
from bayplan.kubelet.prober.manager import ProbeManager
from bayplan.kubelet.prober.results import ProbeType, ProbeUpdate
from bayplan.kubelet.resource_managers.container_manager import ContainerManager
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import LinuxResources
from bayplan.support.blocking import Blocking, at_once
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

Task = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class NodeParts:
    """What the kubelet needs of the machine. A test or a simulation gives others."""

    runtime: Runtime
    builder: PodBuilder
    volumes: PodVolumes
    directories: PodDirectories
    explain: Explain
    remove_logs: Callable[[Collection[str]], Awaitable[None]]
    limits: LimitSettings
    cgroups: PodLimits | None = None
    """The cgroups of pods; None where they have none of their own."""
    records: Path | None = None
    """The directory of what must outlive the kubelet; None for nothing."""
    blocking: Blocking = at_once
    """How files are written."""
    checks: Iterable[Admit] = ()
    """What else must hold for a pod to run here."""
    resources: ContainerManager | None = None
    """Who gets which CPUs, memory and devices; None where nobody gets any of its own."""
    tasks: dict[str, Task] = field(default_factory=dict)
    """What else runs as long as the kubelet does: name -> what."""


class Kubelet:
    """See the module."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        configuration: KubeletConfiguration,
        informers: InformerFactory,
        make_parts: Callable[[Kubelet], NodeParts],
        *,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        """make_parts: called once, when what the parts may ask of the kubelet (`pods`, `statuses`, `nodes`) can be named."""
        self.client = client
        self.node_name = node_name
        self.configuration = configuration
        self.clock = clock
        self.randomness = randomness
        self.informers = informers
        selector = f"metadata.name={node_name}"
        self.nodes: Informer[core_v1.Node] = informers.informer(core_v1.Node, field_selector=selector)
        self.api_pods: Informer[core_v1.Pod] = informers.informer(
            core_v1.Pod, field_selector=f"spec.nodeName={node_name}"
        )
        self.recorder = EventRecorder(client, "kubelet", clock, randomness, host=node_name)
        self.events = ContainerEvents(self.recorder)
        self.states = PodStates()
        self.statuses = StatusManager(client, clock, lambda uid: self.workers.may_have_running_containers(uid))
        self.parts = make_parts(self)
        runtime = self.parts.runtime
        self.node_state = NodeState(runtime, self.node, self.statuses.get, self._cgroup_limits, clock)
        starts = ContainerStarts(self.parts.blocking)
        self.reader = PodStateReader(runtime, clock, self.parts.explain, starts)
        self.lifecycle = PodLifecycleEvents(runtime, self.reader, self.states, self._on_lifecycle, clock)
        self.probes = ProbeManager(
            ProbeRunner(runtime, self.events), self.statuses.get, self._on_probe, clock=clock, randomness=randomness
        )
        hooks = HookRunner(runtime, self.events, clock)
        self.stopper = ContainerStopper(runtime, hooks, self.events, clock)
        longest = configuration.crash_loop_back_off.max_container_restart_period
        self.back_off = BackOff(min(FIRST_RESTART, longest), longest)
        allocated, actuated = self._records(ALLOCATED), self._records(ACTUATED)
        self.resizes = PodResizes(
            allocated, actuated, self.events, self.node_state.offer, clock, _fixed_resources(configuration)
        )
        resizer = PodResizer(runtime, self.parts.limits, self.parts.cgroups, actuated)
        pod_runtime = PodRuntime(
            runtime, self.parts.builder, hooks, self.stopper, self.events, clock, self.back_off, resizer, starts
        )
        self.syncer = NodePodSyncer(
            runtime,
            pod_runtime,
            self.stopper,
            self.reader,
            self.states,
            self.lifecycle,
            self.statuses,
            self.probes,
            self.parts.volumes,
            self.parts.directories,
            self.node_state,
            self.events,
            self.resizes,
            clock,
        )
        self.workers = PodWorkers(self.syncer, self.states, clock, randomness)
        garbage = PodGarbage(runtime, self.lifecycle, self.parts.remove_logs)
        self.pods = NodePods(
            self.workers,
            self.statuses,
            self.lifecycle,
            garbage,
            self.events,
            self.node_state.offer,
            lambda: client.get(core_v1.Node, node_name),
            clock,
            self.resizes,
            self.parts.checks,
            self.parts.resources,
        )
        self.mirrors = MirrorPods(client, self.pods.mirror_of, self.node)
        self.syncer.mirror = self.mirrors.ensure
        if self.parts.resources is not None:
            self.syncer.allocated_resources = self.parts.resources.statuses

    def _cgroup_limits(self, pod: core_v1.Pod) -> LinuxResources | None:
        """The limits that a pod's own cgroup has; None where it has none."""
        if self.parts.cgroups is None:
            return None
        try:
            found = self.parts.cgroups.limits(pod)
        except CgroupError:
            return None  # not made yet, or gone already
        return LinuxResources(
            cpu_shares=found.cpu_shares or 0,
            cpu_quota=found.cpu_quota or 0,
            cpu_period=found.cpu_period or 0,
            memory_limit=found.memory or 0,
        )

    def _records(self, name: str) -> AllocationRecords:
        directory = self.parts.records
        return AllocationRecords(directory / name if directory is not None else None, self.parts.blocking)

    def node(self) -> core_v1.Node | None:
        """This node as the API shows it; None before it is registered."""
        return self.nodes.cache.get("", self.node_name)

    async def run(self) -> None:
        """Run until cancelled. Containers go on running after that."""
        self.resizes.load()
        if self.parts.resources is not None:
            self.parts.resources.start()
        await self.node_state.check()
        always: dict[str, Task] = {
            "events": self.recorder.run,
            "runtime status": self.node_state.run,
            "lists of containers": self.lifecycle.run,
            "events of the runtime": self.lifecycle.watch,
            "pod statuses": self.statuses.run,
            **self.parts.tasks,
        }
        async with Supervisor("kubelet", clock=self.clock) as tasks:
            try:
                for name, task in always.items():
                    tasks.keep_running(name, task)
                self.informers.start()
                await self.informers.wait_for_sync()
                await self.states.newer_than("", float("-inf"))  # what runs already is known before pods are added
                self._follow_pods()
                tasks.keep_running("clean-up", self.pods.run)
                await tasks.wait()
            finally:
                if self.parts.resources is not None:
                    await self.parts.resources.close()
                await self.pods.close()
                await self.workers.close()
                await self.probes.close()
                await self.resizes.close()

    def _follow_pods(self) -> None:
        """Take in the pods that there are, oldest first as they were admitted before, then every change."""
        existing = sorted(self.api_pods.cache, key=lambda each: each.metadata.creation_timestamp or "")
        for pod in existing:
            self.pods.add(pod)
        known = {each.metadata.uid for each in existing}
        self.api_pods.on_change(
            add=lambda pod: None if pod.metadata.uid in known else self.pods.add(pod),
            update=self.pods.update,
            delete=self.pods.delete,
        )
        known.clear()
        self.pods.ready = True

    def _on_lifecycle(self, event: PodEvent) -> None:
        self.pods.on_lifecycle(event)

    def show(self, uids: Iterable[str]) -> None:
        """Say anew how pods are, of which something besides their containers has changed."""
        for uid in uids:
            pod = self.pods.get(uid)
            if pod is not None and self.workers.state(uid) is WorkState.SYNC:
                self.syncer.show(pod)

    def _on_probe(self, update: ProbeUpdate) -> None:
        """A probe's result has changed: show it at once, and look at the pod again, which may start it anew. While a pod ends, its worker waits for its
        containers, and only their readiness changes."""
        pod, work = self.pods.get(update.pod_uid), self.workers.state(update.pod_uid)
        if pod is not None and work is WorkState.SYNC:
            self.syncer.show(pod)
        elif pod is not None and work is WorkState.TERMINATING and update.type is ProbeType.READINESS:
            self.statuses.set_readiness(pod, update.container_id, update.health is Health.SUCCESS)
        self.workers.touch(update.pod_uid)


def _fixed_resources(configuration: KubeletConfiguration) -> dict[str, str]:
    """Resources of which Guaranteed pods keep what they got when they were admitted -> the policy by which they do."""
    fixed = {}
    if configuration.cpu_manager_policy == "static":
        fixed["cpu"] = 'CPU Manager policy "static"'
    if configuration.memory_manager_policy == "Static":
        fixed["memory"] = 'Memory Manager policy "Static"'
    return fixed
