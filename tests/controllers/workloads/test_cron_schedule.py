"""When schedules are due: fields, names, time zones, changes of clocks, missed times."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bayplan.controllers.workloads.cron_schedule import missed, parse, zone_of

BERLIN = ZoneInfo("Europe/Berlin")


def unix(text: str, zone: object = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:46:00", "2026-01-01T01:00:00"),
        ("5/20 * * * *", "2026-01-01T00:26:00", "2026-01-01T00:45:00"),
        ("0 9-17/4 * * mon-fri", "2026-01-02T17:00:00", "2026-01-05T09:00:00"),
        ("30 2 1 feb,MAR *", "2026-02-02T00:00:00", "2026-03-01T02:30:00"),
        ("0 0 13 * 5", "2026-02-01T00:00:00", "2026-02-06T00:00:00"),
        ("0 0 13 * *", "2026-02-01T00:00:00", "2026-02-13T00:00:00"),
        ("0 0 */2 * 1", "2026-02-01T00:00:00", "2026-02-09T00:00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("@hourly", "2026-01-01T00:00:00", "2026-01-01T01:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@every 1h30m", "2026-01-01T00:00:00", "2026-01-01T01:30:00"),
    ],
)
def test_next_time(schedule: str, after: str, expected: str) -> None:
    assert parse(schedule).after(unix(after), UTC) == unix(expected)


def test_a_day_that_never_comes() -> None:
    assert parse("0 0 30 2 *").after(unix("2026-01-01T00:00:00"), UTC) is None


def test_times_are_those_of_the_zone() -> None:
    assert parse("0 9 * * *").after(unix("2026-07-01T00:00:00"), BERLIN) == unix("2026-07-01T07:00:00")


def test_a_time_that_the_clocks_skip_does_not_happen() -> None:
    assert parse("30 2 * * *").after(unix("2026-03-28T12:00:00"), BERLIN) == unix("2026-03-30T00:30:00")


def test_a_time_that_the_clocks_repeat_happens_twice() -> None:
    first = parse("30 2 * * *").after(unix("2026-10-24T12:00:00"), BERLIN)
    assert first == unix("2026-10-25T00:30:00")
    assert parse("30 2 * * *").after(first, BERLIN) == unix("2026-10-25T01:30:00")


def test_zones() -> None:
    assert zone_of(None) is UTC
    assert zone_of("Asia/Kolkata") == ZoneInfo("Asia/Kolkata")


@pytest.mark.parametrize(
    ("since", "now", "latest", "too_many"),
    [
        ("2026-01-01T00:00:00", "2026-01-01T00:00:59", None, False),
        ("2026-01-01T00:00:00", "2026-01-01T00:03:10", "2026-01-01T00:03:00", False),
        ("2026-01-01T00:00:00", "2026-01-01T01:40:00", "2026-01-01T01:40:00", False),
        ("2026-01-01T00:00:00", "2026-01-01T01:41:00", "2026-01-01T01:41:00", True),
        ("2020-01-01T00:00:00", "2026-01-01T00:00:30", "2026-01-01T00:00:00", True),
    ],
)
def test_missed_times(since: str, now: str, latest: str | None, too_many: bool) -> None:
    expected = unix(latest) if latest else None
    assert missed(parse("* * * * *"), unix(since), unix(now), UTC) == (expected, too_many)
