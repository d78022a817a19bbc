"""EarliestDeadline: pods that have to be done first go first, and pods that can no longer be done in time are kept out.

    bayplan.dev/deadline: 2026-01-02T18:00:00Z     when the pod has to be done
    bayplan.dev/deadline-after: 30m                the same, counted from its creation
    bayplan.dev/expected-run-time: 10m             how long it runs

Pods go by priority, then deadline; those without a deadline come last. A pod whose expected end is after its deadline would take what others need to
be done in time: it is refused, or scheduled behind all others, as the arguments say.

Source of the behaviour: Liu and Layland, Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment (1973), for the order.
"""

from __future__ import annotations

import math

from bayplan.api.pods.annotations import DEADLINE, DEADLINE_AFTER, EXPECTED_RUN_TIME
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import PreEnqueuePlugin, QueueSortPlugin
from bayplan.scheduler.framework.extra_arguments import EarliestDeadlineArgs
from bayplan.scheduler.framework.state import Handle, PodInfo
from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.scheduler.framework.waiting import go_duration
from bayplan.support.durations import go_seconds
from bayplan.support.timestamps import parse_rfc3339, rfc3339


class EarliestDeadline(QueueSortPlugin, PreEnqueuePlugin):
    """See the module. Without a clock, as in the library, all pods count as in time."""

    name = "EarliestDeadline"
    tells = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, EarliestDeadlineArgs) else EarliestDeadlineArgs()

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[float, ...]:
        try:
            deadline = _deadline(pod)
            late = self.args.hopeless == "Last" and self._seconds_late(pod, deadline) > 0
        except ValueError:
            deadline, late = None, False
        return (-pod.priority, float(late), math.inf if deadline is None else deadline, queued_at)

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        try:
            deadline = _deadline(pod)
            late = self._seconds_late(pod, deadline)
        except ValueError as error:
            return Reject(Status.UNRESOLVABLE, (str(error),))
        if late <= 0 or deadline is None or self.args.hopeless == "Last":
            return None
        text = f"the deadline {rfc3339(deadline)} can no longer be met: {go_duration(math.ceil(late))} are missing"
        return Reject(Status.UNRESOLVABLE, (text,))

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("UnscheduledPod", Action.UPDATE, lambda pod, old, new: False),)  # nothing that happens helps

    def _seconds_late(self, pod: PodInfo, deadline: float | None) -> float:
        """By how much the pod would be done after its deadline if it started now. Raises ValueError."""
        run_time = _duration(pod, EXPECTED_RUN_TIME)
        meter = self.handle.meter
        if deadline is None or meter is None:
            return 0.0
        takes = self.args.default_run_time if run_time is None else run_time
        return meter.wall_time() + takes + self.args.margin - deadline


def _deadline(pod: PodInfo) -> float | None:
    """Unix time by which a pod has to be done; None if it does not say. Raises ValueError."""
    metadata = pod.pod.metadata
    text = metadata.annotations.get(DEADLINE)
    if text is not None:
        try:
            return parse_rfc3339(text)
        except ValueError:
            raise ValueError(f"annotation {DEADLINE}: {text!r} is no RFC 3339 time") from None
    after = _duration(pod, DEADLINE_AFTER)
    if after is None or not metadata.creation_timestamp:
        return None
    return parse_rfc3339(metadata.creation_timestamp) + after


def _duration(pod: PodInfo, name: str) -> float | None:
    """Seconds that an annotation states; None if there is none. Raises ValueError."""
    text = pod.pod.metadata.annotations.get(name)
    if text is None:
        return None
    try:
        return go_seconds(text)
    except ValueError:
        raise ValueError(f"annotation {name}: {text!r} is no duration such as 1h30m") from None
