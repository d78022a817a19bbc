"""Rules for cron schedules of five fields, in the words of the parser that Kubernetes uses (robfig/cron)."""

from __future__ import annotations

import re
import zoneinfo
from typing import Final

from bayplan.api.errors import invalid
from bayplan.api.validation.fields import Errors
from bayplan.support.memory.memo import memoized

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS: Final = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_BOUNDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS: Final = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_DURATION: Final = re.compile(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))+|[-+]?0").fullmatch


_MOST_DIGITS: Final = 100
"""Digits after which more of them make no difference to what is wrong with a number."""


class CronError(ValueError):
    """A schedule is malformed; the message says why."""


@memoized(1024)
def schedule_problem(schedule: str) -> str:
    """What is wrong with a schedule; "" if it is valid."""
    try:
        _check(schedule)
    except CronError as error:
        return str(error)
    return ""


def _check(schedule: str) -> None:
    if not schedule:
        raise CronError("empty spec string")
    if schedule.startswith("@"):
        if schedule.startswith("@every "):
            duration = schedule.removeprefix("@every ")
            if not _DURATION(duration):
                raise CronError(f'failed to parse duration {schedule}: time: invalid duration "{duration}"')
        elif schedule not in _DESCRIPTORS:
            raise CronError(f"unrecognized descriptor: {schedule}")
        return
    fields = schedule.split()
    if len(fields) != 5:
        raise CronError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for text, (low, high, names) in zip(fields, _BOUNDS, strict=True):
        for part in dict.fromkeys(text.split(",")):
            if part:
                _check_range(part, low, high, names)


def _check_range(text: str, low: int, high: int, names: dict[str, int]) -> None:
    interval, *steps = text.split("/")
    ends = interval.split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(ends[0], names)
        if len(ends) > 2:
            raise CronError(f"too many hyphens: {text}")
        end = _number(ends[1], names) if len(ends) == 2 else start
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0], {})
        if len(ends) == 1 and ends[0] not in ("*", "?"):
            end = high
        if step == 0:
            raise CronError(f"step of range should be a positive number: {text}")
    if start < low:
        raise CronError(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise CronError(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text) if len(text) <= _MOST_DIGITS else int(text[:1] + text[1:].lstrip("0")[:_MOST_DIGITS] or "0")
    if not -(1 << 63) <= number < 1 << 63:
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number


def check_schedule(errors: Errors, path: str, schedule: str, *, allow_time_zone: bool = False) -> None:
    """A schedule; the time zone has a field of its own."""
    if "TZ" in schedule and not allow_time_zone:
        errors.append(invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
        return
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    problem = schedule_problem(text)
    if problem:
        errors.append(invalid(path, schedule, problem))


_PART = re.compile(r"[A-Za-z0-9._+-]{1,14}", re.ASCII)


def _may_be_part(part: str) -> bool:
    """Whether the name of a time zone can have such a part between its slashes."""
    return part not in (".", "..") and not part.startswith("-") and _PART.fullmatch(part) is not None


@memoized(256)
def _zone_exists(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def check_time_zone(errors: Errors, path: str, name: str | None) -> None:
    """A name of the time zone database, if given."""
    if name is None:
        return
    if not name:
        errors.append(invalid(path, name, "timeZone must be nil or non-empty string"))
    elif name.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, name, text))
    elif not all(map(_may_be_part, name.split("/"))):
        errors.append(invalid(path, name, f"unknown time zone {name}"))
    elif ".." in name:
        errors.append(invalid(path, name, "time: invalid location name"))
    elif not _zone_exists(name):
        errors.append(invalid(path, name, f"unknown time zone {name}"))
