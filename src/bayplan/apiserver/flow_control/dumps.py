"""What `/debug/api_priority_and_fairness/` shows: tables of levels, queues and requests, as kube-apiserver lays them out.

Cells end with a comma and are as wide as the widest of their column, at least eight characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from bayplan.apiserver.flow_control.gate import Admission, Gate
from bayplan.apiserver.flow_control.levels import Level
from bayplan.apiserver.flow_control.work import work_text
from bayplan.apiserver.requests import TEXT, Response
from bayplan.support.durations import go_duration
from bayplan.support.timestamps import rfc3339_micro

ROOT: Final = "/debug/api_priority_and_fairness/"
_LEAST_WIDTH: Final = 8
_NEVER: Final = "0001-01-01T00:00:00Z"
_LEVELS: Final = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)
_QUEUES: Final = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR"),
    *("InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
_REQUESTS: Final = (
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime"),
    *("InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"),
)
_DETAILS: Final = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
"""Headers; the misspelt one is what clients find."""


def dump(gate: Gate, path: str, *, details: bool) -> Response | None:
    """The page of a path; None if there is none. details: whether a page of requests says what they ask for."""
    make = _PAGES.get(path.removeprefix(ROOT)) if path.startswith(ROOT) else None
    if make is None:
        return None
    return Response(200, make(gate, details=details).encode(), TEXT, is_final=True)


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = [[*(f"{cell}," for cell in row[:-1]), row[-1]] for row in rows]
    widths = [max(_LEAST_WIDTH, max(map(len, column)) + 1) for column in list(zip(*lines, strict=True))[:-1]]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)) + "\n" for line in lines
    )


def _levels_by_name(gate: Gate) -> list[Level]:
    levels = gate.configuration.levels
    return [levels[name] for name in sorted(levels)]


def _level_page(gate: Gate, *, details: bool) -> str:
    rows: list[Sequence[str]] = [_LEVELS]
    for level in _levels_by_name(gate):
        found, counts = level.queue_set, level.counts.values()
        rejected = sum(sum(one.rejected.values()) for one in counts)
        numbers = (
            *(found.waiting, found.executing, sum(one.dispatched for one in counts), rejected),
            *(found.timed_out, found.cancelled),
        )
        active = sum(bool(queue.waiting) for queue in found.queues)
        flags = (_bool(found.is_idle), _bool(level.is_quiescing))
        rows.append((level.name, str(active), *flags, *map(str, numbers)))
    return _table(rows)


def _queue_page(gate: Gate, *, details: bool) -> str:
    rows: list[Sequence[str]] = [_QUEUES]
    for level in _levels_by_name(gate):
        for queue in level.queue_set.queues:
            works = [ticket.work for ticket in queue.waiting]
            rows.append(
                (
                    *(level.name, str(queue.index), str(len(works)), str(len(queue.executing)), str(queue.seats)),
                    *(work_text(queue.next_dispatch), str(sum(work.initial_seats for work in works))),
                    *(str(sum(work.seats for work in works)), work_text(queue.waiting_work)),
                )
            )
    return _table(rows)


def _request_page(gate: Gate, *, details: bool) -> str:
    rows: list[Sequence[str]] = [(*_REQUESTS, *_DETAILS) if details else _REQUESTS]
    for level in _levels_by_name(gate):
        for queue in level.queue_set.queues:
            for index, ticket in enumerate(queue.waiting):
                rows.append(_request_row(gate, level, queue.index, index, ticket, details=details))
            rows += [_request_row(gate, level, queue.index, -1, one, details=details) for one in queue.executing]
        without = level.queue_set.without_queue
        rows += [_request_row(gate, level, -1, -1, ticket, details=details) for ticket in without]
    return _table(rows)


def _request_row(
    gate: Gate, level: Level, queue: int, index: int, ticket: Admission, *, details: bool
) -> Sequence[str]:
    found, work, request = ticket.flow, ticket.work, ticket.details
    started = _NEVER if ticket.is_waiting else _time(gate, ticket.started)
    row = (
        *(level.name, found.schema_name, str(queue), str(index), found.distinguisher),
        *(_time(gate, ticket.arrival), str(work.initial_seats), str(work.final_seats)),
        *(go_duration(work.additional_seconds), started),
    )
    if not details:
        return row
    info = request.info
    version = f"{info.group}/{info.version}" if info.group else info.version
    asked = (info.verb, info.path, info.namespace, info.name or info.selected_name, version)
    return (*row, request.user.name, *asked, info.resource, info.subresource)


def _time(gate: Gate, moment: float) -> str:
    """A moment of the monotonic clock as Go's RFC3339Nano."""
    return rfc3339_micro(gate.wall_time(moment))[:-1].rstrip("0").rstrip(".") + "Z"


def _bool(value: bool) -> str:
    return "true" if value else "false"


_PAGES: Final[Mapping[str, Callable[..., str]]] = {
    "dump_priority_levels": _level_page,
    "dump_queues": _queue_page,
    "dump_requests": _request_page,
}
