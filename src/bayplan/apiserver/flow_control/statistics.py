"""What the caches know of the objects of a resource: how many there are, and how large they are on average."""

from __future__ import annotations

from itertools import islice
from typing import Final

from bayplan.api.kinds import KindTable
from bayplan.apiserver.flow_control.estimation import ObjectStatistics
from bayplan.apiserver.flow_control.parameters import SIZES_KEPT_SECONDS
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.request_info import RequestInfo
from bayplan.support.clock import Clock

_SAMPLE: Final = 1000
"""Objects whose sizes are looked at."""


class CacheStatistics:
    """Statistics of the kinds of one server."""

    def __init__(self, objects: ObjectStore, kinds: KindTable, clock: Clock) -> None:
        self._objects = objects
        self._kinds = kinds
        self._clock = clock
        self._sizes: dict[str, tuple[float, int]] = {}
        """By resource, since kinds come and go: when an average was taken, and the average in bytes."""

    def of(self, info: RequestInfo) -> ObjectStatistics | None:
        """Statistics of the resource of a request; None if this server does not keep its objects."""
        kind = self._kinds.of_resource(info.group, info.version, info.resource)
        if kind is None or not kind.is_stored:
            return None
        cache = self._objects.cache(self._kinds.storage_kind(kind))
        if not cache.count:
            return ObjectStatistics(0, 0)
        now = self._clock.monotonic()
        at, average = self._sizes.get(kind.group_resource, (now, 0))
        if not average or now - at >= SIZES_KEPT_SECONDS:
            sizes = [len(entry.body) for entry in islice(cache.all(), _SAMPLE)]
            average = -(-sum(sizes) // len(sizes))
            self._sizes[kind.group_resource] = (now, average)
        return ObjectStatistics(cache.count, average)
