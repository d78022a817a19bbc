"""Clock, timestamps and randomness."""

from __future__ import annotations

import asyncio
import re
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.support.clock import LoopClock, SystemClock
from bayplan.support.randomness import SAFE_ALPHABET, Randomness, SeededRandomness, SystemRandomness
from bayplan.support.timestamps import parse_rfc3339, rfc3339, rfc3339_micro
from bayplan.testing.clock import ManualClock


def test_loop_clock_is_the_loops_time_after_the_epoch() -> None:
    async def run() -> None:
        clock = LoopClock(1000.0)
        before = asyncio.get_running_loop().time()
        assert 0 <= clock.now() - 1000.0 - before < 1
        assert 0 <= clock.monotonic() - before < 1
        fired = asyncio.Event()
        clock.call_later(0, fired.set)
        await clock.sleep(0)
        await fired.wait()

    asyncio.run(run())


def test_system_clock_agrees_with_the_system() -> None:
    async def run() -> None:
        clock = SystemClock()
        assert abs(clock.now() - datetime.now(UTC).timestamp()) < 1
        first = clock.monotonic()
        await clock.sleep(0)
        assert clock.monotonic() >= first
        fired = asyncio.Event()
        timer = clock.call_later(3600, fired.set)
        timer.cancel()
        clock.call_later(0, fired.set)
        await fired.wait()

    asyncio.run(run())


def test_manual_clock_runs_timers_in_order_and_at_their_time() -> None:
    clock = ManualClock(100.0)
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, clock.now()))
        if name == "a":
            clock.call_later(1, note, "chained")

    clock.call_later(5, note, "b")
    clock.call_later(2, note, "a")
    clock.call_later(4, note, "never").cancel()
    assert clock.timers == 2
    clock.advance(10)
    assert seen == [("a", 102.0), ("chained", 103.0), ("b", 105.0)]
    clock.set_wall_clock(50.0)
    assert (clock.now(), clock.monotonic()) == (50.0, 10.0)


def test_manual_clock_wakes_sleepers() -> None:
    async def run() -> None:
        clock = ManualClock()
        sleeper = asyncio.ensure_future(clock.sleep(10))
        await clock.sleep(0)
        clock.advance(9)
        await asyncio.sleep(0)
        assert not sleeper.done()
        clock.advance(1)
        await sleeper

    asyncio.run(run())


def test_timestamps_have_the_two_forms_of_kubernetes() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC).timestamp()
    assert rfc3339(moment) == "2026-01-02T03:04:05Z"
    assert rfc3339_micro(moment) == "2026-01-02T03:04:05.678901Z"
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
    assert rfc3339(-0.5) == "1969-12-31T23:59:59Z"
    assert rfc3339_micro(0.999_999_9) == "1970-01-01T00:00:01.000000Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:10+01:00", 10.0),
        ("1969-12-31T19:30:10-04:30", 10.0),
        ("1970-01-01T00:00:10.25Z", 10.25),
        ("1970-01-01t00:00:10.000001000z", 10.000001),
    ],
)
def test_timestamps_of_any_zone_and_precision_are_read(text: str, seconds: float) -> None:
    assert parse_rfc3339(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-13-02T03:04:05Z",
        "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:05+25:00",
    ],
)
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        parse_rfc3339(text)


@given(st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000))
def test_timestamps_read_back_as_written(micros: int) -> None:
    seconds = micros / 1e6
    text = rfc3339_micro(seconds)
    assert parse_rfc3339(text) == pytest.approx(seconds, abs=1e-5)
    assert datetime.fromisoformat(text).tzinfo is not None
    assert parse_rfc3339(rfc3339(micros // 1_000_000)) == micros // 1_000_000


@pytest.mark.parametrize("randomness", [SystemRandomness(), SeededRandomness(1)], ids=["system", "seeded"])
def test_randomness_keeps_its_ranges(randomness: Randomness) -> None:
    uuids = [randomness.uuid4() for _ in range(2000)]
    assert len(set(uuids)) == 2000
    for text in uuids:
        parsed = uuid.UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 4, uuid.RFC_4122)
    assert re.fullmatch(f"[{SAFE_ALPHABET}]{{5}}", randomness.suffix(5))
    assert {randomness.choice("ab") for _ in range(200)} == {"a", "b"}
    assert all(0 <= randomness.random() < 1 for _ in range(100))
    assert all(10 <= randomness.jitter(10, 0.5) < 15 for _ in range(100))
    items = list(range(100))
    randomness.shuffle(items)
    assert sorted(items) == list(range(100))
    assert items != sorted(items)
    with pytest.raises(IndexError):
        randomness.choice([])


def test_equal_seeds_give_equal_sequences() -> None:
    def sequence(seed: int) -> list[object]:
        randomness = SeededRandomness(seed)
        return [randomness.uuid4(), randomness.suffix(8), randomness.random(), randomness.uuid4()]

    assert sequence(3) == sequence(3)
    assert sequence(3) != sequence(4)
