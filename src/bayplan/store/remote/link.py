"""The connection of a client to the owner of the store: made again whenever it ends, as the owner may have ended and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bayplan.store.errors import StoreClosed, StoreUnavailable
from bayplan.store.remote.messages import HELLO, WELCOME
from bayplan.support.clock import Clock
from bayplan.support.pipe import NotificationHandler, Pipe, PipeError, open_pipe
from bayplan.support.system.unix_sockets import connect

PATIENCE: Final = 10.0
"""Seconds that what waits for the owner of the store waits until it fails."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
"""Seconds between two attempts to connect."""


class Link:
    """Keeps a connection, and says hello on each new one."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        hello: Callable[[], tuple[str, int]],
        handlers: dict[str, NotificationHandler],
        on_lost: Callable[[], None],
    ) -> None:
        """hello: who this is and the revision that it has seen. handlers: of notifications; that of WELCOME gets the
        connection before anybody else does. on_lost: called when a connection that was welcome has ended."""
        self._path = path
        self._clock = clock
        self._hello = hello
        self._handlers = handlers
        self._on_lost = on_lost
        self.pipe: Pipe | None = None
        """The connection; None unless it is there and welcome."""
        self.failure = "not connected yet"
        """Why there is none."""
        self._changed = asyncio.Event()
        self._since = clock.monotonic()
        """Monotonic seconds since when there is none."""
        self._keeping: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Connect, and connect again, until `close`."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """End it."""
        self._is_closed = True
        self._changed.set()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None

    @property
    def seconds_lost(self) -> float:
        """For how long there has been no connection; 0 if there is one."""
        return 0.0 if self.pipe is not None else self._clock.monotonic() - self._since

    async def connected(self) -> Pipe:
        """The connection, once there is one. Raises StoreUnavailable if there has been none for `PATIENCE`, StoreClosed."""
        while self.pipe is None:
            if self._is_closed:
                raise StoreClosed("the store is closed")
            left = PATIENCE - self.seconds_lost
            if left <= 0:
                raise StoreUnavailable(self.unreachable())
            self._changed.clear()
            timer = self._clock.call_later(left, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
        return self.pipe

    def unreachable(self) -> str:
        """What is said of an owner that does not answer."""
        return f"{self._path}: the process that owns the store does not answer: {self.failure}"

    async def call(self, topic: str, *arguments: Any) -> Any:
        """Ask, again on the next connection if this one ends. For questions that change nothing. Raises StoreUnavailable, StoreClosed."""
        while True:
            pipe = await self.connected()
            try:
                return await pipe.call(topic, *arguments)
            except PipeError as error:
                if not pipe.is_lost:
                    raise StoreUnavailable(str(error)) from error

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                pipe = await self._connect()
            except (OSError, PipeError) as error:
                self.failure = str(error)
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            self._changed.set()
            await pipe.ended()
            self.pipe, self.failure = None, "the connection has ended"
            self._since = self._clock.monotonic()
            self._on_lost()

    async def _connect(self) -> Pipe:
        """A connection on which this client is welcome. Raises OSError, PipeError."""
        pipe = await open_pipe(connect(self._path))
        answered = asyncio.Event()

        def take_welcome(*arguments: Any) -> None:
            self._handlers[WELCOME](pipe, *arguments)
            self.pipe, self.failure = pipe, ""  # what follows in the same message is for a client that is connected
            answered.set()

        pipe.notification_handlers |= self._handlers
        pipe.notification_handlers[WELCOME] = take_welcome
        pipe.when_lost = answered.set
        pipe.notify(HELLO, *self._hello())
        try:
            await answered.wait()
        except asyncio.CancelledError:
            pipe.close()
            raise
        if self.pipe is not pipe:
            raise PipeError("the connection has ended before it was of use")
        return pipe
