"""Logs of containers as the runtime writes them (CRI log format), read as users ask for them.

Each line of a file is `TIME STREAM TAG TEXT`: TIME is RFC 3339 with nanoseconds, STREAM stdout or stderr, TAG `F` for the end of a line and `P` for a part of one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from bayplan.kubelet.server.containers import LogOptions
from bayplan.support.blocking import Blocking
from bayplan.support.clock import Clock
from bayplan.support.timestamps import parse_rfc3339

_CHUNK = 1 << 16
_LOOK_SECONDS = 0.1
"""Between two looks for more lines."""
_STREAMS = {"Stdout": b"stdout", "Stderr": b"stderr"}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a file: `text` without its end; `partial` if the container's line goes on in the next one."""

    time: bytes
    stream: bytes
    partial: bool
    text: bytes


def parse_line(line: bytes) -> LogLine | None:
    """A line of a log file; None for one that is not in the format."""
    parts = line.rstrip(b"\n").split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr"):
        return None
    return LogLine(parts[0], parts[1], parts[2].split(b":")[0] == b"P", parts[3] if len(parts) > 3 else b"")


def tail_offset(path: Path, lines: int) -> int:
    """Where the last so many lines of a file begin."""
    with path.open("rb") as file:
        end = position = file.seek(0, os.SEEK_END)
        if not lines:
            return end
        found = -1  # the end of the last line does not count
        while position > 0:
            size = min(_CHUNK, position)
            position -= size
            file.seek(position)
            block = file.read(size)
            at = len(block)
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                found += 1
                if found == lines:
                    return position + at + 1
        return 0


class LogReader:
    """Reads logs. A log that is followed goes on in the next file when its file was rotated."""

    def __init__(self, blocking: Blocking, clock: Clock) -> None:
        self._blocking = blocking
        self._clock = clock

    async def read(self, path: Path, options: LogOptions, runs: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Pieces of a log. runs: whether the container still runs, so that more may come. Raises OSError."""
        left = options.limit_bytes
        async for line in self._lines(path, options, runs):
            shown = _shown(line, options)
            if not shown:
                continue
            if left is not None:
                shown = shown[:left]
                left -= len(shown)
            yield shown
            if left is not None and left <= 0:
                return

    async def _lines(self, path: Path, options: LogOptions, runs: Callable[[], bool]) -> AsyncIterator[LogLine]:
        lines = options.tail_lines
        offset = await self._blocking(lambda: tail_offset(path, lines)) if lines is not None else 0
        file = await self._blocking(lambda: path.open("rb"))
        try:
            file.seek(offset)
            rest = b""
            while True:
                ended = not runs()  # asked before reading: what comes until then is read
                block = file.read(_CHUNK)
                rest += block
                *complete, rest = rest.split(b"\n")
                for each in complete:
                    line = parse_line(each)
                    if line is not None:
                        yield line
                if block:
                    continue
                if not options.follow:
                    return
                descriptor = file.fileno()
                if await self._blocking(functools.partial(_was_rotated, path, descriptor)):
                    file.close()
                    file = await self._blocking(lambda: path.open("rb"))
                elif ended:
                    return
                else:
                    await self._clock.sleep(_LOOK_SECONDS)
        finally:
            file.close()


def _was_rotated(path: Path, descriptor: int) -> bool:
    """Whether there is another file at the path now."""
    try:
        found, opened = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino)


def _shown(line: LogLine, options: LogOptions) -> bytes:
    """A line as it is shown; empty if it is not wanted."""
    wanted = _STREAMS.get(options.stream)
    if wanted is not None and line.stream != wanted:
        return b""
    if options.since is not None and parse_rfc3339(line.time.decode(errors="replace")) < options.since:
        return b""
    text = line.text if line.partial else line.text + b"\n"
    return line.time + b" " + text if options.timestamps else text
