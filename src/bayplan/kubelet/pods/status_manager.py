"""Tells the API server how pods are, and deletes those that have ended there (pkg/kubelet/status).

The last status of each pod is kept here; whoever asks gets that, and not what the API server may not have seen yet. Statuses are written as patches that
name the pod's uid, so that a pod of the same name never gets the status of another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.kubelet.core.conditions import DISRUPTION_TARGET, OWN_CONDITIONS, with_transition_times
from bayplan.kubelet.core.merge import merged_status, status_patch
from bayplan.kubelet.core.pod_status import illegal_transition, is_mirror, is_static, terminated_pod_status
from bayplan.kubelet.core.readiness import with_readiness
from bayplan.support.clock import Clock
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

_RECONCILE_SECONDS = 10.0
"""How long a status stands in which somebody else has written (the status manager of Kubernetes looks every ten seconds)."""
_RETRY_SECONDS = 10.0
_WRITERS = 8
MOST_MESSAGES = 12 * 1024
"""Bytes of termination messages that a pod's status has room for."""


@dataclass(slots=True)
class _Record:
    """What is known of one pod's status."""

    pod: core_v1.Pod
    status: core_v1.PodStatus
    version: int = 1
    written: int = 0
    """The version that the API server has."""
    finished: bool = False
    """Whether all that the pod had on this node is gone, so that it may be deleted from the API."""


class StatusManager:
    """See the module. All methods but `run` only change what is to be written."""

    def __init__(self, client: Client, clock: Clock, may_have_running_containers: Callable[[str], bool]) -> None:
        """may_have_running_containers: pod uid -> whether something of the pod may still run; until then its phase does not become terminal."""
        self._client = client
        self._clock = clock
        self._may_run = may_have_running_containers
        self._records: dict[str, _Record] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._writing: set[str] = set()
        self._differing: set[str] = set()
        """Pods in whose status somebody else has written."""
        self.pod_in_api: Callable[[core_v1.Pod], core_v1.Pod | None] = lambda pod: pod
        """The pod of the API that stands for a pod: its mirror pod for a static one, None if it has none yet."""
        self.on_termination: Callable[[str, core_v1.ContainerStateTerminated], None] = lambda kind, ended: None
        """Called once for each end of a container: container, init_container or ephemeral_container, and how it has ended."""

    def get(self, uid: str) -> core_v1.PodStatus | None:
        """What was last said of a pod."""
        record = self._records.get(uid)
        return record.status if record is not None else None

    def set(self, pod: core_v1.Pod, status: core_v1.PodStatus) -> None:
        """Say how a pod is."""
        self._update(pod, status, finished=False)

    def terminate(self, pod: core_v1.Pod) -> None:
        """Nothing of the pod is left on the node: its status becomes terminal, and it may go from the API."""
        before = self.get(pod.metadata.uid) or pod.status
        self._update(pod, terminated_pod_status(pod, before), finished=True)

    def set_readiness(self, pod: core_v1.Pod, container_id: str, ready: bool) -> None:
        """Say whether a container is ready, and nothing else that is new; container_id: without the runtime's scheme."""
        before = self.get(pod.metadata.uid)
        status = with_readiness(pod, before, container_id, ready) if before is not None else None
        if status is not None:
            self.set(pod, status)

    def add_condition(self, pod: core_v1.Pod, condition: core_v1.PodCondition) -> None:
        """Set a condition that no later status takes away, such as DisruptionTarget."""
        before = self.get(pod.metadata.uid) or pod.status
        others = tuple(each for each in before.conditions if each.type != condition.type)
        self.set(pod, msgspec.structs.replace(before, conditions=(*others, condition)))

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Forget pods that neither the API nor the node has any more."""
        for uid in self._records.keys() - set(uids):
            del self._records[uid]

    def refresh(self, uid: str, shown: core_v1.Pod) -> None:
        """The API shows a pod (or the mirror pod of a static one): what others wrote into its status is written over, but not before they had time to act on it,
        as the controller of a pod whose phase was set to Failed."""
        record = self._records.get(uid)
        if record is None:
            return
        if not is_static(record.pod):
            record.pod = shown
        if record.version != record.written or record.finished:
            self._enqueue(uid)
        elif uid not in self._differing and self._differs(record, shown):
            self._differing.add(uid)
            self._clock.call_later(_RECONCILE_SECONDS, self._reconcile, uid)

    def _differs(self, record: _Record, shown: core_v1.Pod) -> bool:
        wanted = merged_status(shown, shown.status, record.status, may_run=self._may_run(record.pod.metadata.uid))
        return status_patch(shown, wanted) is not None

    def _reconcile(self, uid: str) -> None:
        """Write a status again if the API still shows another one."""
        self._differing.discard(uid)
        record = self._records.get(uid)
        shown = self.pod_in_api(record.pod) if record is not None else None
        if record is not None and shown is not None and self._differs(record, shown):
            record.written = 0
            self._enqueue(uid)

    async def run(self) -> None:
        """Write until cancelled."""
        await asyncio.gather(*(self._write_all() for _ in range(_WRITERS)))

    def _update(self, pod: core_v1.Pod, status: core_v1.PodStatus, *, finished: bool) -> None:
        uid = pod.metadata.uid
        record = self._records.get(uid)
        before = record.status if record is not None else pod.status
        broken = illegal_transition(pod, before, status)
        if broken:
            logger.error("status of pod %s/%s not written: %s", pod.metadata.namespace, pod.metadata.name, broken)
            return
        status = _normalized(pod, status, before, rfc3339(self._clock.now()))
        for kind, ended in _terminations(before, status):
            self.on_termination(kind, ended)
        if record is None:
            self._records[uid] = _Record(pod, status, finished=finished)
        else:
            record.pod = pod
            newly_finished = finished and not record.finished
            record.finished = record.finished or finished
            if status == record.status and not newly_finished:
                return
            record.status = status
            record.version += 1
        self._enqueue(uid)

    def _enqueue(self, uid: str) -> None:
        if uid not in self._queued:
            self._queued.add(uid)
            self._queue.put_nowait(uid)

    async def _write_all(self) -> None:
        while True:
            uid = await self._queue.get()
            self._queued.discard(uid)
            if uid in self._writing:
                self._clock.call_later(0.05, self._enqueue, uid)
                continue
            self._writing.add(uid)
            try:
                await self._write(uid)
            except (ApiError, TransportError) as error:
                logger.warning("cannot write the status of pod %s: %s", uid, error)
                self._clock.call_later(_RETRY_SECONDS, self._enqueue, uid)
            finally:
                self._writing.discard(uid)

    async def _write(self, uid: str) -> None:
        record = self._records.get(uid)
        target = self.pod_in_api(record.pod) if record is not None else None
        if record is None or target is None:
            return
        metadata = target.metadata
        version = record.version
        pod = target
        if version != record.written:
            # The pod as the kubelet last saw it will do: the patch names the uid, and is made anew when the API shows another status.
            patch = status_patch(pod, merged_status(pod, pod.status, record.status, may_run=self._may_run(uid)))
            if patch is not None:
                patched = await self._patch(metadata.namespace, metadata.name, patch)
                if patched is None:
                    return
                pod = patched
            record.written = version
        await self._delete_if_ended(record, pod)

    async def _patch(self, namespace: str, name: str, patch: dict[str, Any]) -> core_v1.Pod | None:
        """Write a patch; None if the pod is not there any more."""
        try:
            return await self._client.patch(
                core_v1.Pod, name, namespace, patch, patch_type=STRATEGIC_PATCH, subresource="status"
            )
        except ApiError as error:
            if error.code == 404 or (error.code == 409 and "uid" in str(error)):
                return None
            raise

    async def _delete_if_ended(self, record: _Record, pod: core_v1.Pod) -> None:
        metadata = pod.metadata
        terminal = pod.status.phase in ("Succeeded", "Failed")
        if metadata.deletion_timestamp is None or is_mirror(pod) or not record.finished or not terminal:
            return
        try:
            await self._client.delete(
                core_v1.Pod, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise


_SECTIONS = {
    "init_container": "init_container_statuses",
    "container": "container_statuses",
    "ephemeral_container": "ephemeral_container_statuses",
}
"""What metrics call a kind of container -> its statuses."""


def _terminations(
    before: core_v1.PodStatus, status: core_v1.PodStatus
) -> Iterator[tuple[str, core_v1.ContainerStateTerminated]]:
    """What has ended that had not before."""
    for kind, section in _SECTIONS.items():
        ended_before = {each.name for each in getattr(before, section) if each.state.terminated is not None}
        for each in getattr(status, section):
            if each.state.terminated is not None and each.name not in ended_before:
                yield kind, each.state.terminated


def _normalized(pod: core_v1.Pod, status: core_v1.PodStatus, before: core_v1.PodStatus, now: str) -> core_v1.PodStatus:
    """A status with the times of its conditions, the start that it had, and messages that fit."""
    kept = {each.type: each for each in status.conditions if each.type not in OWN_CONDITIONS | {DISRUPTION_TARGET}}
    own = [each for each in status.conditions if each.type not in kept]
    specs = len(pod.spec.containers) + len(pod.spec.init_containers) + len(pod.spec.ephemeral_containers)
    room = MOST_MESSAGES // max(specs, 1)
    changed: core_v1.PodStatus = msgspec.structs.replace(
        status,
        conditions=(*kept.values(), *with_transition_times(own, before.conditions, now)),
        start_time=before.start_time or status.start_time or now,
        observed_generation=max(before.observed_generation, status.observed_generation),
        **{name: tuple(_shortened(each, room) for each in getattr(status, name)) for name in _SECTIONS.values()},
    )
    return changed


def _shortened(status: core_v1.ContainerStatus, room: int) -> core_v1.ContainerStatus:
    def fit(state: core_v1.ContainerState) -> core_v1.ContainerState:
        ended = state.terminated
        if ended is None or len(ended.message) <= room:
            return state
        return core_v1.ContainerState(terminated=msgspec.structs.replace(ended, message=ended.message[:room]))

    if fit(status.state) is status.state and fit(status.last_state) is status.last_state:
        return status
    changed: core_v1.ContainerStatus = msgspec.structs.replace(
        status, state=fit(status.state), last_state=fit(status.last_state)
    )
    return changed
