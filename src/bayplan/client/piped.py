"""The transport to an API server in the process at the other end of a pipe (see `bayplan.apiserver.piped`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.client.errors import TransportError
from bayplan.client.transport import Decode, RawWatch, decode_event, status_of
from bayplan.support.pipe import Pipe, PipeError

_REMEMBERED: Final = 2_000
"""Events of a kind that are remembered, decoded, for the other watches that bring them."""


class PipedServer:
    """The API server, for all users on this side of the pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self._watches: dict[int, _PipedWatch] = {}
        self._last = 0
        self._recent: dict[Kind, dict[bytes, tuple[str, Any]]] = {}
        pipe.hearers["lines"] = self._lines
        pipe.hearers["ended"] = self._ended
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
            self.pipe.tell("close", number)

    def event(self, kind: Kind, line: bytes, decode: Decode) -> tuple[str, Any]:
        """(event type, object) of a line; the object is shared with the other watches that bring it. Raises ApiError."""
        recent = self._recent.setdefault(kind, {})
        event = recent.get(line)
        if event is None:
            event = decode_event(line, decode)
            if len(recent) >= _REMEMBERED:
                del recent[next(iter(recent))]
            recent[line] = event
        return event

    def _lines(self, number: int, lines: Sequence[bytes]) -> None:
        watch = self._watches.get(number)
        if watch is not None:
            watch.feed(lines)

    def _ended(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None:
            watch.end()

    def _lost(self) -> None:
        for number in tuple(self._watches):
            self._ended(number)


class PipedTransport:
    """A `Transport` through a pipe, as one user."""

    def __init__(self, server: PipedServer, user: str) -> None:
        self._server = server
        self._ask = server.pipe.ask
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
            code, data = await self._ask("request", self._user, method, path, query, body, content_type)
        except PipeError as error:
            raise TransportError(f"{method} {path}: {error}") from error
        if code >= 300:
            raise ApiError(status_of(code, data))
        answer: bytes = data
        return answer

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        watch = _PipedWatch(self._server, kind, decode)
        asked = self._ask("watch", watch.number, self._user, path, query)
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


class _PipedWatch:
    """The events that come under a number."""

    def __init__(self, server: PipedServer, kind: Kind, decode: Decode) -> None:
        self._server = server
        self._kind = kind
        self._decode = decode
        self._came: list[bytes] = []
        self._has_ended = False
        self._news = asyncio.Event()
        self.number = server.add(self)

    def feed(self, lines: Sequence[bytes]) -> None:
        """Events have come."""
        self._came.extend(lines)
        self._news.set()

    def end(self) -> None:
        """No more will come."""
        self._has_ended = True
        self._news.set()

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """See RawWatch."""
        while not self._came:
            if self._has_ended:
                return ()
            self._news.clear()
            await self._news.wait()
        came, self._came = self._came, []
        try:
            return [self._server.event(self._kind, line, self._decode) for line in came]
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
