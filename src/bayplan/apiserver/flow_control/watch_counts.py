"""How many watches get the event of a write: those of all objects of the resource, of its namespace, and of the object itself.

Selectors are not looked at, but for the one that has an index: watches of the pods of one node do not count.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/watch_tracker.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from bayplan.api.selectors.fields import parse_fields
from bayplan.api.selectors.labels import SelectorError
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


class _ResourceCounts:
    """The watches of one resource."""

    __slots__ = ("by_namespace", "by_object", "of_all")

    def __init__(self) -> None:
        self.of_all = 0
        self.by_namespace: dict[str, int] = {}
        """Watches of all objects of a namespace."""
        self.by_object: dict[tuple[str, str], int] = {}
        """Watches of one object, by its namespace and name."""

    def add(self, watched: Watched, change: int) -> None:
        """Count one watch more or less. Numbers that become 0 are forgotten."""
        namespace, name = watched.namespace, watched.name
        if name:
            _add(self.by_object, (namespace, name), change)
        elif namespace:
            _add(self.by_namespace, namespace, change)
        else:
            self.of_all += change


class WatchCounts:
    """Counts the watches that are open."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _ResourceCounts] = {}
        """By group and resource."""

    def opened(self, info: RequestInfo, query: Mapping[str, str]) -> Watched | None:
        """A watch begins. Returns what `closed` is to be given at its end; None if it does not count."""
        index = _INDEXED.get(info.resource)
        if index is not None and _selected(query.get("fieldSelector", ""), index):
            return None
        watched = Watched(info.group, info.resource, info.namespace, info.name or info.selected_name)
        self._counts.setdefault((watched.group, watched.resource), _ResourceCounts()).add(watched, 1)
        return watched

    def closed(self, watched: Watched) -> None:
        """A watch has ended."""
        resource = watched.group, watched.resource
        counts = self._counts[resource]
        counts.add(watched, -1)
        if not (counts.of_all or counts.by_namespace or counts.by_object):
            del self._counts[resource]

    def interested_in(self, info: RequestInfo) -> int:
        """How many watches may get an event of a request."""
        counts = self._counts.get((info.group, info.resource))
        if counts is None or info.verb in _READING:
            return 0
        count, namespace = counts.of_all, info.namespace
        if namespace and counts.by_namespace:
            count += counts.by_namespace.get(namespace, 0)
        if counts.by_object and info.name:
            count += counts.by_object.get((namespace, info.name), 0)
        return count


K = TypeVar("K")


def _add(counts: dict[K, int], key: K, change: int) -> None:
    number = counts.get(key, 0) + change
    if number:
        counts[key] = number
    else:
        del counts[key]


def _selected(selector: str, field: str) -> str:
    """The value of a field that a selector asks for; "" if it takes several."""
    if field not in selector:
        return ""
    try:
        return parse_fields(selector).exact_match(field) or ""
    except SelectorError:
        return ""
