"""Watches: what enters, changes in and leaves the view of a watcher, and what happens to one that reads too slowly."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.reads import watching
from bayplan.apiserver.reads.cache import with_revision
from bayplan.apiserver.reads.watching import ADDED, DELETED, MODIFIED, Entry, Event, Watcher

KIND = DEFAULT_KINDS.of_kind("v1", "ConfigMap")
assert KIND is not None


def entry(name: str, revision: int, **labels: str) -> Entry:
    body = b'"metadata":{"name":"%b","resourceVersion":"%d"}}' % (name.encode(), revision)
    return Entry("default", name, revision, 1, body, labels, {}, "u")


def watcher(revision: int = 0) -> Watcher:
    """A watch on objects with the label a=b."""
    assert KIND is not None
    return Watcher(KIND, lambda one: one.labels.get("a") == "b", revision)


def queued(watch: Watcher) -> list[tuple[str, int]]:
    async def run() -> list[tuple[str, int]]:
        watch.close()
        return [(event_type, one.revision) for event_type, one, _ in await watch.next_batch()]

    return asyncio.run(run())


IN, OUT = {"a": "b"}, {"a": "c"}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(None, IN, [(ADDED, 5)], id="a new object that matches is added"),
        pytest.param(None, OUT, [], id="a new object that does not match is not told"),
        pytest.param(IN, IN, [(MODIFIED, 5)], id="a change within the view"),
        pytest.param(OUT, IN, [(ADDED, 5)], id="an object that begins to match is added"),
        pytest.param(IN, OUT, [(DELETED, 4)], id="an object that ceases to match is deleted, in its old state"),
        pytest.param(OUT, OUT, [], id="a change outside the view"),
        pytest.param(IN, None, [(DELETED, 4)], id="a deletion"),
        pytest.param(OUT, None, [], id="a deletion outside the view"),
    ],
)
def test_objects_enter_and_leave_the_view(
    before: dict[str, str] | None, now: dict[str, str] | None, expected: list[tuple[str, int]]
) -> None:
    watch = watcher()
    new = None if now is None else entry("x", 5, **now)
    old = None if before is None else entry("x", 4, **before)
    watch.offer(Event(new, old, 5))
    assert queued(watch) == expected


def test_events_up_to_the_start_are_not_delivered() -> None:
    watch = watcher(revision=5)
    for revision in (4, 5, 6):
        watch.offer(Event(entry("x", revision, a="b"), None, revision))
    assert queued(watch) == [(ADDED, 6)]


def test_a_watcher_that_reads_too_slowly_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "QUEUE_LIMIT", 3)
    watch = watcher()
    closed: list[Watcher] = []
    watch.on_close(closed.append)
    for revision in range(1, 6):
        watch.offer(Event(entry("x", revision, a="b"), None, revision))
    assert watch.overrun
    assert watch.closed
    assert closed == [watch]
    assert len(queued(watch)) == 3


def test_all_watchers_share_the_bytes_of_an_event() -> None:
    assert KIND is not None
    one = entry("x", 5, a="b")
    event = Event(one, None, 5)
    lines = [watcher().line(ADDED, one, event) for _ in range(2)]
    assert lines[0] is lines[1]
    expected = b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"5"}}}\n'
    assert lines[0] == expected


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (
            b'"metadata":{"name":"a","uid":"u-1"},"data":{}}',
            b'"metadata":{"name":"a","uid":"u-1","resourceVersion":"7"},"data":{}}',
        ),
        (b'"metadata":{"name":"a"}}', b'"metadata":{"resourceVersion":"7","name":"a"}}'),
        (b'"metadata":{}}', b'"metadata":{"resourceVersion":"7"}}'),
    ],
)
def test_the_revision_is_spliced_into_the_stored_bytes(stored: bytes, shown: bytes) -> None:
    assert with_revision(stored, 7) == shown


def test_waiting_for_events_ends_when_the_watch_is_closed() -> None:
    async def run() -> None:
        watch = watcher()
        waiting = asyncio.create_task(watch.next_batch())
        await asyncio.sleep(0)
        watch.close()
        watch.close()
        assert await waiting == []

    asyncio.run(run())
