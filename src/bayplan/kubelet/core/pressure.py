"""Pressure stall information (PSI): how long the tasks of a cgroup have waited for cpu, memory and io, as the kernel's files `*.pressure` tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Stall:
    """A line of a file. total: microseconds since the cgroup was made; averages are percent of the last 10, 60 and 300 seconds."""

    total: int = 0
    avg10: float = 0.0
    avg60: float = 0.0
    avg300: float = 0.0


@dataclass(frozen=True, slots=True)
class Pressure:
    """Of one resource. some: at least one task waited; full: all that were not idle did."""

    some: Stall = Stall()
    full: Stall = Stall()


@dataclass(frozen=True, slots=True)
class Pressures:
    """Of all resources; None for one of which the kernel does not tell."""

    cpu: Pressure | None = None
    memory: Pressure | None = None
    io: Pressure | None = None


NO_PRESSURES: Final = Pressures()


def parse_pressure(text: str) -> Pressure | None:
    """A file's content; None for one without a line that is known. A line that is not there counts as zeros, as `full` of cpu before Linux 5.13.

    >>> parse_pressure("some avg10=0.25 avg60=0.00 avg300=0.00 total=7").some
    Stall(total=7, avg10=0.25, avg60=0.0, avg300=0.0)
    """
    stalls = {}
    for line in text.splitlines():
        name, *fields = line.split()
        values = dict(field.split("=", 1) for field in fields if "=" in field)
        if name in ("some", "full") and values.keys() >= {"avg10", "avg60", "avg300", "total"}:
            averages = (float(values[each]) for each in ("avg10", "avg60", "avg300"))
            stalls[name] = Stall(int(values["total"]), *averages)
    return Pressure(**stalls) if stalls else None
