"""The transport to an API server in the process at the other end of a pipe (see `bayplan.apiserver.piped`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.client.errors import TransportError
from bayplan.client.transport import Decode, RawWatch, SentRequest, Transport, decode_event, status_of
from bayplan.support.pipe import Pipe, PipeError

_AT_ONCE: Final = 50
"""Events of one watch that are taken before others get their turn."""


class PipedServer:
    """The API server, for all users on this side of the pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self._watches: dict[int, _PipedWatch] = {}
        self._last = 0
        pipe.notification_handlers["lines"] = self._lines
        pipe.notification_handlers["ended"] = self._ended
        pipe.when_lost = self._lost

    def transport(self, user: str) -> PipedTransport:
        """The way of one user."""
        return PipedTransport(self, user)

    def add(self, watch: _PipedWatch) -> int:
        """A number for a watch, under which its events come."""
        self._last += 1
        self._watches[self._last] = watch
        return self._last

    def remove(self, number: int) -> None:
        """Forget a watch, and let the other side do so."""
        if self._watches.pop(number, None) is not None:
            self.pipe.notify("close", number)

    def _lines(self, lines: Sequence[bytes], watches: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Events: the lines, and for each watch those that it gets."""
        batch = _EventBatch(lines)
        for number, told in watches:
            watch = self._watches.get(number)
            if watch is not None:
                watch.feed(batch, told)

    def _ended(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None:
            watch.end()

    def _lost(self) -> None:
        for number in tuple(self._watches):
            self._ended(number)


class PipedTransport(Transport):
    """A `Transport` through a pipe, as one user."""

    def __init__(self, server: PipedServer, user: str) -> None:
        self._server = server
        self._call = server.pipe.call
        self._user = user

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """See Transport."""
        try:
            code, data = await self._call("request", self._user, method, path, query, body, content_type)
        except PipeError as error:
            raise TransportError(f"{method} {path}: {error}") from error
        if code >= 300:
            raise ApiError(status_of(code, data))
        answer: bytes = data
        return answer

    async def send(self, requests: Sequence[SentRequest]) -> None:
        """See Transport. The next is asked for as soon as it is certain that the one before succeeds."""
        for problem in await self.send_all((requests,)):
            if problem is not None:
                try:
                    raise problem
                finally:
                    del problem  # its traceback leads back here: the garbage collector would have to find out that both are not needed any more

    async def send_all(self, sequences: Sequence[Sequence[SentRequest]]) -> list[ApiError | TransportError | None]:
        """See Transport."""
        try:
            answers = await self._call("send", self._user, sequences)
        except PipeError as error:
            return [TransportError(f"{requests[0].method} {requests[0].path}: {error}") for requests in sequences]
        return [None if code < 300 else ApiError(status_of(code, data)) for code, data in answers]

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        watch = _PipedWatch(self._server, decode)
        asked = self._call("watch", watch.number, self._user, path, query)
        try:
            code, data = await asyncio.shield(asked)
        except PipeError as error:
            watch.close()
            raise TransportError(f"watch {path}: {error}") from error
        except asyncio.CancelledError:
            asked.add_done_callback(watch.give_up)  # before it is open there is nothing to close
            raise
        if code >= 300:
            watch.close()
            raise ApiError(status_of(code, data))
        return watch

    async def close(self) -> None:
        """Nothing to release: the pipe is everybody's."""


class _EventBatch:
    """Lines that came together. Each is decoded once, for all watches that get it."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._events: list[tuple[str, Any] | None] = [None] * len(lines)

    def event(self, number: int, decode: Decode) -> tuple[str, Any]:
        """(event type, object) of a line; the object is shared. Raises ApiError."""
        event = self._events[number]
        if event is None:
            event = self._events[number] = decode_event(self._lines[number], decode)
        return event


class _PipedWatch:
    """The events that come under a number."""

    def __init__(self, server: PipedServer, decode: Decode) -> None:
        self._server = server
        self._decode = decode
        self._came: deque[tuple[_EventBatch, int]] = deque()
        self._has_ended = False
        self._woken = asyncio.Event()
        self.number = server.add(self)

    def feed(self, batch: _EventBatch, told: Sequence[int]) -> None:
        """Events have come."""
        self._came += [(batch, number) for number in told]
        self._woken.set()

    def end(self) -> None:
        """No more will come."""
        self._has_ended = True
        self._woken.set()

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """See RawWatch."""
        if self._came:
            await asyncio.sleep(0)
        while not self._came:
            if self._has_ended:
                return ()
            self._woken.clear()
            await self._woken.wait()
        came = [self._came.popleft() for _ in range(min(_AT_ONCE, len(self._came)))]
        try:
            return [batch.event(number, self._decode) for batch, number in came]
        except ApiError:
            self.close()
            raise

    def give_up(self, asked: asyncio.Future[Any]) -> None:
        """Close a watch that was asked for, and is wanted no more."""
        if not asked.cancelled():
            asked.exception()  # which concerns nobody now
        self.close()

    def close(self) -> None:
        """See RawWatch."""
        self._server.remove(self.number)
        self.end()
