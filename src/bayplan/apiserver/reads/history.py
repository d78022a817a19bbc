"""The past of one kind: its latest changes, in order, so that watches can resume without a new list.

The newest changes stay as they were made, with the lines that watchers share: most who resume start there. Older ones are packed: one block of bytes per
object and revision instead of a score of small objects (names, labels, selectable fields). There are thousands of them, they live for minutes among what lives
for milliseconds, and Python's allocator gives memory back in pieces of a mebibyte, as soon as nothing lives in one: small objects of the past would
keep a process at the size of its busiest minute.

    made                                       packed                               forgotten
    Event, Entry, dicts, strings, lines   ->   two references to bytes         ->
    newest LINES_KEPT                          until the store has forgotten them, at most HISTORY_LIMIT
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from bayplan.apiserver.reads.watching import Entry, Event

HISTORY_LIMIT = 8192
"""Most events kept per kind, so that watches can resume without a new list."""
LINES_KEPT = 512
"""Newest events per kind that keep the lines that watchers were sent: later watchers seldom start further back."""
HISTORY_KEPT = 100
"""Events kept per kind however old they are."""

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder().decode


class _Packed(NamedTuple):
    """An event as it is kept. An entry stays as it is while somebody may want its decoded object."""

    revision: int
    entry: bytes | Entry | None
    previous: bytes | Entry | None


class History:
    """The latest events of one kind."""

    __slots__ = ("_events", "_is_current")

    def __init__(self, is_current: Callable[[Entry], bool]) -> None:
        """is_current: whether an entry is what is there now, which lives anyway and is not packed."""
        self._events: deque[Event | _Packed] = deque()
        self._is_current = is_current

    def __len__(self) -> int:
        return len(self._events)

    def append(self, event: Event) -> int | None:
        """Add the newest event. Returns the revision of the one that had to go for it, if any had to."""
        events = self._events
        dropped = events.popleft().revision if len(events) >= HISTORY_LIMIT else None
        events.append(event)
        if len(events) > LINES_KEPT:
            events[-LINES_KEPT - 1] = self._packed(events[-LINES_KEPT - 1])
        return dropped

    def after(self, revision: int) -> list[Event]:
        """Events with a higher revision, in order."""
        found: list[Event] = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            found.append(_unpacked(event))
        found.reverse()
        return found

    def forget(self, revision: int) -> int | None:
        """Drop events up to a revision, but not the latest, and pack the others. Returns the revision of the last one dropped, if there is one."""
        events, dropped = self._events, None
        while len(events) > HISTORY_KEPT and events[0].revision <= revision:
            dropped = events.popleft().revision
        self._events = deque(self._packed(event) for event in events)
        return dropped

    def _packed(self, event: Event | _Packed) -> _Packed:
        if isinstance(event, Event):
            event.forget_lines()
        elif not isinstance(event.entry, Entry) and not isinstance(event.previous, Entry):
            return event
        return _Packed(event.revision, self._packed_entry(event.entry), self._packed_entry(event.previous))

    def _packed_entry(self, entry: bytes | Entry | None) -> bytes | Entry | None:
        """One block of bytes per entry, which the event that made it and the one that ended it share."""
        if not isinstance(entry, Entry) or entry.decoded is not None or self._is_current(entry):
            return entry
        return _in_one_block(entry)


def _in_one_block(entry: Entry) -> bytes:
    if entry.packed is None:
        entry.packed = _ENCODE(  # the arguments of `Entry`
            (
                entry.namespace,
                entry.name,
                entry.revision,
                entry.create_revision,
                entry.body,
                entry.labels,
                entry.fields,
                entry.uid,
            )
        )
    return entry.packed


def _unpacked(event: Event | _Packed) -> Event:
    if isinstance(event, Event):
        return event
    return Event(_unpacked_entry(event.entry), _unpacked_entry(event.previous), event.revision)


def _unpacked_entry(entry: bytes | Entry | None) -> Entry | None:
    return Entry(*_DECODE(entry)) if isinstance(entry, bytes) else entry
