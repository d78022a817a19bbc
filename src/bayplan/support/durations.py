"""Durations as Go writes and reads them: `1h30m`, `1.5s`, `250ms`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def go_seconds(text: str) -> float:
    """Seconds of a Go duration that is not negative. Raises ValueError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration such as 1.5s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
