"""RFC 3339 timestamps in the two precisions of Kubernetes: whole seconds (`Time`) and microseconds (`MicroTime`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import floor

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    text = (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
    text = text.rjust(19, "0")
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
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a timestamp: {error}") from error
    since = moment - _EPOCH
    seconds = since.days * 86400 + since.seconds
    if sign is not None:
        if int(zone_hour) > 23 or int(zone_minute) > 59:
            raise ValueError(f"{text!r} is not a timestamp: the zone is out of range")
        offset = int(zone_hour) * 3600 + int(zone_minute) * 60
        seconds += -offset if sign == "+" else offset
    return float(seconds) if fraction is None else seconds + int(fraction) / 10 ** len(fraction)
