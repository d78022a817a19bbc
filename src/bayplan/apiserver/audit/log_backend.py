"""Events as lines in a file, or on standard output. They are written by a thread, those that wait at the same time together; or by another process.

Source: `k8s.io/apiserver/plugin/pkg/audit/log`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from bayplan.apiserver.audit.backend import Failures
from bayplan.apiserver.audit.events import Event, legacy_line, line
from bayplan.support.worker import WorkerThread

_PLUGIN = "log"
_LEGACY = "legacy"


class Output(Protocol):
    """What lines are written to; used by one thread at a time."""

    def write(self, data: bytes) -> object:
        """Write a line. Raises OSError."""

    def close(self) -> None:
        """Let go of it."""


class _Waiting(NamedTuple):
    lines: Sequence[bytes]
    done: asyncio.Future[list[str]]


class Lines(Protocol):
    """Where lines of the log go."""

    async def write(self, lines: Sequence[bytes]) -> Sequence[str]:
        """Write lines: of each, what went wrong; "" if nothing did."""

    async def close(self) -> None:
        """Write no more."""


class LogSink:
    """See Sink."""

    def __init__(self, lines: Lines, output_format: str, failures: Failures) -> None:
        """output_format: `json` or `legacy`."""
        self._lines = lines
        self._line: Callable[[Event], bytes] = legacy_line if output_format == _LEGACY else line
        self._failures = failures

    async def write(self, events: Sequence[Event]) -> bool:
        """See Sink."""
        problems = await self._lines.write([self._line(event) for event in events])
        for event, problem in zip(events, problems, strict=True):
            if problem:
                self._failures.report(_PLUGIN, problem, (event,))
        return not any(problems)

    async def close(self) -> None:
        """See Sink."""
        await self._lines.close()


class LineWriter:
    """See Lines: writes to an output in a thread, lines that wait at the same time together."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._worker = WorkerThread("audit log")
        self._waiting: list[_Waiting] = []
        self._is_writing = False

    async def write(self, lines: Sequence[bytes]) -> Sequence[str]:
        """See Lines."""
        done: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(lines, done))
        if not self._is_writing:
            self._write_waiting()
        return await done

    async def close(self) -> None:
        """See Lines."""
        await self._worker.run(self._output.close)
        await self._worker.close()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._is_writing = True
        lines = [one for each in waiting for one in each.lines]
        self._worker.submit(partial(_written, self._output, lines), partial(self._wrote, waiting))

    def _wrote(self, waiting: list[_Waiting], problems: list[str] | None, error: BaseException | None) -> None:
        """The thread is done: tell who waits, and go on with what came meanwhile."""
        self._is_writing = False
        at = 0
        for one in waiting:
            end = at + len(one.lines)
            if not one.done.done():
                if problems is None:
                    one.done.set_exception(error or RuntimeError("the audit log was not written"))
                else:
                    one.done.set_result(problems[at:end])
            at = end
        if self._waiting:
            self._write_waiting()


def _written(output: Output, lines: Sequence[bytes]) -> list[str]:
    """Write lines, in a thread; of each, what went wrong."""
    problems = []
    for one in lines:
        try:
            output.write(one)
        except OSError as error:
            problems.append(str(error))
        else:
            problems.append("")
    return problems
