"""SchedulingGates: a pod with `spec.schedulingGates` waits until the last gate is gone."""

from __future__ import annotations

from bayplan.scheduler.framework.events import Action, EventHint, is_itself
from bayplan.scheduler.framework.extension_points import PreEnqueuePlugin
from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape


class SchedulingGates(PreEnqueuePlugin):
    """Keeps gated pods out of the queue."""

    name = "SchedulingGates"

    def concerns(self, pod: PodShape) -> bool:
        return bool(pod.spec.scheduling_gates)

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Reject(Status.UNRESOLVABLE, (f"waiting for scheduling gates: [{names}]",))

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Pod", Action.POD_GATES, is_itself),)
