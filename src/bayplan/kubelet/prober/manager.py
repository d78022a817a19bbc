"""The probes of all containers of a node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from bayplan.api.types import core_v1
from bayplan.kubelet.core.plan import Health, ProbeVerdicts
from bayplan.kubelet.core.pod_status import ProbeView
from bayplan.kubelet.core.restarts import AnyContainer, is_sidecar
from bayplan.kubelet.prober.handlers import ProbeRunner
from bayplan.kubelet.prober.results import ProbeResults, ProbeType, ProbeUpdate
from bayplan.kubelet.prober.verdict import ProbeState, Turn, conclude, next_step
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Worker:
    """One probe with its task."""

    state: ProbeState
    task: asyncio.Task[None] | None = None
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to probe now instead of at the next tick."""


def probes_of(container: AnyContainer) -> Iterator[tuple[ProbeType, core_v1.Probe]]:
    """The probes that a container has."""
    for probe_type, probe in (
        (ProbeType.STARTUP, container.startup_probe),
        (ProbeType.LIVENESS, container.liveness_probe),
        (ProbeType.READINESS, container.readiness_probe),
    ):
        if probe is not None:
            yield probe_type, probe


class ProbeManager:
    """Runs the probes of pods from `add` to `remove`, and says what they found."""

    def __init__(
        self,
        runner: ProbeRunner,
        status_of: Callable[[str], core_v1.PodStatus | None],
        listener: Callable[[ProbeUpdate], None],
        *,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        """status_of: pod uid -> what the kubelet last said of the pod. listener: hears of results that have changed."""
        self._runner = runner
        self._status_of = status_of
        self._clock = clock
        self._randomness = randomness
        self._started_at = clock.now()
        self._results = {each: ProbeResults(each, listener) for each in ProbeType}
        self._workers: dict[str, dict[tuple[str, ProbeType], _Worker]] = {}
        self._pods: dict[str, core_v1.Pod] = {}
        self.on_probed: Callable[[core_v1.Pod, str, ProbeType, Health], None] = lambda *_: None
        """Called after each probe: pod, container's name, kind of probe, result."""

    def add(self, pod: core_v1.Pod) -> None:
        """Probe the containers of a pod, from now on by this spec; does nothing for those that are probed already."""
        uid = pod.metadata.uid
        self._pods[uid] = pod
        workers = self._workers.setdefault(uid, {})
        sidecars = (each for each in pod.spec.init_containers if is_sidecar(each))
        for container in (*pod.spec.containers, *sidecars):
            for probe_type, probe in probes_of(container):
                if (container.name, probe_type) not in workers:
                    worker = _Worker(ProbeState(probe_type, probe, container))
                    workers[container.name, probe_type] = worker
                    name = f"probe {pod.metadata.name} {container.name} {probe_type.value}"
                    worker.task = asyncio.create_task(self._run(uid, worker), name=name)

    def stop_all_but_readiness(self, uid: str) -> None:
        """A pod is ending: whether it is alive does not matter any more."""
        for (_, probe_type), worker in self._workers.get(uid, {}).items():
            if probe_type is not ProbeType.READINESS and worker.task is not None:
                worker.task.cancel()

    def remove(self, uid: str) -> None:
        """Probe nothing of a pod any more, and forget what was found."""
        self._pods.pop(uid, None)
        for (_, probe_type), worker in self._workers.pop(uid, {}).items():
            if worker.task is not None:
                worker.task.cancel()
            self._results[probe_type].remove(worker.state.container_id)

    def known(self) -> tuple[str, ...]:
        """Uids of the pods that are probed."""
        return tuple(self._workers)

    async def close(self) -> None:
        """End all probes."""
        tasks = [each.task for workers in self._workers.values() for each in workers.values() if each.task is not None]
        for uid in self.known():
            self.remove(uid)
        await asyncio.gather(*tasks, return_exceptions=True)

    def verdicts(self) -> ProbeVerdicts:
        """What decides about restarts."""
        return ProbeVerdicts(self._map(ProbeType.LIVENESS), self._map(ProbeType.STARTUP))

    def _map(self, probe_type: ProbeType) -> Mapping[str, Health]:
        return self._results[probe_type].by_container

    def view(self, pod: core_v1.Pod, before: core_v1.PodStatus) -> ProbeView:
        """What decides about `started` and `ready` in a pod's status. before: what the kubelet last said of the pod."""
        workers = self._workers.get(pod.metadata.uid, {})
        known = {each.name: each for each in (*before.container_statuses, *before.init_container_statuses)}
        specs = {each.name: each for each in (*pod.spec.containers, *pod.spec.init_containers)}

        def same(name: str, container_id: str) -> core_v1.ContainerStatus | None:
            old = known.get(name)
            return old if old is not None and old.container_id.endswith(f"://{container_id}") else None

        def started(name: str, container_id: str) -> bool:
            result = self._results[ProbeType.STARTUP].get(container_id)
            if result is not None:
                return result is Health.SUCCESS
            old = same(name, container_id)
            return bool(old is not None and old.started) or specs[name].startup_probe is None

        def ready(name: str, container_id: str) -> bool:
            result = self._results[ProbeType.READINESS].get(container_id)
            if result is Health.SUCCESS or specs[name].readiness_probe is None:
                return True
            worker = workers.get((name, ProbeType.READINESS))
            if worker is not None:
                worker.hurry.set()
            old = same(name, container_id)  # a container that outlived the kubelet is what it was until it is probed
            return result is None and old is not None and old.ready

        return ProbeView(started, ready)

    async def _run(self, uid: str, worker: _Worker) -> None:
        state = worker.state
        period = max(state.spec.period_seconds, 1)
        if self._clock.now() - self._started_at < period:
            # After a restart of the kubelet not all probes of a node run at once.
            await self._clock.sleep(self._randomness.random() * period)
        while await self._tick_safely(uid, state):
            worker.hurry.clear()
            waiting = asyncio.ensure_future(worker.hurry.wait())
            sleeping = asyncio.ensure_future(self._clock.sleep(period))
            try:
                await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                sleeping.cancel()

    async def _tick_safely(self, uid: str, state: ProbeState) -> bool:
        try:
            return await self._tick(uid, state)
        except Exception:
            logger.exception("%s probe of container %s of pod %s", state.type.value, state.container.name, uid)
            return True  # a fault in one probe does not end the probing

    async def _tick(self, uid: str, state: ProbeState) -> bool:
        """Probe once if it is time; whether to go on."""
        pod, status = self._pods.get(uid), self._status_of(uid)
        if pod is None:
            return False
        if status is None:
            return True
        results = self._results[state.type]
        step = next_step(state, pod, status, self._clock.now(), self._started_at)
        for container_id, health in step.results:
            if health is None:
                results.remove(container_id)
            else:
                results.set(container_id, health, uid)
        if step.turn is not Turn.PROBE:
            return step.turn is Turn.WAIT
        container_id = state.container_id
        health = await self._runner.probe(state.type, state.spec, pod, status, state.container, container_id)
        if health is not None:
            self.on_probed(pod, state.container.name, state.type, health)
        if health is not None and container_id == state.container_id:
            concluded = conclude(state, health)
            if concluded is not None:
                results.set(container_id, concluded, uid)
        return True
