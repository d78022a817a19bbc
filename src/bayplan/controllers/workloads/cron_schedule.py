"""When a cron schedule of five fields is due. Pure; times are Unix seconds.

Source of the behaviour: the parser that Kubernetes uses (robfig/cron): a day matches by day of month and of week together if one of them is `*`, by either
otherwise; times that a change of clocks skips do not happen, times that it repeats happen twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from bayplan.support.durations import go_seconds
from bayplan.support.memory.memo import memoized

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NAMES = {
    name: number
    for names, first in (
        ("jan feb mar apr may jun jul aug sep oct nov dec", 1),
        ("sun mon tue wed thu fri sat", 0),
    )
    for number, name in enumerate(names.split(), first)
}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DAYS = 366 * 5
"""Days after which a schedule that was not due (30 February) never is."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that is understood."""

    minutes: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    """0 is Sunday."""
    both_days: bool = True
    """Whether day of month and day of week must match together."""
    every: float = 0.0
    """Seconds between two times (`@every`); 0 for fields."""

    def after(self, moment: float, zone: tzinfo) -> float | None:
        """The first time after a moment; None if there is none in the next years."""
        if self.every:
            return float(int(moment)) + self.every
        day = datetime.fromtimestamp(moment, zone).date()
        for offset in range(_DAYS):
            for time in self._times(day + timedelta(days=offset), zone):
                if time > moment:
                    return time
        return None

    def latest(self, since: float, moment: float, zone: tzinfo) -> float | None:
        """The last time after `since` and not after a moment, or None."""
        if self.every:
            count = int((moment - int(since)) // self.every)
            return int(since) + count * self.every if count > 0 else None
        day, first = datetime.fromtimestamp(moment, zone).date(), datetime.fromtimestamp(since, zone).date()
        while day >= first:
            for time in reversed(self._times(day, zone)):
                if since < time <= moment:
                    return time
            day -= timedelta(days=1)
        return None

    def _times(self, day: date, zone: tzinfo) -> tuple[float, ...]:
        return _times_of_day(self.hours, self.minutes, day, zone) if self._matches(day) else ()

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_month and by_week) if self.both_days else (by_month or by_week)


@memoized(256)
def _times_of_day(hours: tuple[int, ...], minutes: tuple[int, ...], day: date, zone: tzinfo) -> tuple[float, ...]:
    """The times of a day, in order: none for those that a change of clocks skips, two for those that it repeats."""
    times = set()
    for hour in hours:
        for minute in minutes:
            for fold in (0, 1):
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone, fold=fold)
                utc = local.astimezone(UTC)
                if utc.astimezone(zone).replace(tzinfo=None, fold=0) == local.replace(tzinfo=None, fold=0):
                    times.add(utc.timestamp())
    return tuple(sorted(times))


@memoized(4096)
def parse(text: str) -> Schedule:
    """A schedule that validation has let through. Raises ValueError."""
    if text.startswith("@every "):
        return Schedule(every=max(float(int(go_seconds(text.removeprefix("@every ")))), 1.0))
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_BOUNDS):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {text!r}")
    minutes, hours, days, months, weekdays = (
        _values(field, low, high) for field, (low, high) in zip(fields, _BOUNDS, strict=True)
    )
    starred = any(part.partition("/")[0] in ("*", "?") for field in (fields[2], fields[4]) for part in field.split(","))
    return Schedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(weekdays),
        both_days=starred,
    )


def _values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in filter(None, field.split(",")):
        interval, _, step = part.partition("/")
        first, _, last = interval.partition("-")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _number(first)
            end = _number(last) if last else (high if step else start)
        found.update(range(start, end + 1, int(step or 1)))
    return found


def _number(text: str) -> int:
    return _NAMES[text.lower()] if text.lower() in _NAMES else int(text)


def zone_of(name: str | None) -> tzinfo:
    """A time zone by its name; UTC without one. Raises zoneinfo.ZoneInfoNotFoundError."""
    return ZoneInfo(name) if name else UTC


def missed(schedule: Schedule, since: float, now: float, zone: tzinfo, limit: int = 100) -> tuple[float | None, bool]:
    """The latest time after `since` up to `now`, None if there is none; and whether there were more than `limit`."""
    latest = schedule.latest(since, now, zone)
    if latest is None:
        return None, False
    count, moment = 0, schedule.after(since, zone)
    while moment is not None and moment <= now and count <= limit:
        count, moment = count + 1, schedule.after(moment, zone)
    return latest, count > limit
