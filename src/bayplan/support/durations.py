"""Durations as Go writes and reads them: `1h30m`, `1.5s`, `250ms`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def go_seconds(text: str) -> float:
    """Seconds of a Go duration that is not negative; a zero needs no unit. Raises ValueError."""
    if text == "0":
        return 0.0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration such as 1.5s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def go_duration(seconds: float) -> str:
    """A duration that is not negative, in hours to milliseconds."""
    if 0 < seconds < 1:
        return f"{_trimmed(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    hours, left = divmod(int(minutes), 60)
    shown = f"{hours}h{left}m" if hours else f"{left}m" if left else ""
    return f"{shown}{_trimmed(rest)}s"


def _trimmed(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")
