"""How many seats a request needs: lists by the bytes that they hold in memory, writes by the watches that get their events.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/request`. Object sizes are those of JSON here, not of protobuf: a list is estimated somewhat wider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from bayplan.api.errors import ApiError
from bayplan.apiserver.flow_control.parameters import (
    BYTES_PER_SEAT,
    CACHED_LIST_BYTES,
    EVENT_SECONDS,
    MAXIMUM_LIST_SEATS,
    MAXIMUM_MUTATING_SEATS,
    MINIMUM_SEATS,
    UNKNOWN_OBJECT_BYTES,
    WATCHES_PER_SEAT,
)
from bayplan.apiserver.flow_control.work import ONE_SEAT, Work
from bayplan.apiserver.request_info import RequestInfo
from bayplan.apiserver.requests import int_parameter

MUTATING = frozenset(("create", "update", "patch", "delete"))
"""Verbs whose requests write one object."""


class ObjectStatistics(NamedTuple):
    """What is known of the objects of a resource."""

    number: int
    average_bytes: int
    """0 if no size is known."""


class Estimator:
    """Estimates work. Estimates that are alike are the same object."""

    def __init__(
        self,
        statistics: Callable[[RequestInfo], ObjectStatistics | None],
        interested_watches: Callable[[RequestInfo], int],
    ) -> None:
        """statistics: of the objects of the resource of a request, None if it is not this server's; interested_watches: those that get an event of a request."""
        self._statistics = statistics
        self._interested_watches = interested_watches
        self._known: dict[tuple[int, int], Work] = {}
        """By seats and watches."""

    def read(self, info: RequestInfo, query: Mapping[str, str], most_seats: int) -> Work:
        """The work of a list, or of the beginning of a watch. most_seats: what one request of its priority level may occupy; 0 if the level does not say."""
        seats = self._list_seats(info, query, most_seats)
        if seats == ONE_SEAT.initial_seats:
            return ONE_SEAT
        key = (seats, 0)
        return self._known.get(key) or self._remember(key, Work(seats))

    def write(self, watches: int, most_seats: int) -> Work:
        """The work of a write whose event goes to so many watches. most_seats: see `read`."""
        if watches < WATCHES_PER_SEAT:
            return ONE_SEAT
        most = min(most_seats or MAXIMUM_MUTATING_SEATS, MAXIMUM_MUTATING_SEATS)
        key = (most, watches)
        work = self._known.get(key)
        if work is None:
            seats = -(-watches // WATCHES_PER_SEAT)
            shown = min(seats, most)
            work = self._remember(key, Work(1, shown, seats * EVENT_SECONDS / shown))
        return work

    def watches(self, info: RequestInfo) -> int:
        """How many watches get an event of a write. Tokens of service accounts are made without one."""
        if info.subresource == "token" and info.resource == "serviceaccounts":
            return 0
        return self._interested_watches(info)

    def _remember(self, key: tuple[int, int], work: Work) -> Work:
        if len(self._known) >= 1024:
            self._known.clear()
        self._known[key] = work
        return work

    def _list_seats(self, info: RequestInfo, query: Mapping[str, str], most_seats: int) -> int:
        most = min(most_seats or MAXIMUM_LIST_SEATS, MAXIMUM_LIST_SEATS)
        try:
            limit = int_parameter(query, "limit") or 0
        except ApiError:
            return most  # it will be refused for this
        revision = query.get("resourceVersion", "")
        is_watch = info.verb == "watch"
        if is_watch and revision not in ("", "0") and query.get("sendInitialEvents", "false").lower() in ("false", "0"):
            return MINIMUM_SEATS
        found = self._statistics(info)
        if found is None:
            return MINIMUM_SEATS
        is_cached = is_watch or is_served_from_cache(query, limit)
        is_single = bool(info.name or info.selected_name)
        selects = bool(query.get("labelSelector") or query.get("fieldSelector"))
        size = _bytes_at_once(found, limit, is_cached=is_cached, is_single=is_single, selects=selects)
        return min(max(-(-size // BYTES_PER_SEAT), MINIMUM_SEATS), most)


def is_served_from_cache(query: Mapping[str, str], limit: int) -> bool:
    """Whether kube-apiserver answers a list from its cache, not from etcd."""
    match, revision = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    if match:
        return match == "NotOlderThan"
    if query.get("continue"):
        return False
    return not (limit > 0 and revision not in ("", "0"))


def _bytes_at_once(found: ObjectStatistics, limit: int, *, is_cached: bool, is_single: bool, selects: bool) -> int:
    average = found.average_bytes or UNKNOWN_OBJECT_BYTES
    page = limit if 0 < limit < found.number else found.number
    if is_single:
        page = 1
    elif selects and not is_cached:
        page = max(page, found.number // 2)
    size = page * average
    return min(size, CACHED_LIST_BYTES) if is_cached else size
