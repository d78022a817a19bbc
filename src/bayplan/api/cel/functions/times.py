"""Functions on timestamps and durations: `t.getHours('Europe/Berlin')`. Sources: the CEL specification; cel-go's `common/stdlib`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bayplan.api.cel.functions.registry import DURATION, STRING, TIMESTAMP, Table
from bayplan.api.cel.moments import SECOND, local_time, zone_of
from bayplan.api.cel.values import Duration, Timestamp

TABLE = Table()
_PARTS: dict[str, Callable[[datetime, int], int]] = {
    "getDate": lambda moment, _: moment.day,
    "getDayOfMonth": lambda moment, _: moment.day - 1,
    "getDayOfWeek": lambda moment, _: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment, _: moment.timetuple().tm_yday - 1,
    "getFullYear": lambda moment, _: moment.year,
    "getHours": lambda moment, _: moment.hour,
    "getMilliseconds": lambda _, nanoseconds: nanoseconds // 10**6,
    "getMinutes": lambda moment, _: moment.minute,
    "getMonth": lambda moment, _: moment.month - 1,
    "getSeconds": lambda moment, _: moment.second,
}
_UNITS = {"getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND}


def _add_part(name: str, part: Callable[[datetime, int], int]) -> None:
    def in_utc(value: Timestamp) -> int:
        return part(*local_time(value, UTC))

    def in_zone(value: Timestamp, zone: str) -> int:
        return part(*local_time(value, zone_of(zone)))

    TABLE.add(name, (TIMESTAMP,), in_utc, member=True)
    TABLE.add(name, (TIMESTAMP, STRING), in_zone, member=True)


def _toward_zero(value: int, unit: int) -> int:
    return value // unit if value >= 0 else -(-value // unit)


def _add_unit(name: str, unit: int) -> None:
    def whole(value: Duration) -> Any:
        return _toward_zero(value.nanoseconds, unit)

    TABLE.add(name, (DURATION,), whole, member=True)


@TABLE.member("getMilliseconds", DURATION)
def _milliseconds(value: Duration) -> int:
    """All of them, as cel-go has it; the specification would have those within the second."""
    return _toward_zero(value.nanoseconds, 10**6)


for _name, _part in _PARTS.items():
    _add_part(_name, _part)
for _name, _unit in _UNITS.items():
    _add_unit(_name, _unit)
