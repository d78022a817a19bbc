"""Snapshots and frames, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from bayplan.support.clock import LoopClock
from bayplan.support.virtual_time import run
from bayplan.ui import feed as feed_module
from bayplan.ui.feed import Feed, Table, packed_column
from bayplan.ui.rows import Row

Story = Callable[[Feed, dict[str, Row]], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    async def whole() -> None:
        rows: dict[str, Row] = {}
        feed = Feed(LoopClock(0), 0.2)
        feed.add(Table("pods", ("name", "cpu"), rows.get, rows.keys))
        await story(feed, rows)

    run(whole())


def decoded(frame: bytes) -> Any:
    return msgspec.json.decode(frame)


def test_a_frame_has_the_present_state_of_what_changed_and_what_is_gone() -> None:
    async def story(feed: Feed, rows: dict[str, Row]) -> None:
        feed.followers = 1
        rows["a"], rows["b"] = ("a", 1), ("b", 2)
        for key in ("a", "b", "c"):
            feed.mark("pods", key)
        rows["a"] = ("a", 3)
        assert await feed.wait(1)
        frames = feed.after(0)
        assert frames is not None
        ((number, frame),) = frames
        assert number == 1
        assert decoded(frame) == {
            "frame": 1,
            "tables": {"pods": {"keys": ["a", "b"], "columns": {"name": ["a", "b"], "cpu": [3, 2]}, "gone": ["c"]}},
        }

    play(story)


def test_many_changes_make_one_frame_per_interval() -> None:
    async def story(feed: Feed, rows: dict[str, Row]) -> None:
        feed.followers = 1
        for turn in range(100):
            rows["a"] = ("a", turn)
            feed.mark("pods", "a")
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert 4 <= feed.number <= 6
        frames = feed.after(0)
        assert frames is not None
        assert decoded(frames[-1][1])["tables"]["pods"]["columns"]["cpu"] == [99]

    play(story)


def test_nothing_is_encoded_while_no_page_is_open() -> None:
    async def story(feed: Feed, rows: dict[str, Row]) -> None:
        rows["a"] = ("a", 1)
        feed.mark("pods", "a")
        await asyncio.sleep(1)
        assert feed.number == 1
        assert feed.after(0) is None  # whoever comes with an old number takes a snapshot

    play(story)


def test_what_follows_a_snapshot_is_kept_for_the_page_that_took_it() -> None:
    async def story(feed: Feed, rows: dict[str, Row]) -> None:
        rows["a"] = ("a", 1)
        number = decoded(await feed.snapshot())["frame"]
        rows["a"] = ("a", 2)
        feed.mark("pods", "a")
        await asyncio.sleep(1)
        frames = feed.after(number)
        assert frames is not None
        assert len(frames) == 1

    play(story)


def test_pages_that_ask_at_once_share_a_snapshot() -> None:
    async def story(feed: Feed, rows: dict[str, Row]) -> None:
        rows.update({f"pod-{number}": (f"pod-{number}", number) for number in range(5000)})
        one, other = await asyncio.gather(feed.snapshot(), feed.snapshot())
        assert one is other
        assert len(decoded(one)["tables"]["pods"]["keys"]) == 5000
        rows["more"] = ("more", 0)
        feed.mark("pods", "more")
        await asyncio.sleep(1)
        assert len(decoded(await feed.snapshot())["tables"]["pods"]["keys"]) == 5001

    play(story)


def test_a_page_that_is_far_behind_takes_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_FRAMES_KEPT", 3)

    async def story(feed: Feed, rows: dict[str, Row]) -> None:
        feed.followers = 1
        for number in range(5):
            rows["a"] = ("a", number)
            feed.mark("pods", "a")
            await asyncio.sleep(1)
        assert feed.number == 5
        assert feed.after(1) is None
        frames = feed.after(2)
        assert frames is not None
        assert [number for number, _ in frames] == [3, 4, 5]
        assert feed.after(5) == []
        assert feed.after(6) is None  # of a server that was there before

    play(story)


def test_status_is_sent_when_it_changes() -> None:
    async def story(feed: Feed, _: dict[str, Row]) -> None:
        feed.followers = 1
        feed.set_status(unreachable="gone")
        await asyncio.sleep(1)
        feed.set_status(unreachable="gone")
        await asyncio.sleep(1)
        assert feed.number == 1
        frames = feed.after(0)
        assert frames is not None
        assert decoded(frames[0][1])["status"] == {"unreachable": "gone"}

    play(story)


def test_waiting_ends_without_a_frame_when_nothing_happens() -> None:
    async def story(feed: Feed, _: dict[str, Row]) -> None:
        assert not await feed.wait(15)
        assert not await feed.wait(15)

    play(story)


def test_columns_with_few_values_are_places() -> None:
    assert packed_column(("x", "y") * 8) == {"of": ["x", "y"], "at": [0, 1] * 8}
    assert packed_column((1, 2) * 8) == (1, 2) * 8
    assert packed_column(tuple("abcdefgh")) == tuple("abcdefgh")
