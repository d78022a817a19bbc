"""One worker per pod, which leads it from the first sync to its end (pkg/kubelet/pod_workers.go).

    sync ──────────▶ terminating ──────────▶ terminated
    starts and keeps  stops containers until  gives back volumes, cgroups and
    containers        none runs               files; then the pod may be deleted

A pod only goes forward. What asks a pod to end, be it its deletion, eviction, or its own end, moves it to terminating; only when that has succeeded it
becomes terminated. Requests that come while a worker is busy are merged: the newest pod counts, and the shortest grace period.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bayplan.api.types import core_v1
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.pod_status import TERMINAL, is_static
from bayplan.kubelet.core.termination import shortened
from bayplan.kubelet.errors import SyncError
from bayplan.kubelet.pods.pod_states import PodStates
from bayplan.support.clock import Clock, Timer
from bayplan.support.randomness import Randomness

logger = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
"""Seconds after which a sync that failed is tried again, without other cause."""
RESYNC_SECONDS = 60.0
"""Seconds after which a pod is looked at although nothing has happened."""
_JITTER = 0.5

SetStatus = Callable[[core_v1.PodStatus], core_v1.PodStatus]


class WorkState(enum.Enum):
    """Where a pod's worker is."""

    SYNC = "sync"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class PodSyncer(Protocol):
    """What workers do with pods. Each raises SyncError when it is to be tried again."""

    async def sync(self, pod: core_v1.Pod, state: PodState, ending: asyncio.Event) -> bool:
        """Bring a pod nearer to what it is to be; whether it has ended by itself. `ending` is set when the pod is to end meanwhile."""

    async def terminate(
        self, pod: core_v1.Pod, state: PodState, grace_seconds: int | None, set_status: SetStatus | None
    ) -> None:
        """Stop all containers; returns when none runs any more."""

    async def terminate_unknown(self, state: PodState) -> None:
        """Stop all containers of a pod of which only the runtime knows."""

    async def terminated(self, pod: core_v1.Pod, state: PodState) -> None:
        """Give back all that the pod had on the node."""


@dataclass(slots=True)
class Termination:
    """How a pod is to end."""

    grace_seconds: int | None = None
    """None for the pod's own grace period."""
    set_status: SetStatus | None = None
    """Puts the reason into the status, such as Evicted."""
    evicted: bool = False


@dataclass(slots=True)
class _Worker:
    """One pod. `pod` is None for one of which only the runtime knows."""

    uid: str
    pod: core_v1.Pod | None
    state: WorkState = WorkState.SYNC
    termination: Termination = field(default_factory=Termination)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the grace period became shorter while containers were being stopped."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    timer: Timer | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the pod is terminated, or will never be anything."""
    task: asyncio.Task[None] | None = None
    synced_at: float = float("-inf")
    """When the last sync began that was told of the pod (monotonic seconds)."""
    started: bool = False
    """Whether anything was done for the pod."""
    deleted: bool = False
    """Whether the pod is gone from where it came from."""
    after: frozenset[str] = frozenset()
    """Uids of pods that make room for this one: it starts when they have ended."""


class PodWorkers:
    """The workers of a node."""

    def __init__(self, syncer: PodSyncer, states: PodStates, clock: Clock, randomness: Randomness) -> None:
        self._syncer = syncer
        self._states = states
        self._clock = clock
        self._randomness = randomness
        self._workers: dict[str, _Worker] = {}
        self._static: dict[str, str] = {}
        """Full name of a static pod -> uid of the one that may run: another of the same name waits for its end."""
        self.on_terminated: Callable[[core_v1.Pod], None] = lambda _: None

    def update(self, pod: core_v1.Pod, after: Iterable[str] = ()) -> None:
        """A pod is to run, has changed, or is to be looked at again; one that is being deleted or has ended is led to its end. after: uids of pods that must
        have ended before anything of this one starts."""
        uid = pod.metadata.uid
        worker = self._workers.get(uid)
        if worker is None:
            worker = self._workers[uid] = _Worker(uid, pod)
            if pod.status.phase in TERMINAL and pod.metadata.deletion_timestamp is None:
                worker.state = WorkState.TERMINATING  # what is left of it after a restart of the kubelet is to go
                worker.ending.set()
        worker.pod = pod
        worker.after |= frozenset(after)
        if pod.metadata.deletion_timestamp is not None:
            self._begin_termination(worker, Termination(pod.metadata.deletion_grace_period_seconds))
        self._wake(worker)

    def renew(self, pod: core_v1.Pod) -> None:
        """A pod looks different in the API, in nothing that asks for work."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.pod = pod

    def kill(self, uid: str, pod: core_v1.Pod | None, termination: Termination, *, deleted: bool = False) -> None:
        """End a pod. pod: None for one of which only the runtime knows. deleted: it is gone from where it came from."""
        worker = self._workers.get(uid)
        if worker is None:
            worker = self._workers[uid] = _Worker(uid, pod)
        if pod is not None:
            worker.pod = pod
        worker.deleted = worker.deleted or deleted
        self._begin_termination(worker, termination)
        self._wake(worker)

    def touch(self, uid: str) -> None:
        """Something has happened to a pod: look at it again."""
        worker = self._workers.get(uid)
        if worker is not None:
            self._wake(worker)

    def state(self, uid: str) -> WorkState | None:
        """Where a pod is; None for one that has no worker."""
        worker = self._workers.get(uid)
        return worker.state if worker is not None else None

    def is_terminating(self, uid: str) -> bool:
        """Whether a pod is to end, or has ended."""
        worker = self._workers.get(uid)
        return worker is not None and worker.state is not WorkState.SYNC

    def may_have_running_containers(self, uid: str) -> bool:
        """Whether something of a pod may still run."""
        worker = self._workers.get(uid)
        return worker is not None and worker.state is not WorkState.TERMINATED and worker.started

    def is_evicted(self, uid: str) -> bool:
        """Whether a pod ends because the node cannot keep it."""
        worker = self._workers.get(uid)
        return worker is not None and worker.termination.evicted

    def known(self) -> Mapping[str, WorkState]:
        """All pods that have workers."""
        return {uid: each.state for uid, each in self._workers.items()}

    async def wait_terminated(self, uid: str) -> None:
        """Return when nothing of a pod runs any more."""
        worker = self._workers.get(uid)
        if worker is not None:
            await worker.done.wait()

    def forget(self, wanted: Iterable[str]) -> None:
        """End what is not wanted any more, and forget what has ended of that. wanted: uids of all pods that the node has."""
        keep = set(wanted)
        for uid, worker in list(self._workers.items()):
            if uid in keep:
                continue
            if worker.state is WorkState.TERMINATED or (not worker.started and worker.task is None):
                self._remove(worker)
            elif worker.state is WorkState.SYNC:
                self.kill(uid, worker.pod, Termination(), deleted=True)

    async def close(self) -> None:
        """Stop working; containers go on."""
        tasks = [each.task for each in self._workers.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remove(self, worker: _Worker) -> None:
        if worker.task is not None:
            worker.task.cancel()
        del self._workers[worker.uid]
        for name, uid in list(self._static.items()):
            if uid == worker.uid:
                del self._static[name]
        worker.done.set()

    def _begin_termination(self, worker: _Worker, termination: Termination) -> None:
        current = worker.termination
        if termination.grace_seconds is not None:
            shorter = shortened(current.grace_seconds, termination.grace_seconds)
            if shorter != current.grace_seconds:
                current.grace_seconds = shorter
                worker.hurry.set()
        current.set_status = current.set_status or termination.set_status
        current.evicted = current.evicted or termination.evicted
        if worker.state is WorkState.SYNC:
            worker.state = WorkState.TERMINATING
        worker.ending.set()

    def _wake(self, worker: _Worker) -> None:
        worker.wake.set()
        if worker.task is None:
            name = worker.pod.metadata.name if worker.pod is not None else worker.uid
            worker.task = asyncio.create_task(self._lead(worker), name=f"pod {name}")

    async def _lead(self, worker: _Worker) -> None:
        """Work on one pod until it is terminated."""
        while worker.state is not WorkState.TERMINATED:
            if not worker.wake.is_set():
                await worker.wake.wait()
            worker.wake.clear()
            if not self._may_start(worker):
                self._later(worker, RETRY_SECONDS)
                continue
            worker.started = True
            try:
                await self._step(worker)
            except SyncError as error:
                logger.debug("pod %s: %s", worker.uid, error)
                wait = error.retry_after if error.retry_after is not None else RETRY_SECONDS
                self._later(worker, self._randomness.jitter(wait, _JITTER) if error.retry_after is None else wait)
            except Exception:
                logger.exception("pod %s", worker.uid)
                self._later(worker, self._randomness.jitter(RETRY_SECONDS, _JITTER))
        worker.done.set()
        for other in self._workers.values():
            if worker.uid in other.after:
                other.wake.set()
        if worker.pod is not None:
            self.on_terminated(worker.pod)

    async def _step(self, worker: _Worker) -> None:
        """One sync of whatever is next."""
        state = await self._states.newer_than(worker.uid, worker.synced_at)
        worker.synced_at = self._clock.monotonic()
        pod, phase = worker.pod, worker.state
        if pod is None:
            await self._syncer.terminate_unknown(state)
            worker.state = WorkState.TERMINATED
        elif phase is WorkState.SYNC:
            if await self._syncer.sync(pod, state, worker.ending) and worker.state is WorkState.SYNC:
                worker.state = WorkState.TERMINATING
            if worker.state is WorkState.SYNC:
                self._later(worker, self._randomness.jitter(RESYNC_SECONDS, _JITTER))
            else:
                worker.wake.set()
        elif phase is WorkState.TERMINATING:
            await self._terminate(worker, pod, state)
            await self._finish(worker)

    async def _terminate(self, worker: _Worker, pod: core_v1.Pod, state: PodState) -> None:
        """Stop the containers; when the grace period becomes shorter meanwhile, once more with that."""
        while True:
            worker.hurry.clear()
            termination = worker.termination
            stopping = asyncio.ensure_future(
                self._syncer.terminate(pod, state, termination.grace_seconds, termination.set_status)
            )
            hurrying = asyncio.ensure_future(worker.hurry.wait())
            try:
                await asyncio.wait((stopping, hurrying), return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    return stopping.result()
            finally:
                hurrying.cancel()
                stopping.cancel()
            await asyncio.wait((stopping,))

    async def _finish(self, worker: _Worker) -> None:
        """No container runs any more."""
        while worker.pod is not None:
            state = self._states.get(worker.uid)
            try:
                await self._syncer.terminated(worker.pod, state)
                break
            except SyncError as error:
                logger.debug("pod %s: %s", worker.uid, error)
                await self._clock.sleep(error.retry_after if error.retry_after is not None else 1.0)
        worker.state = WorkState.TERMINATED

    def _may_start(self, worker: _Worker) -> bool:
        """Whether those that make room have ended; of static pods with one name only one may be there at a time, the next when it has ended."""
        pod = worker.pod
        if worker.state is WorkState.SYNC and any(map(self._may_run, worker.after)):
            return False
        if pod is None or worker.started or not is_static(pod):
            return True
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        other = self._workers.get(self._static.get(name, ""))
        if other is not None and other is not worker and other.state is not WorkState.TERMINATED:
            return False
        self._static[name] = worker.uid
        return True

    def _may_run(self, uid: str) -> bool:
        worker = self._workers.get(uid)
        return worker is not None and worker.state is not WorkState.TERMINATED

    def _later(self, worker: _Worker, seconds: float) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
        worker.timer = self._clock.call_later(seconds, self._wake_again, worker)

    def _wake_again(self, worker: _Worker) -> None:
        if self._workers.get(worker.uid) is worker and worker.state is not WorkState.TERMINATED:
            worker.wake.set()
