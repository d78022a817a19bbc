"""The past of one kind: its latest changes, in order, so that watches can resume without a new list.

The newest changes stay as they were made, with the lines that watchers share: most who resume start there. Older ones are packed, many into one block of bytes.
There are thousands of them, they live for minutes among what lives for milliseconds, and Python's allocator gives memory back in pieces of a mebibyte, as soon as
nothing lives in one: small objects of the past, and even one piece of bytes for each, would keep a process at the size of its busiest minute.

    made                                       packed                                    forgotten
    Event, Entry, dicts, strings, lines   ->   Block: revisions, and entries as bytes ->
    newest LINES_KEPT                          until the store has forgotten them, at most HISTORY_LIMIT and HISTORY_BYTES,
                                               and of all kinds together about ALL_HISTORY_BYTES
"""

from __future__ import annotations

import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from bayplan.apiserver.reads.watching import Entry, Event

HISTORY_LIMIT = 8192
"""Most events kept per kind, so that watches can resume without a new list."""
HISTORY_BYTES = 32 << 20
"""Most bytes of objects in them: kinds whose objects are large are kept for fewer events, so that writes of a megabyte do not fill memory."""
ALL_HISTORY_BYTES = 128 << 20
"""About the most bytes of objects in the events of all kinds together: who writes much has to forget for it."""
_SMALL: Final = 1 << 20
"""Bytes of one kind that stay, however full it is, or old they are."""
LINES_KEPT = 512
"""Newest events per kind that keep the lines that watchers were sent: later watchers seldom start further back."""
HISTORY_KEPT = 100
"""Events kept per kind however old they are, as far as their objects are not larger than `_SMALL`."""
_BLOCK: Final = 128
"""Events that are packed at once."""
_BLOCK_BYTES: Final = 1 << 20
"""Bytes of objects from which on fewer are: a block goes as a whole."""

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder().decode
_NOTHING: Final = -1
"""Stands for no entry."""
_FIELDS: Final = 4
"""Numbers per event of a block: its revision and size, and which entries of the block are its object now and before."""

IsCurrent = Callable[[Entry], bool]


class _Block:
    """Events in order, as they are kept."""

    __slots__ = ("_first", "_kept", "_numbers", "_parts")

    def __init__(self, events: Iterable[Event], is_current: IsCurrent) -> None:
        self._numbers = array("q")
        self._first = 0
        """How many of the events have been forgotten."""
        self._kept: dict[int, Entry] = {}
        """Entries that stay as they are, by their place: what is there now, or whose decoded object somebody may want."""
        self._parts: list[bytes] = []
        """The others: arguments of `Entry` by place."""
        places: dict[int, int] = {}
        for event in events:
            self._numbers.extend((event.revision, _size(event)))
            for entry in (event.entry, event.previous):
                place = _NOTHING if entry is None else places.setdefault(id(entry), len(places))
                self._numbers.append(place)
                if entry is not None:
                    self._kept[place] = entry
        self.pack(is_current)

    def __len__(self) -> int:
        return len(self._numbers) // _FIELDS - self._first

    @property
    def first_revision(self) -> int:
        """Of the oldest event."""
        return self._numbers[self._first * _FIELDS]

    @property
    def last_revision(self) -> int:
        """Of the newest event."""
        return self._numbers[-_FIELDS]

    def drop_first(self) -> int:
        """Forget the oldest event. Returns its size."""
        size = self._numbers[self._first * _FIELDS + 1]
        self._first += 1
        return size

    def pack(self, is_current: IsCurrent) -> None:
        """Pack the entries that need not stay as they are any more."""
        packed = {
            place: _arguments(entry)
            for place, entry in self._kept.items()
            if type(entry) is Entry and entry.decoded is None and not is_current(entry)
        }
        if packed:
            self._parts.append(_ENCODE(packed))
            self._kept = {place: entry for place, entry in self._kept.items() if place not in packed}

    def events(self) -> list[Event]:
        """The events that are not forgotten, as they were."""
        entries = dict(self._kept)
        for part in self._parts:
            entries.update((place, Entry(*arguments)) for place, arguments in _DECODE(part).items())
        numbers = iter(self._numbers[self._first * _FIELDS :])
        return [
            Event(entries.get(now), entries.get(before), revision)
            for revision, _, now, before in zip(numbers, numbers, numbers, numbers, strict=True)
        ]


class HistoryRoom:
    """What the histories of one server take together."""

    def __init__(self) -> None:
        self._histories: weakref.WeakSet[History] = weakref.WeakSet()
        self._asked = 0
        self._size = 0
        """When it was last added up."""

    def add(self, history: History) -> None:
        """One more history takes part, as long as it lives."""
        self._histories.add(history)
        history.room = self

    def is_full(self) -> bool:
        """Whether they take too much; added up at each 128th question, since there is one for each event."""
        if self._asked % _BLOCK == 0:
            self._size = sum(one.size for one in self._histories)
        self._asked += 1
        return self._size > ALL_HISTORY_BYTES


class History:
    """The latest events of one kind."""

    __slots__ = ("__weakref__", "_blocks", "_is_current", "_length", "_newest", "room", "size")

    def __init__(self, is_current: IsCurrent) -> None:
        """is_current: whether an entry is what is there now, which lives anyway and is not packed."""
        self.room: HistoryRoom | None = None
        """Shared with other kinds; None if it has no others."""
        self._blocks: deque[_Block] = deque()
        self._newest: deque[Event] = deque()
        """Those behind the blocks."""
        self._length = 0
        self.size = 0
        """Bytes of the objects in the events."""
        self._is_current = is_current

    def __len__(self) -> int:
        return self._length

    def append(self, event: Event) -> int | None:
        """Add the newest event. Returns the revision of the last one that had to go for it, if any had to."""
        dropped = self._drop_first() if self._length >= HISTORY_LIMIT else None
        newest = self._newest
        newest.append(event)
        self._length += 1
        size = _size(event)
        most = HISTORY_BYTES
        if self.size > _SMALL and self.room is not None and self.room.is_full():
            most = max(self.size - size, _SMALL)
        self.size += size
        while self.size > most and self._length > 1:
            dropped = self._drop_first()
        if len(newest) >= LINES_KEPT + _BLOCK:
            self._pack([newest.popleft() for _ in range(_BLOCK)])
        return dropped

    def after(self, revision: int) -> list[Event]:
        """Events with a higher revision, in order."""
        parts: list[list[Event]] = [[event for event in self._newest if event.revision > revision]]
        for block in reversed(self._blocks):
            if block.last_revision <= revision:
                break
            parts.append([event for event in block.events() if event.revision > revision])
        return [event for part in reversed(parts) for event in part]

    def forget(self, revision: int) -> int | None:
        """Drop events up to a revision, but not the latest, and pack the others. Returns the revision of the last one dropped, if there is one."""
        dropped = None
        while (
            self._length > 1
            and (self._length > HISTORY_KEPT or self.size > _SMALL)
            and self._first_revision() <= revision
        ):
            dropped = self._drop_first()
        for block in self._blocks:
            block.pack(self._is_current)
        if self._newest:
            last = self._blocks.pop().events() if self._blocks and len(self._blocks[-1]) < _BLOCK else []
            self._pack([*last, *self._newest])
            self._newest.clear()
        return dropped

    def _pack(self, events: list[Event]) -> None:
        for event in events:
            event.forget_lines()
        together: list[Event] = []
        size = 0
        for event in events:
            together.append(event)
            size += _size(event)
            if len(together) == _BLOCK or size >= _BLOCK_BYTES:
                self._blocks.append(_Block(together, self._is_current))
                together, size = [], 0
        if together:
            self._blocks.append(_Block(together, self._is_current))

    def _first_revision(self) -> int:
        return self._blocks[0].first_revision if self._blocks else self._newest[0].revision

    def _drop_first(self) -> int:
        """Drop the oldest event. Returns its revision."""
        revision = self._first_revision()
        if self._blocks:
            self.size -= self._blocks[0].drop_first()
            if not self._blocks[0]:
                self._blocks.popleft()
        else:
            self.size -= _size(self._newest.popleft())
        self._length -= 1
        return revision


def _size(event: Event) -> int:
    """Bytes of the object that an event is about."""
    entry = event.entry or event.previous
    return 0 if entry is None else len(entry.body)


def _arguments(entry: Entry) -> tuple[Any, ...]:
    """Those of `Entry`."""
    return (
        entry.namespace,
        entry.name,
        entry.revision,
        entry.create_revision,
        entry.body,
        entry.labels,
        entry.fields,
        entry.uid,
    )
