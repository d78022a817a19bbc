"""What the scheduler tells the world about its decisions: events, conditions, nominations, and evictions of victims."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder, shortened
from bayplan.client.transport import SentRequest
from bayplan.scheduler.binding import Called
from bayplan.scheduler.configuration.settings import DEFAULT_SCHEDULER_NAME
from bayplan.scheduler.gangs.gang_cycle import GroupResult
from bayplan.scheduler.snapshot.group_trees import NewerPodGroup
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.support.clock import Clock
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup

logger = logging.getLogger(__name__)

GROUP_SCHEDULED: Final = "PodGroupScheduled"
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The same in 1.37."""
COMPOSITE_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
STATUS_PATCH: Final = "pod_status_patch"
"""The type of call, in metrics, that patches a pod's status."""


def _status_patch(pod: core_v1.Pod, patch: dict[str, Any]) -> SentRequest:
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/status"
    return SentRequest("PATCH", path, msgspec.json.encode(patch), "application/strategic-merge-patch+json")


def _stays(victim: core_v1.Pod, problem: ApiError | TransportError | None) -> bool:
    """Whether a victim is still there after what went wrong with its eviction."""
    if problem is None:
        return False
    code = problem.code if isinstance(problem, ApiError) else 0
    if code not in (404, 409):
        logger.warning("preempting pod %s/%s: %s", victim.metadata.namespace, victim.metadata.name, problem)
    return code != 404


def _condition_of(group: PodGroup, *, is_composite: bool) -> tuple[str, str, str]:
    """Version and resource of a group, and the type of its condition."""
    if is_composite:
        return "v1alpha3", "compositepodgroups", COMPOSITE_SCHEDULED
    if isinstance(group, NewerPodGroup):
        return "v1beta1", "podgroups", INITIALLY_SCHEDULED
    return "v1alpha2", "podgroups", GROUP_SCHEDULED


class Preemptor(NamedTuple):
    """For whom room is made: a `pod` or `podgroup` (`kind`)."""

    kind: str
    uid: str
    scheduler: str

    @classmethod
    def of_pod(cls, pod: core_v1.Pod) -> Preemptor:
        """A pod as such."""
        return cls("pod", pod.metadata.uid, pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME)


class Reporter:
    """Writes for all profiles of one scheduler."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorders: dict[str, EventRecorder],
        seen: Callable[[str], core_v1.Pod | None],
    ) -> None:
        """seen: a pod (`namespace/name`) as the API shows it. What is in the queue may be older, and would be told again
        what it was told before."""
        self._client = client
        self._seen = seen
        self._clock = clock
        self._recorders = recorders
        self.called: Called | None = None
        """Told of every patch of a pod's status; None if nobody wants to know."""

    def event(self, pod: core_v1.Pod, event_type: str, reason: str, message: str, action: str) -> None:
        """Record an event about a pod, in the name of its scheduler."""
        recorder = self._recorders[pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME]
        recorder.event(pod, event_type, reason, shortened(message), action=action)

    def misunderstood(self, obj: Any, problem: str) -> None:
        """A custom resource for pod groups does not say what its kind says."""
        recorder = next(iter(self._recorders.values()))
        recorder.event(obj, "Warning", "InvalidPodGroup", shortened(problem), action="Scheduling")

    def scheduled(self, pod: core_v1.Pod, node_name: str) -> None:
        """The pod was bound."""
        message = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node_name}"
        self.event(pod, "Normal", "Scheduled", message, "Binding")

    async def not_scheduled(self, pod: core_v1.Pod, reason: str, message: str, nominated: str | None) -> None:
        """The pod found no place. `nominated`: its node from now on, empty for none, None to leave it as it is."""
        self.event(pod, "Warning", "FailedScheduling", message, "Scheduling")
        known = self._seen(pod_key(pod))
        pod = known if known is not None and known.metadata.uid == pod.metadata.uid else pod
        condition = self._condition(pod, reason, message)
        status: dict[str, Any] = {"conditions": [condition]} if condition is not None else {}
        if nominated is not None and nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated or None
        if status:
            await self.patch_status(pod, {"metadata": {"uid": pod.metadata.uid}, "status": status})

    def _condition(self, pod: core_v1.Pod, reason: str, message: str) -> dict[str, Any] | None:
        """The pod's new `PodScheduled` condition; None if it has it already."""
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self._clock.now()),
            "observedGeneration": pod.metadata.generation,
        }
        known = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
        if known is not None and known.status == "False":
            if (known.reason, known.message) == (reason, message):
                return None
            condition["lastTransitionTime"] = known.last_transition_time
        return condition

    async def nominate(self, pod: core_v1.Pod, node_name: str) -> None:
        """Tell others where the pod is going to run, or (with an empty name) that this is open again."""
        if pod.status.nominated_node_name != node_name:
            await self.patch_status(pod, {"status": {"nominatedNodeName": node_name or None}})

    async def evict(self, victims: Sequence[core_v1.Pod], preemptor: Preemptor) -> list[core_v1.Pod]:
        """Make room: say in each victim's conditions why, then delete it. Returns those that the server would not let go."""
        now = rfc3339(self._clock.now())
        sequences = [self._eviction(victim, preemptor, now) for victim in victims]
        problems = await self._client.transport.send_all(sequences) if sequences else ()
        return [victim for victim, problem in zip(victims, problems, strict=True) if _stays(victim, problem)]

    def _eviction(self, victim: core_v1.Pod, preemptor: Preemptor, now: str) -> tuple[SentRequest, SentRequest]:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{preemptor.scheduler}: preempting to accommodate a higher priority {preemptor.kind}",
            "lastTransitionTime": now,
            "observedGeneration": victim.metadata.generation,
        }
        metadata = victim.metadata
        return (
            _status_patch(victim, {"status": {"conditions": [condition]}}),
            self._client.deletion(core_v1.Pod, metadata.name, metadata.namespace, uid=metadata.uid),
        )

    def preempted(self, victim: core_v1.Pod, preemptor: Preemptor, node_name: str) -> None:
        """The victim had to make room."""
        message = f"Preempted by {preemptor.kind} {preemptor.uid} on node {node_name}"
        self._recorders[preemptor.scheduler].event(victim, "Normal", "Preempted", message, action="Preempting")

    async def group(self, group: PodGroup, result: GroupResult) -> None:
        """Write the condition of a pod group, or composite group, that says whether it is scheduled; once true it stays true."""
        version, plural, kind = _condition_of(group, is_composite=result.is_composite)
        known = next((item for item in group.status.conditions if item.type == kind), None)
        status = "True" if result.scheduled else "False"
        if known is not None and (
            known.status == "True" != status
            or (known.status, known.reason, known.message) == (status, result.reason, result.message)
        ):
            return
        changed = known is None or known.status != status
        condition = meta_v1.Condition(
            type=kind,
            status=status,
            reason=result.reason,
            message=result.message,
            observed_generation=group.metadata.generation,
            last_transition_time=rfc3339(self._clock.now()) if changed or known is None else known.last_transition_time,
        )
        others = [item for item in group.status.conditions if item.type != kind]
        body = msgspec.json.encode({"status": {"conditions": [*others, condition]}})
        metadata = group.metadata
        path = f"/apis/scheduling.k8s.io/{version}/namespaces/{metadata.namespace}/{plural}/{metadata.name}/status"
        await self._patch(SentRequest("PATCH", path, body, "application/merge-patch+json"), f"pod group {result.key}")

    async def patch_status(self, pod: core_v1.Pod, patch: dict[str, Any]) -> None:
        """Patch a pod's status. That the pod is gone or another one by now is no error."""
        started = self._clock.monotonic()
        done = await self._patch(_status_patch(pod, patch), f"pod {pod.metadata.namespace}/{pod.metadata.name}")
        if self.called is not None:
            self.called(STATUS_PATCH, "success" if done else "error", self._clock.monotonic() - started)

    async def _patch(self, patch: SentRequest, what: str) -> bool:
        """Write a status; tells whether that could be done."""
        try:
            await self._client.transport.send((patch,))
        except ApiError as error:
            if error.code not in (404, 409):
                logger.warning("status of %s: %s", what, error)
            return False
        except TransportError as error:
            logger.warning("status of %s: %s", what, error)
            return False
        return True
