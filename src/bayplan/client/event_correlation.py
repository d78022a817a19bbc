"""Which events are worth writing: many alike about one object are combined, and who has much to tell about one object has to be brief.

The behaviour is that of client-go's event correlator (`tools/record/events_cache.go`), which all of Kubernetes' components but the scheduler use, except
that events which are not told are not counted either.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from bayplan.api.types import core_v1
from bayplan.client.digest_table import DigestTable, Key, digest_of

BURST: Final = 25
"""Events about one object that may come at once."""
REFILL: Final = 300.0
"""Seconds after which there may be another."""
ALIKE: Final = 10
"""So many events that differ in their message only are combined."""
FORGOTTEN: Final = 600.0
"""Seconds without such an event after which counting begins anew."""
COMBINED: Final = "(combined from similar events): "
_TALKATIVE: Final = 512
"""Groups of alike events of which more than one message is known."""


class EventCorrelator:
    """Remembers what one component told. Times are Unix seconds."""

    def __init__(self) -> None:
        self._groups = DigestTable("Id")
        """By what alike events have in common: the checksum of the first message, when one came last."""
        self._messages: dict[bytes, dict[int, None]] = {}
        """Of the groups with several messages, the checksums of those that came, the oldest first."""
        self._buckets = DigestTable("dd")
        """By object: tokens, when they were counted."""

    def correlate(
        self, about: core_v1.ObjectReference, event_type: str, reason: str, message: str, now: float
    ) -> Key | None:
        """The key under which an event is written or counted, None if it is not told at all. Its last part is COMBINED for a combined one."""
        obj = (about.kind, about.namespace, about.name, about.uid, about.api_version)
        group = (*obj, event_type, reason)
        is_one_of_many = self._is_one_of_many(digest_of(*group), crc32(message.encode(errors="surrogatepass")), now)
        key = (*group, about.field_path, COMBINED if is_one_of_many else message)
        return key if self._may_speak(digest_of(*obj), now) else None

    def _is_one_of_many(self, group: bytes, message: int, now: float) -> bool:
        known = self._groups.take(group)
        if known is None or now - known[1] > FORGOTTEN:
            self._messages.pop(group, None)
            self._groups.write(group, message, now)
            return False
        first, _ = known
        self._groups.write(group, first, now)
        messages = self._messages.pop(group, None) or {first: None}
        messages[message] = None
        if len(messages) > 1:
            self._messages[group] = messages
            if len(self._messages) > _TALKATIVE:
                del self._messages[next(iter(self._messages))]
        if len(messages) < ALIKE:
            return False
        del messages[next(iter(messages))]
        return True

    def _may_speak(self, obj: bytes, now: float) -> bool:
        left, last = self._buckets.take(obj) or (float(BURST), now)
        tokens: float = min(float(BURST), left + (now - last) / REFILL)
        may = tokens >= 1.0
        self._buckets.write(obj, tokens - may, now)
        return may
