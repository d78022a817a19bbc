"""RFC 3339 timestamps in the two precisions of Kubernetes: whole seconds (`Time`) and microseconds (`MicroTime`).

Texts have years of four digits, from 0000 to 9999. A moment outside is written as the first or last of these: arithmetic with what clients send, such as a
grace period of 2**63 seconds, never fails, and what is written can be read.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import floor

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_SECOND = -62_167_219_200
"""0000-01-01T00:00:00Z"""
LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59Z"""
_YEAR_1 = -62_135_596_800
_CYCLE_YEARS, _CYCLE = 400, 146_097 * 86_400
"""After so many years, and seconds, the calendar begins anew. Python has no year 0."""
_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_last_second: tuple[int, str] = (0, "1970-01-01T00:00:00")


def _whole(second: int) -> str:
    """Date and time without zone. The last answer is kept: most calls within a second ask for the same one."""
    global _last_second
    kept = _last_second
    if kept[0] == second:
        return kept[1]
    within = min(max(second, FIRST_SECOND), LAST_SECOND)
    moment = _EPOCH + timedelta(seconds=within if within >= _YEAR_1 else within + _CYCLE)
    year = moment.year if within >= _YEAR_1 else moment.year - _CYCLE_YEARS
    text = f"{year:04d}-{moment.month:02d}-{moment.day:02d}T{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}"
    _last_second = (second, text)
    return text


def rfc3339(seconds: float) -> str:
    """Unix seconds as `2026-01-02T03:04:05Z`; fractions are cut off as Kubernetes' `Time` does."""
    return _whole(floor(seconds)) + "Z"


def rfc3339_micro(seconds: float) -> str:
    """Unix seconds as `2026-01-02T03:04:05.000006Z`, the form of Kubernetes' `MicroTime`."""
    second, micro = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_whole(second)}.{micro:06d}Z"


def parse_rfc3339(text: str) -> float:
    """Unix seconds of an RFC 3339 timestamp of any zone and precision. Raises `ValueError`."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 timestamp such as 2026-01-02T03:04:05Z")
    year, month, day, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups()
    try:
        seconds = unix_seconds(int(year), int(month), int(day), int(hour), int(minute), int(second))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a timestamp: {error}") from error
    if sign is not None:
        if int(zone_hour) > 24 or int(zone_minute) > 60:  # Go takes these, too
            raise ValueError(f"{text!r} is not a timestamp: the zone is out of range")
        offset = int(zone_hour) * 3600 + int(zone_minute) * 60
        seconds += -offset if sign == "+" else offset
    return float(seconds) if fraction is None else seconds + int(fraction) / 10 ** len(fraction)


def unix_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Unix seconds of a moment in UTC of the years 0 to 9999. Raises ValueError if there is no such moment."""
    moment = datetime(year or _CYCLE_YEARS, month, day, hour, minute, second, tzinfo=UTC)
    since = moment - _EPOCH
    return since.days * 86400 + since.seconds - (0 if year else _CYCLE)
