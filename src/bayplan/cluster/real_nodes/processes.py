"""Processes of real nodes: started, started again when they end, stopped; and found again by those who come after a killed one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bayplan.cluster.errors import RealNodeError
from bayplan.support.clock import Clock
from bayplan.support.system.process_ids import ProcessId, process_id, write_pid_file

logger = logging.getLogger(__name__)

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 5.0
_LONGEST_FAILURE_DELAY = 60.0
"""Seconds before the next start of a process that ends by itself each time, as where its port is taken; the other delays are of those that were killed."""
_HEALTHY_SECONDS = 60.0
"""A process that has run for so long is started again after the first delay."""
_LAST_LINES = 2000
"""Bytes of a log that are shown when its process ends."""


def processes_with(programs: Iterable[str], argument: str) -> Iterator[ProcessId]:
    """Processes of programs (by the beginning of their name) that have an argument which begins like this."""
    beginnings = tuple(programs)
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            words = Path(entry.path, "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[0].rpartition("/")[2].startswith(beginnings) and any(word.startswith(argument) for word in words[1:]):
            found = process_id(int(entry.name))
            if found is not None:
                yield found


class SupervisedProcess:
    """A program that is to run as long as `run` does. What it prints goes to `log`; its number is in `pid_file`.

    after_end: called each time that it has ended unexpectedly. before_restart: called after the delay that follows, just before it is started again.
    """

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        log: Path,
        pid_file: Path,
        clock: Clock,
        before_restart: Callable[[], None] = lambda: None,
        after_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.command = command
        self.log = log
        self.starts = 0
        """How often it was started."""
        self._pid_file = pid_file
        self._clock = clock
        self._before_restart = before_restart
        self._after_end = after_end
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int:
        """The number of the process that runs; 0 for none."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else 0

    @property
    def failure(self) -> str:
        """Why it does not run; "" if it does."""
        return "" if self.pid else f"it has ended: {self.last_words()}" if self.starts else "it has not started yet"

    async def run(self) -> None:
        """Start the program, and again whenever it ends, after a delay that doubles; until `stop`. Raises RealNodeError if it is not there."""
        delay = _FIRST_DELAY
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            self._after_end()
            if self._clock.monotonic() - started >= _HEALTHY_SECONDS:
                delay = _FIRST_DELAY
            logger.error(
                "%s has ended (%d), it is started again in %.1f s: %s", self.name, code, delay, self.last_words()
            )
            await self._clock.sleep(delay)
            delay = min(delay * 2, _LONGEST_DELAY if code < 0 else _LONGEST_FAILURE_DELAY)
            if not self._stopping.is_set():
                self._before_restart()

    async def _run_once(self) -> int:
        try:
            with self.log.open("ab") as log:
                # A session of its own: Ctrl-C in a terminal is for the process that stops this one in good order.
                self._process = await asyncio.create_subprocess_exec(
                    *self.command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise RealNodeError(f"{self.name} cannot be started: {self.command[0]}: {error.strerror}") from error
        self.starts += 1
        found = process_id(self._process.pid)
        if found is not None:
            write_pid_file(self._pid_file, found)
        return await self._process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        try:
            text = self.log.read_bytes()[-_LAST_LINES:].decode(errors="replace")
        except FileNotFoundError:
            return ""
        return " | ".join(text.splitlines()[-3:])

    async def stop(self, seconds: float) -> None:
        """Ask it to end, and kill it after `seconds`."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            logger.warning("%s does not end within %g s and is killed", self.name, seconds)
            process.kill()
            await process.wait()
        self._pid_file.unlink(missing_ok=True)
