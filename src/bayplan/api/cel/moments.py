"""Timestamps and durations as text and as parts, as Go reads and writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bayplan.api.cel.numbers import INT_MAX, INT_MIN, plain_double_text
from bayplan.api.cel.values import Duration, EvaluationError, Timestamp

SECOND = 10**9
"""Nanoseconds."""
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION_PART = re.compile(_NUMBER, re.ASCII)
_DURATION = re.compile(rf"([+-]?)(?:0|((?:{_NUMBER})+))", re.ASCII)
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


def parse_duration(text: str) -> int | None:
    """The nanoseconds of `-1h30m` or `.5s`; None for what Go does not read."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    total = sum(int(_fraction(number) * _UNITS[unit]) for number, unit in _DURATION_PART.findall(match[2] or ""))
    found = -total if match[1] == "-" else total
    return found if INT_MIN <= found <= INT_MAX else None


_DURATION_DIGITS = 100


def _fraction(number: str) -> Fraction:
    """A decimal number, of which digits that cannot matter are left out: a duration has 19 of them at most, and nine behind the point."""
    whole, _, rest = number.partition(".")
    whole = whole.lstrip("0")
    return Fraction(f"{whole[:_DURATION_DIGITS] or '0'}.{rest[:_DURATION_DIGITS] or '0'}")


def duration_text(value: Duration) -> str:
    """Its seconds, such as `90s` or `0.5s`."""
    seconds, rest = divmod(abs(value.nanoseconds), SECOND)
    text = plain_double_text(float(seconds) + rest / 1e9)
    return f"{'-' if value.nanoseconds < 0 else ''}{text}s"


def parse_timestamp(text: str) -> Timestamp | None:
    """The moment of an RFC 3339 text from the year 1 on; None for other text. Raises EvaluationError for moments outside the years 1 to 9999."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    zone = 0
    if match[3]:
        if int(match[4]) > 23 or int(match[5]) > 59:
            return None
        zone = (int(match[4]) * 3600 + int(match[5]) * 60) * (-1 if match[3] == "-" else 1)
    since = moment - _EPOCH
    seconds = since.days * 86400 + since.seconds - zone
    return timestamp(seconds * SECOND + int((match[2] or "0").ljust(9, "0")[:9]), zone)


def timestamp(nanoseconds: int, zone: int = 0) -> Timestamp:
    """A moment. Raises EvaluationError outside the years 1 to 9999."""
    if not FIRST_SECOND <= nanoseconds // SECOND <= LAST_SECOND:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds, zone)


def duration(nanoseconds: int) -> Duration:
    """A span of time. Raises EvaluationError for more than about 292 years."""
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise EvaluationError("duration overflow")
    return Duration(nanoseconds)


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 in the zone that the moment was given in, with as many digits as it needs."""
    seconds, nanoseconds = divmod(value.nanoseconds, SECOND)
    try:
        local = _EPOCH.replace(tzinfo=None) + timedelta(seconds=seconds + value.zone)
    except OverflowError as error:
        raise EvaluationError("timestamp overflow") from error
    text = local.isoformat(timespec="seconds")
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    if not value.zone:
        return f"{text}{fraction}Z"
    minutes = abs(value.zone) // 60
    return f"{text}{fraction}{'-' if value.zone < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def zone_of(text: str) -> tzinfo:
    """A time zone by its name, or by its distance from UTC such as `-08:00`. Raises EvaluationError."""
    if ":" in text:
        return _fixed_zone(*text.split(":", 1))
    if text in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise EvaluationError(f"unknown time zone {text}") from error


def _fixed_zone(hours: str, minutes: str) -> tzinfo:
    for part in (hours, minutes):
        if not re.fullmatch(r"[+-]?\d{1,18}", part, re.ASCII):
            raise EvaluationError(f'strconv.Atoi: parsing "{part}": invalid syntax')
    east = int(hours) * 60 + int(minutes) * (-1 if hours.startswith("-") else 1)
    try:
        return timezone(timedelta(minutes=east))
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"unknown time zone {hours}:{minutes}") from error


def local_time(value: Timestamp, zone: tzinfo) -> tuple[datetime, int]:
    """Date and time of day in a zone, and the nanoseconds within the second. Raises EvaluationError where the years end."""
    seconds, nanoseconds = divmod(value.nanoseconds, SECOND)
    try:
        return (_EPOCH + timedelta(seconds=seconds)).astimezone(zone), nanoseconds
    except OverflowError as error:
        raise EvaluationError("timestamp overflow") from error
