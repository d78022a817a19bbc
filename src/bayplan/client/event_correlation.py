"""Which events are worth writing: many alike about one object are combined, and who has much to tell about one object has to be brief.

The behaviour is that of client-go's event correlator (`tools/record/events_cache.go`), which all of Kubernetes' components but the scheduler use, except
that events which are not told are not counted either.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bayplan.api.types import core_v1

BURST: Final = 25
"""Events about one object that may come at once."""
REFILL: Final = 300.0
"""Seconds after which there may be another."""
ALIKE: Final = 10
"""So many events that differ in their message only are combined."""
FORGOTTEN: Final = 600.0
"""Seconds without such an event after which counting begins anew."""
COMBINED: Final = "(combined from similar events): "
_REMEMBERED: Final = 4096

Key = tuple[str, ...]
T = TypeVar("T")


@dataclass(slots=True)
class _Alike:
    last: float
    messages: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    last: float


class EventCorrelator:
    """Remembers what one component told. Times are Unix seconds."""

    def __init__(self) -> None:
        self._alike: OrderedDict[Key, _Alike] = OrderedDict()
        self._buckets: OrderedDict[Key, _Bucket] = OrderedDict()

    def correlate(
        self, about: core_v1.ObjectReference, event_type: str, reason: str, message: str, now: float
    ) -> Key | None:
        """The key under which an event is written or counted, None if it is not told at all. Its last part is COMBINED for a combined one."""
        obj = (about.kind, about.namespace, about.name, about.uid, about.api_version)
        group = (*obj, event_type, reason)
        key = (*group, about.field_path, COMBINED if self._is_one_of_many(group, message, now) else message)
        return key if self._may_speak(obj, now) else None

    def _is_one_of_many(self, group: Key, message: str, now: float) -> bool:
        known = self._alike.get(group)
        if known is None or now - known.last > FORGOTTEN:
            known = _Alike(now)
        known.last = now
        known.messages[message] = None
        _remember(self._alike, group, known)
        if len(known.messages) < ALIKE:
            return False
        known.messages.pop(next(iter(known.messages)))
        return True

    def _may_speak(self, obj: Key, now: float) -> bool:
        bucket = self._buckets.get(obj)
        if bucket is None:
            bucket = _Bucket(float(BURST), now)
        bucket.tokens = min(float(BURST), bucket.tokens + (now - bucket.last) / REFILL)
        bucket.last = now
        _remember(self._buckets, obj, bucket)
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True


def _remember(known: OrderedDict[Key, T], key: Key, value: T) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
