"""TimeSlots: pods begin only in a slot of the week that they name, such as at night, and (if they say how long they run) only if they are done before it ends.

    bayplan.dev/time-slot: night                label of a pod: a slot of the arguments
    bayplan.dev/expected-run-time: 2h           annotation of a pod: how long it runs

A pod outside its slot does not enter the queue; it is looked at again when the slot begins.
"""

from __future__ import annotations

from bayplan.api.pods.annotations import EXPECTED_RUN_TIME
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import PreEnqueuePlugin
from bayplan.scheduler.framework.extra_arguments import TimeSlot, TimeSlotsArgs
from bayplan.scheduler.framework.state import Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.support.durations import go_seconds
from bayplan.support.timestamps import rfc3339

SLOT = "bayplan.dev/time-slot"
_DAY, _WEEK = 86400, 7 * 86400
_MONDAY = 4 * _DAY
"""Unix time of the first Monday, 00:00 UTC."""


def opening(slot: TimeSlot, now: float, run_time: float = 0.0) -> float | None:
    """When a pod that runs for so many seconds may begin, not before `now`: Unix seconds. None if it is too long for the slot."""
    length = (slot.end - slot.start) % (_DAY // 60) * 60 or _DAY
    if run_time > length or not slot.days:
        return None
    monday = _MONDAY + (now - _MONDAY) // _WEEK * _WEEK - slot.utc_offset * 60
    begins = (monday + week * _WEEK + day * _DAY + slot.start * 60 for week in (-1, 0, 1, 2) for day in slot.days)
    return min(max(begin, now) for begin in begins if begin + length - run_time >= now)


class TimeSlots(PreEnqueuePlugin):
    """See the module. Without a clock, as in the library, all slots count as open."""

    name = "TimeSlots"
    tells = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, TimeSlotsArgs) else TimeSlotsArgs()
        self._slots = {slot.name: slot for slot in self.args.slots}

    def concerns(self, pod: PodShape) -> bool:
        return SLOT in pod.labels

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        name = pod.shape.labels.get(SLOT)
        if name is None:
            return None
        slot, meter = self._slots.get(name), self.handle.meter
        if slot is None:
            return Reject(Status.UNRESOLVABLE, (f'there is no time slot "{name}"; known are {", ".join(self._slots)}',))
        try:
            run_time = _run_time(pod)
        except ValueError as error:
            return Reject(Status.UNRESOLVABLE, (str(error),))
        now = meter.wall_time() if meter is not None else None
        begins = opening(slot, 0.0 if now is None else now, run_time)
        if begins is None:
            return Reject(Status.UNRESOLVABLE, (f'time slot "{name}" is too short for {run_time:g} s',))
        if now is None or begins <= now:
            return None
        return Reject(Status.UNRESOLVABLE, (f'waiting for time slot "{name}", until {rfc3339(begins)}',))

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("UnscheduledPod", Action.UPDATE, lambda pod, old, new: False),)  # nothing that happens helps

    def asked_again(self, pod: PodInfo) -> float | None:
        slot, meter = self._slots.get(pod.shape.labels.get(SLOT, "")), self.handle.meter
        if slot is None or meter is None:
            return None
        try:
            begins = opening(slot, meter.wall_time(), _run_time(pod))
        except ValueError:
            return None
        return None if begins is None else begins - meter.wall_time()


def _run_time(pod: PodInfo) -> float:
    """Seconds that a pod says that it runs; 0 if it does not. Raises ValueError."""
    text = pod.pod.metadata.annotations.get(EXPECTED_RUN_TIME)
    try:
        return go_seconds(text) if text is not None else 0.0
    except ValueError:
        raise ValueError(f"annotation {EXPECTED_RUN_TIME}: {text!r} is no duration such as 1h30m") from None
