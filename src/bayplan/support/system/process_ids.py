"""Processes of this machine that outlive who started them: told apart, found again, ended. And how this program is started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bayplan.support.clock import Clock
from bayplan.support.system.private_files import write_private


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, told from a later one of the same number by when it was started (clock ticks since the machine was)."""

    pid: int
    started: int


def process_id(pid: int) -> ProcessId | None:
    """The process that has this number now; None if there is none. Without /proc nothing is known of when it was started."""
    if not Path("/proc/self/stat").exists():
        return ProcessId(pid, 0) if _exists(pid) else None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # names may hold anything
    return None if fields[0] in "ZX" else ProcessId(pid, int(fields[19]))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def read_pid_file(path: Path) -> ProcessId | None:
    """The process of a pid file, if it still runs."""
    try:
        pid, started = (int(part) for part in path.read_text().split())
    except (FileNotFoundError, ValueError):
        return None
    found = process_id(pid)
    return found if found == ProcessId(pid, started) else None


def write_pid_file(path: Path, process: ProcessId) -> None:
    """Write what `read_pid_file` reads. Raises OSError."""
    write_private(path, f"{process.pid} {process.started}\n".encode())


async def end(processes: Iterable[ProcessId], clock: Clock, number: signal.Signals, seconds: float) -> list[ProcessId]:
    """Send a signal and wait; returns those that run after `seconds` nevertheless."""
    left = list(processes)
    for process in left:
        if process_id(process.pid) == process:
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue
    until = clock.monotonic() + seconds
    while left := [each for each in left if process_id(each.pid) == each]:
        if clock.monotonic() >= until:
            break
        await clock.sleep(0.02)
    return left


def own_program(verb: str) -> tuple[str, ...]:
    """The command of a component of this installation."""
    return (sys.executable, "-c", "from bayplan.cli.main import run; run()", verb)
