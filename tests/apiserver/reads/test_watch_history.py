"""What the watch cache keeps of the past, and in which form."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import pytest

from bayplan.apiserver.reads import history
from bayplan.apiserver.reads.history import LINES_KEPT, History, HistoryRoom
from bayplan.apiserver.reads.watching import Entry, Event


def entry(number: int, **changed: Any) -> Entry:
    """A revision of a pod."""
    fields = {"spec.nodeName": f"node-{number}", "status.phase": "Läuft"}
    body = b'"metadata":{"name":"pod-%d"}}' % number
    return Entry("default", f"pod-{number}", number, 1, body, {"app": str(number)}, fields, f"uid-{number}", **changed)


def changes(count: int) -> list[Event]:
    """One object that is made, changed again and again, and deleted."""
    entries = [entry(number) for number in range(1, count)]
    made = [Event(now, before, now.revision) for before, now in zip([None, *entries], entries, strict=False)]
    return [*made, Event(None, entries[-1], count)]


def contents(events: Iterable[Event]) -> list[Any]:
    """All that events say."""
    own = [name for name in Entry.__slots__ if name != "decoded"]
    return [
        (
            event.revision,
            [None if one is None else [getattr(one, name) for name in own] for one in (event.entry, event.previous)],
        )
        for event in events
    ]


def filled(events: Iterable[Event]) -> History:
    past = History(lambda _: False)
    for event in events:
        past.append(event)
    return past


def test_packed_events_say_what_they_said_before() -> None:
    events = changes(3 * LINES_KEPT)
    past = filled(events)
    for _ in range(2):
        assert contents(past.after(0)) == contents(events)
        assert contents(past.after(2)) == contents(events[2:])
        assert past.after(3 * LINES_KEPT) == []
        past.forget(0)


def test_only_the_newest_events_are_kept_as_they_were_made() -> None:
    events = changes(3 * LINES_KEPT)
    past = filled(events)
    found = past.after(0)
    assert [one is other for one, other in zip(found, events, strict=True)].index(True) == 2 * LINES_KEPT
    past.forget(0)
    assert not any(one is other for one, other in zip(past.after(0), events, strict=True))


def test_the_events_around_an_entry_share_its_bytes() -> None:
    past = filled(changes(10))
    past.forget(0)
    (block,) = past._blocks
    (part,) = block._parts
    assert [part.count(b'"name":"pod-%d"' % number) for number in range(1, 10)] == [1] * 9


def test_few_events_at_a_time_are_packed_together() -> None:
    events = changes(300)
    past = History(lambda _: False)
    for event in events:
        past.append(event)
        past.forget(0)
    assert len(past._blocks) == 3
    assert contents(past.after(0)) == contents(events)


def test_entries_that_know_more_stay_as_they_are() -> None:
    class Other(Entry):
        """As those of kinds whose objects are kept in several versions."""

    other = Other("default", "pod-1", 1, 1, b"{}", {}, {}, "uid-1")
    past = filled([Event(other, None, 1)])
    past.forget(0)
    assert past.after(0)[0].entry is other


def test_entries_whose_objects_are_shared_are_packed_when_that_ends() -> None:
    events = changes(10)
    shared = events[3].entry
    assert shared is not None
    shared.decoded = object()
    past = filled(events)
    past.forget(0)
    assert past.after(0)[3].entry is shared
    assert past.after(0)[4].previous is shared
    shared.decoded = None
    past.forget(0)
    assert past.after(0)[3].entry is not shared
    assert contents(past.after(0)) == contents(events)


def test_what_is_there_now_is_not_kept_twice() -> None:
    events = changes(10)
    current = events[8].entry
    past = History(lambda one: one is current)
    for event in events[:9]:
        past.append(event)
    past.forget(0)
    assert past.after(0)[8].entry is current
    assert past.after(0)[8].previous is not events[8].previous
    current = None
    past.forget(0)
    assert past.after(0)[8].entry is not events[8].entry
    assert contents(past.after(0)) == contents(events[:9])


def test_what_goes_is_told_by_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY_LIMIT", 6)
    monkeypatch.setattr(history, "HISTORY_KEPT", 2)
    past = History(lambda _: False)
    assert [past.append(event) for event in changes(8)] == [None] * 6 + [1, 2]
    assert past.forget(2) is None
    assert past.forget(4) == 4
    assert [event.revision for event in past.after(0)] == [5, 6, 7, 8]
    assert past.forget(8) == 6
    assert len(past) == 2


def sized(number: int, size: int) -> Event:
    """A new object of so many bytes."""
    return Event(Entry("default", f"pod-{number}", number, number, b"x" * size, {}, {}, f"uid-{number}"), None, number)


def test_of_old_events_those_stay_whose_objects_are_small() -> None:
    past = History(lambda _: False)
    for number in range(1, 201):
        past.append(sized(number, 100))
    assert past.forget(200) == 100, "a hundred of them"
    for number in range(201, 211):
        past.append(sized(number, 300_000))
    past.forget(205)
    assert [event.revision for event in past.after(0)] == [206, 207, 208, 209, 210], "young ones in any case"
    assert past.forget(210) == 207
    assert past.size <= 1 << 20


def test_large_objects_are_kept_for_fewer_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY_BYTES", 1000)
    past = History(lambda _: False)
    assert [past.append(sized(number, 300)) for number in range(1, 6)] == [None, None, None, 1, 2]
    past.forget(0)
    assert past.append(sized(6, 900)) == 5, "as many go as have to"
    assert past.append(sized(7, 2000)) == 6, "and the last one stays, however large it is"
    assert [event.revision for event in past.after(0)] == [7]
    assert [past.append(sized(number, 1)) for number in range(8, 11)] == [7, None, None]
    assert contents(past.after(7)) == contents([sized(number, 1) for number in range(8, 11)])


def test_kinds_that_grow_forget_when_all_together_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "ALL_HISTORY_BYTES", 1000)
    monkeypatch.setattr(history, "_SMALL", 250)
    monkeypatch.setattr(history, "_BLOCK", 1)  # it is added up for each event
    room, one, other, small = HistoryRoom(), *(History(lambda _: False) for _ in range(3))
    for each in (one, other, small):
        room.add(each)
    for number in range(1, 6):
        assert (
            one.append(sized(number, 100))
            is other.append(sized(number, 100))
            is small.append(sized(number, 10))
            is None
        )
    assert one.append(sized(6, 100)) == 2, "what the event takes goes, and as much again"
    assert small.append(sized(6, 10)) is None
    assert (len(one), len(other), len(small)) == (4, 5, 6)
    del one, each
    gc.collect()
    assert other.append(sized(6, 100)) is None, "who has gone takes no room"


def test_large_events_are_not_packed_into_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block goes as a whole."""
    monkeypatch.setattr(history, "_BLOCK_BYTES", 1000)
    events = [sized(number, 400 if number < 6 else 4) for number in range(1, 2 * LINES_KEPT)]
    past = filled(events)
    past.forget(0)
    blocks = list(past._blocks)
    assert list(map(len, blocks))[:2] == [3, 2 + 50]
    assert contents(past.after(0)) == contents(events)
