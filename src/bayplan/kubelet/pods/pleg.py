"""What has happened to containers, found by listing all of them again and again (pkg/kubelet/pleg).

The list is the truth. A runtime that tells of events only makes it come sooner: an event makes the kubelet look at its pod, and one that is lost is
found by the next list.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bayplan.kubelet.pods.pod_states import PodStateReader, PodStates
from bayplan.kubelet.runtime.errors import RuntimeRequestError, UnsupportedError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.labels import POD_UID
from bayplan.kubelet.runtime.types import Container, ContainerEvent, ContainerState, Sandbox, SandboxState
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

RELIST_SECONDS = 1.0
UNHEALTHY_SECONDS = 180.0
"""How long no list may have come before the node is not ready."""
_RECONNECT_SECONDS = 5.0


class PodEventType(enum.Enum):
    """What happened to a container or sandbox of a pod."""

    STARTED = "ContainerStarted"
    DIED = "ContainerDied"
    REMOVED = "ContainerRemoved"
    CHANGED = "ContainerChanged"


@dataclass(frozen=True, slots=True)
class PodEvent:
    """Something that happened to a pod; `id` is that of the container or sandbox."""

    pod_uid: str
    type: PodEventType
    id: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one list says of one pod."""

    sandboxes: tuple[Sandbox, ...]
    containers: tuple[Container, ...]

    def states(self) -> dict[str, str]:
        """Whether each sandbox and container runs, by id."""
        result = {each.id: _of_sandbox(each.state) for each in self.sandboxes}
        result.update((each.id, _of_container(each.state)) for each in self.containers)
        return result


def _of_sandbox(state: SandboxState) -> str:
    return "running" if state is SandboxState.READY else "exited"


def _of_container(state: ContainerState) -> str:
    return {ContainerState.RUNNING: "running", ContainerState.EXITED: "exited"}.get(state, "unknown")


def events_between(uid: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[PodEvent]:
    """What must have happened for one list to become the other: id -> running, exited or unknown."""
    events = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key, ""), new.get(key, "")
        if before == after:
            continue
        if after == "running":
            events.append(PodEvent(uid, PodEventType.STARTED, key))
        elif after == "exited":
            events.append(PodEvent(uid, PodEventType.DIED, key))
        elif after == "unknown":
            events.append(PodEvent(uid, PodEventType.CHANGED, key))
        else:
            if before == "running":
                events.append(PodEvent(uid, PodEventType.DIED, key))
            events.append(PodEvent(uid, PodEventType.REMOVED, key))
    return events


class PodLifecycleEvents:
    """Lists the runtime's containers every second, keeps `PodStates` fresh, and tells a listener what has happened."""

    def __init__(
        self,
        runtime: Runtime,
        reader: PodStateReader,
        states: PodStates,
        listener: Callable[[PodEvent], None],
        clock: Clock,
    ) -> None:
        self._runtime = runtime
        self._reader = reader
        self._states = states
        self._listener = listener
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._unread: set[str] = set()
        """Pods that could not be read although they have changed."""
        self._looked_at: dict[str, float] = {}
        """When the last read of each pod began (monotonic seconds)."""
        self._reported: set[str] = set()
        """Pods of events that were not read since."""
        self._has_reported = asyncio.Event()
        self._listed_at = clock.monotonic()
        self.on_relist: Callable[[float], None] = lambda _: None
        """Called after each list with the seconds that it took."""

    def unhealthy_for(self) -> float:
        """Seconds beyond the limit since the last list; 0 while lists come."""
        return max(0.0, self._clock.monotonic() - self._listed_at - UNHEALTHY_SECONDS)

    def pods(self) -> Mapping[str, tuple[tuple[Sandbox, ...], tuple[Container, ...]]]:
        """What the last list has shown, by pod uid."""
        return {uid: (each.sandboxes, each.containers) for uid, each in self._seen.items()}

    async def run(self) -> None:
        """List until cancelled."""
        while True:
            try:
                await self.relist()
            except RuntimeRequestError as error:
                logger.warning("cannot list containers: %s", error)
            await self._clock.sleep(RELIST_SECONDS)

    async def watch(self) -> None:
        """Look at pods of which the runtime tells that something has happened; returns where it does not tell."""
        tasks = [asyncio.create_task(self._follow_events()), asyncio.create_task(self._read_reported())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_events(self) -> None:
        """Note the pods of events; returns where the runtime does not tell of any."""
        while True:
            try:
                async for event in self._runtime.events():
                    if event.pod_uid and not self._is_known(event):
                        self._reported.add(event.pod_uid)
                        self._has_reported.set()
            except UnsupportedError:
                return
            except RuntimeRequestError as error:
                logger.debug("events of the runtime: %s", error)
            await self._clock.sleep(_RECONNECT_SECONDS)

    def _is_known(self, event: ContainerEvent) -> bool:
        """Whether the pod was read after the event: a runtime tells of what it shows already."""
        happened_at = self._clock.monotonic() - (self._clock.now() - event.timestamp / 1e9)
        return self._looked_at.get(event.pod_uid, float("-inf")) > happened_at

    async def _read_reported(self) -> None:
        """Read the pods that events were about, until cancelled: each once for all events that come while others are read."""
        while True:
            await self._has_reported.wait()
            self._has_reported.clear()
            reported, self._reported = sorted(self._reported), set()
            await asyncio.gather(*(self.refresh(uid) for uid in reported))

    async def relist(self) -> None:
        """List everything and look at the pods that have changed. Raises RuntimeRequestError."""
        seen_at = self._clock.monotonic()
        sandboxes, containers = await asyncio.gather(self._runtime.sandboxes(), self._runtime.containers())
        self._listed_at = self._clock.monotonic()
        found = _by_pod(sandboxes, containers)
        changed = [
            uid
            for uid in found.keys() | self._seen.keys() | self._unread
            if uid in self._unread or self._states_of(uid) != (found[uid].states() if uid in found else {})
        ]
        await asyncio.gather(*(self._look_at(uid, found.get(uid), seen_at) for uid in changed))
        self._reader.forget_all_but({each.id for each in containers}, {each.id for each in sandboxes})
        self._looked_at = {uid: at for uid, at in self._looked_at.items() if uid in self._seen or at > seen_at}
        self._states.listed(seen_at)
        self.on_relist(self._clock.monotonic() - seen_at)

    async def refresh(self, uid: str) -> None:
        """Look at one pod now: it was changed, or the runtime told so."""
        seen_at = self._clock.monotonic()
        try:
            sandboxes, containers = await asyncio.gather(
                self._runtime.sandboxes(pod_uid=uid), self._runtime.containers(pod_uid=uid)
            )
        except RuntimeRequestError as error:
            logger.debug("pod %s: %s", uid, error)
            self._unread.add(uid)
            return
        await self._look_at(uid, _by_pod(sandboxes, containers).get(uid), seen_at)

    def _states_of(self, uid: str) -> dict[str, str]:
        seen = self._seen.get(uid)
        return seen.states() if seen is not None else {}

    async def _look_at(self, uid: str, found: _Seen | None, seen_at: float) -> None:
        """Take note of what a list has shown at `seen_at`, unless somebody has looked at the pod since."""
        state = None
        if found is not None:
            try:
                state = await self._reader.inspect(uid, found.sandboxes, found.containers, seen_at)
            except RuntimeRequestError as error:
                self._unread.add(uid)
                self._states.fail(uid, error)
                return
        if self._looked_at.get(uid, seen_at) > seen_at:
            return
        self._looked_at[uid] = seen_at
        if state is not None:
            self._states.set(state)
        else:
            self._states.remove(uid)
        self._unread.discard(uid)
        before = self._states_of(uid)
        if found is None:
            self._seen.pop(uid, None)
        else:
            self._seen[uid] = found
        for event in events_between(uid, before, found.states() if found is not None else {}):
            self._listener(event)


def _by_pod(sandboxes: Sequence[Sandbox], containers: Sequence[Container]) -> dict[str, _Seen]:
    grouped: dict[str, tuple[list[Sandbox], list[Container]]] = {}
    for sandbox in sandboxes:
        grouped.setdefault(sandbox.uid, ([], []))[0].append(sandbox)
    for container in containers:
        uid = container.labels.get(POD_UID, "")
        if uid:
            grouped.setdefault(uid, ([], []))[1].append(container)
    return {uid: _Seen(tuple(boxes), tuple(others)) for uid, (boxes, others) in grouped.items()}
