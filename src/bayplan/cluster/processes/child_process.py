"""A process that a fork server has made for this one: pinged over a pipe, killed if it freezes, and waited for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from typing import Any, Final

from bayplan.cluster.processes.fork_server import ForkServer
from bayplan.support.clock import Clock
from bayplan.support.pipe import Pipe, PipeError, open_pipe

PATIENCE: Final = 10.0
"""Seconds that a process gets to stop, and to end after its pipe has."""
_PING_SECONDS: Final = 0.5
_SILENT_SECONDS: Final = 2.0
"""After which a process that does not answer is reported."""
_FROZEN_SECONDS: Final = 15.0
"""After which it is killed."""
_ANSWER_SECONDS: Final = 2.0


class ChildProcess:
    """One process and the pipe to it. `name`: what it is called in messages, such as "the component process"."""

    def __init__(self, name: str, server: ForkServer, pid: int, clock: Clock) -> None:
        self.name = name
        self.pid = pid
        self._server = server
        self._clock = clock
        self._pipe: Pipe | None = None
        self._unanswered = 0
        """Pings since the last sign of life."""

    async def open(self, end: socket.socket) -> Pipe:
        """Open the pipe. Raises OSError."""
        self._pipe = pipe = await open_pipe(end)
        pipe.notification_handlers["pong"] = self._answered
        return pipe

    @property
    def pipe(self) -> Pipe:
        """The pipe, after `open`."""
        assert self._pipe is not None
        return self._pipe

    def _answered(self) -> None:
        self._unanswered = 0

    def silence(self) -> str:
        """Since when the process does not answer; "" if it does."""
        seconds = self._unanswered * _PING_SECONDS
        return f"{self.name} has not answered for {seconds:.0f} s" if seconds >= _SILENT_SECONDS else ""

    async def ended(self) -> str:
        """Return when the process has ended, which it is made to if it freezes: what was wrong with it. Raises ForkServerLost."""
        # Pings are counted, not seconds: if this process is stopped or busy, that says nothing about the other one.
        pipe = self.pipe
        while not pipe.is_lost and self._unanswered * _PING_SECONDS < _FROZEN_SECONDS:
            self._unanswered += 1
            pipe.notify("ping")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PING_SECONDS):
                    await pipe.ended()
        silence = self.silence()
        if pipe.is_lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    status = await self._server.ended(self.pid)
                    self.let_go()
                    return _how(self.name, status)
            silence = silence or f"{self.name} has closed its pipe and does not end"
        await self.kill()
        return silence + ", and has been killed"

    async def ask(self, topic: str, *arguments: Any) -> Any:
        """What the process answers soon; None if it does not."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self.pipe.call(topic, *arguments)
        except (PipeError, TimeoutError):
            return None

    async def stop(self, patience: float = PATIENCE) -> None:
        """Let the process stop what it does, and end. patience: seconds until it is killed. Raises ForkServerLost."""
        if self._pipe is not None and not self.silence():
            with contextlib.suppress(PipeError, TimeoutError):
                async with asyncio.timeout(patience):
                    await self._pipe.call("stop")
                    self.let_go()
                    await self._server.ended(self.pid)
                    return
        await self.kill()

    async def kill(self) -> None:
        """End the process at once. Raises ForkServerLost."""
        self.let_go()
        self._server.kill(self.pid)
        await self._server.ended(self.pid)

    def let_go(self) -> None:
        """End what the process had here."""
        if self._pipe is not None:
            self._pipe.close()


def _how(name: str, status: int) -> str:
    """How a process has ended, by its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"{name} has been ended by signal {number} ({signal.Signals(number).name})"
    return f"{name} has ended with exit code {os.waitstatus_to_exitcode(status)}"
