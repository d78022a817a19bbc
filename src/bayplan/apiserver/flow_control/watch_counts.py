"""How many watches get the event of a write: those of all objects of the resource, of its namespace, and of the object itself.

Selectors are not looked at, but for the one that has an index: watches of the pods of one node do not count.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/watch_tracker.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bayplan.api.field_selectors import parse_fields
from bayplan.api.selectors import SelectorError
from bayplan.apiserver.request_info import RequestInfo

_READING = frozenset(("get", "list", "watch", "proxy"))
_INDEXED = {"pods": "spec.nodeName"}
"""Fields by whose value watches are found, so that the others are not asked."""


class Watched(NamedTuple):
    """What a watch is about; "" for all."""

    group: str
    resource: str
    namespace: str
    name: str


class WatchCounts:
    """Counts the watches that are open."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        """By group and resource, and by namespace and name of what is watched."""

    def opened(self, info: RequestInfo, query: Mapping[str, str]) -> Watched | None:
        """A watch begins. Returns what `closed` is to be given at its end; None if it does not count."""
        index = _INDEXED.get(info.resource)
        if index is not None and _selected(query.get("fieldSelector", ""), index):
            return None
        watched = Watched(info.group, info.resource, info.namespace, info.name or info.selected_name)
        counts = self._counts.setdefault((watched.group, watched.resource), {})
        place = watched.namespace, watched.name
        counts[place] = counts.get(place, 0) + 1
        return watched

    def closed(self, watched: Watched) -> None:
        """A watch has ended."""
        resource, place = (watched.group, watched.resource), (watched.namespace, watched.name)
        counts = self._counts[resource]
        counts[place] -= 1
        if not counts[place]:
            del counts[place]
        if not counts:
            del self._counts[resource]

    def interested_in(self, info: RequestInfo) -> int:
        """How many watches may get an event of a request."""
        if info.verb in _READING:
            return 0
        counts = self._counts.get((info.group, info.resource))
        if counts is None:
            return 0
        namespace, name = info.namespace, info.name
        count = counts.get(("", ""), 0)
        if namespace:
            count += counts.get((namespace, ""), 0)
        if name:
            count += counts.get((namespace, name), 0)
        return count


def _selected(selector: str, field: str) -> str:
    """The value of a field that a selector asks for; "" if it takes several."""
    if field not in selector:
        return ""
    try:
        return parse_fields(selector).exact_match(field) or ""
    except SelectorError:
        return ""
