"""Logs of containers as the runtime writes them (CRI log format), read as users ask for them.

Each line of a file is `TIME STREAM TAG TEXT`: TIME is RFC 3339 with up to nine digits after the second, STREAM stdout or stderr, TAG `F` for the end of a line
and `P` for a part of one. Worked example, of a container that wrote the one line `a long line` to stdout:

    2026-01-02T03:04:05.12Z stdout P a long
    2026-01-02T03:04:05.13Z stdout F  line
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bayplan.api.pods.container_logs import LogOptions
from bayplan.support.blocking import Blocking
from bayplan.support.clock import Clock
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

CHUNK = 1 << 16
LOOK_SECONDS = 0.1
"""Between two looks for more lines."""
_LONGEST_LINE = 1 << 20
"""Bytes: runtimes write parts of 16 KiB, so what is longer is no log."""
_STREAMS = {"Stdout": b"stdout", "Stderr": b"stderr"}
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a file. `text` ends with a line feed unless the container's line goes on in the next one."""

    time: bytes
    stream: bytes
    text: bytes


def parse_line(line: bytes) -> LogLine | None:
    """A line of a log file, with or without its end; None for one that is not in the format."""
    time, _, rest = line.partition(b" ")
    stream, _, rest = rest.partition(b" ")
    tag, separator, text = rest.partition(b" ")
    if not separator or stream not in (b"stdout", b"stderr") or _TIME.fullmatch(time) is None:
        return None
    is_part = tag.split(b":", 1)[0] == b"P"
    return LogLine(time, stream, text.removesuffix(b"\n") if is_part else text)


def tail_offset(path: Path, lines: int) -> int:
    """Where the last so many lines of a file begin. Raises OSError."""
    with path.open("rb") as file:
        end = position = file.seek(0, os.SEEK_END)
        if not lines:
            return end
        found = -1  # the end of the last line does not count
        while position > 0:
            size = min(CHUNK, position)
            position -= size
            file.seek(position)
            block = file.read(size)
            if position + size == end and not block.endswith(b"\n"):
                found += 1  # the last line has no end yet
            at = len(block)
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                found += 1
                if found == lines:
                    return position + at + 1
        return 0


def last_text(path: Path, *, lines: int, most: int) -> bytes:
    """What the last lines of a log say, at most so many bytes from the end. Raises OSError."""
    offset = tail_offset(path, lines)
    with path.open("rb") as file:
        file.seek(max(offset, file.seek(0, os.SEEK_END) - lines * CHUNK))
        return b"".join(each.text for each in map(parse_line, file) if each is not None)[-most:]


class _Selection:
    """Which lines are shown, and how; pure but for what has been shown so far."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._stream = _STREAMS.get(options.stream)
        self._bytes_left = options.limit_bytes
        self._lines_left = options.tail_lines if not options.follow else None
        self._begins_line = True

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to be shown."""
        return self._lines_left == 0 or self._bytes_left == 0

    def show(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """What is shown of these lines of the file."""
        for raw in lines:
            if self.is_complete:
                return
            line = parse_line(raw)
            if line is None:
                logger.warning("a line of a log is not in the format: %.200r", raw)
                continue
            if self._lines_left is not None:
                self._lines_left -= 1
            if self._is_wanted(line):
                yield self._limited(self._text(line))
            self._begins_line = line.text.endswith(b"\n") or not line.text

    def _is_wanted(self, line: LogLine) -> bool:
        if self._stream is not None and line.stream != self._stream:
            return False
        since = self._options.since
        return since is None or parse_rfc3339(line.time.decode()) >= since

    def _text(self, line: LogLine) -> bytes:
        """The time stands where a line of the container begins, not before each part of it."""
        if not self._options.timestamps or not self._begins_line:
            return line.text
        return full_time(line.time) + b" " + line.text

    def _limited(self, text: bytes) -> bytes:
        if self._bytes_left is None:
            return text
        text = text[: self._bytes_left]
        self._bytes_left -= len(text)
        return text


def full_time(time: bytes) -> bytes:
    """A time with all nine digits after the second."""
    match = _TIME.fullmatch(time)
    if match is None:
        return time
    second, fraction, zone = match.groups()
    return second + b"." + (fraction or b"").ljust(9, b"0") + zone


class LogReader:
    """Reads logs.

    A log that is followed goes on in the next file when its file was rotated; one that is not followed is its newest file alone, as in Kubernetes.
    """

    def __init__(self, blocking: Blocking, clock: Clock) -> None:
        self._blocking = blocking
        self._clock = clock

    async def read(self, path: Path, options: LogOptions, runs: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Pieces of a log, each of one line or many. runs: whether the container still runs, so that more may come. Raises OSError if there is no log."""
        selection = _Selection(options)
        lines = options.tail_lines
        offset = await self._blocking(lambda: tail_offset(path, lines)) if lines is not None else 0
        async for complete in self._lines(path, offset, options.follow, runs):
            shown = b"".join(selection.show(complete))
            if shown:
                yield shown
            if selection.is_complete and (not options.follow or options.limit_bytes is not None):
                return

    async def _lines(
        self, path: Path, offset: int, follow: bool, runs: Callable[[], bool]
    ) -> AsyncIterator[list[bytes]]:
        """Lines of the file as they come, with their ends."""
        file = await self._blocking(lambda: path.open("rb", buffering=0))
        try:
            file.seek(offset)
            rest, replaced = b"", False
            while True:
                ended = not runs()  # asked before reading: what comes until then is read
                block = await self._blocking(lambda: file.read(CHUNK) or b"")  # noqa: B023 - called at once
                if block:
                    *complete, rest = (rest + block).split(b"\n")
                    yield [each + b"\n" for each in complete]
                    rest = _checked(rest, path)
                    continue
                if replaced:
                    if rest:
                        yield [rest]
                    file.close()
                    file = await self._blocking(lambda: path.open("rb", buffering=0))
                    rest, replaced = b"", False
                elif not follow:
                    if rest:
                        yield [rest]
                    return
                elif await self._blocking(functools.partial(_was_rotated, path, file.fileno())):
                    replaced = True  # what was written to the old file until then is read first
                elif ended:
                    return
                else:
                    await self._clock.sleep(LOOK_SECONDS)
        finally:
            file.close()


def _checked(rest: bytes, path: Path) -> bytes:
    """The beginning of a line, unless it is so long that it is none."""
    if len(rest) <= _LONGEST_LINE:
        return rest
    logger.warning("%s has a line of more than %d bytes", path, _LONGEST_LINE)
    return b""


def _was_rotated(path: Path, descriptor: int) -> bool:
    """Whether there is another file at the path now."""
    try:
        found, opened = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino)
