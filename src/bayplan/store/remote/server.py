"""Beside a store: other processes of this machine use it through a unix socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from bayplan.store.errors import Compacted, StoreError, StoreUnavailable
from bayplan.store.interface import Event, Store, Watch
from bayplan.store.remote.messages import (
    COMPACT,
    EVENTS,
    FAILED,
    HELLO,
    PAST,
    PAST_EVENTS,
    RANGE,
    WELCOME,
    WRITE,
    Origin,
    encode_error,
    encode_events,
    encode_items,
    encoded_pieces,
)
from bayplan.store.remote.revision_file import RevisionFile
from bayplan.support.pipe import Pipe
from bayplan.support.system.unix_sockets import listen

logger = logging.getLogger(__name__)

_MOST_WAITING_BYTES: Final = 256 << 20
"""A client that is so far behind is cut off: it comes back and reads what it has missed from the store."""


class StoreServer:
    """Serves one store, which it opens and closes, to any number of clients. The store must be a sole writer's."""

    def __init__(self, store: Store, path: Path) -> None:
        """path: of the socket; beside it lies the revision, `path` with `.revision` behind."""
        self._store = store
        self._path = path
        self._revision: RevisionFile | None = None
        self._server: asyncio.Server | None = None
        self._watch: Watch | None = None
        self._connections: dict[Pipe, _Connection] = {}
        self._running: dict[str, set[asyncio.Future[int]]] = {}
        """Writes that are not committed yet, by client; of connections that have ended as well."""

    async def start(self) -> None:
        """Open the store, and take clients from now on. Raises StoreError."""
        await self._store.open()
        try:
            self._revision = RevisionFile(revision_path(self._path))
            self._revision.set(self._store.revision)
            self._watch = await self._store.watch("", self._store.revision + 1, self._deliver)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._connect, sock=listen(self._path))
        except OSError as error:
            await self.stop()
            raise StoreUnavailable(f"{self._path}: cannot serve the store: {error.strerror or error}") from error

    async def stop(self) -> None:
        """Let writes end, and close the store. Clients are told by the end of their connections."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        await self._store.close()  # which lets writes end, and their events go out
        for pipe in tuple(self._connections):
            pipe.close()
        if self._watch is not None:
            self._watch.cancel()
        if self._revision is not None:
            self._revision.close()
            self._revision = None

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self._connections)

    def _connect(self) -> Pipe:
        pipe = Pipe()
        self._connections[pipe] = connection = _Connection(self, pipe, self._store)
        pipe.when_lost = partial(self._lost, pipe)
        pipe.notification_handlers |= {HELLO: connection.hello, WRITE: connection.write}
        pipe.request_handlers |= {RANGE: connection.range, PAST: connection.past, COMPACT: connection.compact}
        return pipe

    def _lost(self, pipe: Pipe) -> None:
        self._connections.pop(pipe, None)

    def _deliver(self, events: Sequence[Event]) -> None:
        """What was committed goes to all clients. The revision is there first: a client that asks anything from now on learns that it is behind."""
        assert self._revision is not None
        self._revision.set(events[-1].revision)
        data, compacted = encode_events(events), self._store.compacted_revision
        for pipe, connection in tuple(self._connections.items()):
            if connection.is_live:
                pipe.notify(EVENTS, data, compacted)
                if pipe.waiting_bytes > _MOST_WAITING_BYTES:
                    logger.warning("client %s of the store does not read: it is cut off", connection.client)
                    pipe.abort()

    def end_earlier(self, connection: _Connection) -> set[asyncio.Future[int]]:
        """End other connections of the same client. Returns its writes that run."""
        for pipe, other in tuple(self._connections.items()):
            if other.client == connection.client and other is not connection:
                pipe.abort()
                self._lost(pipe)
        return self._running.get(connection.client, set())

    def running(self, client: str, write: asyncio.Future[int]) -> None:
        """A write of a client has been submitted."""
        writes = self._running.setdefault(client, set())
        writes.add(write)

    def ended(self, client: str, write: asyncio.Future[int]) -> None:
        """It is committed, or has failed."""
        writes = self._running[client]
        writes.discard(write)
        if not writes:
            del self._running[client]


class _Connection:
    """What one client sends."""

    def __init__(self, server: StoreServer, pipe: Pipe, store: Store) -> None:
        self._server = server
        self._pipe = pipe
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()
        self.client = ""
        self.is_live = False
        """Whether it gets what is committed: it has been told all that was before."""

    def hello(self, client: str, revision: int) -> None:
        """A client begins (revision -1), or comes back, having seen everything up to a revision."""
        self.client = client
        earlier = self._server.end_earlier(self)
        if revision < 0 and not earlier:
            self._welcome(self._store.revision, is_whole=True)
            return
        task = asyncio.get_running_loop().create_task(self._resume(revision, earlier))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resume(self, revision: int, earlier: set[asyncio.Future[int]]) -> None:
        """Tell a client that has come back what it has missed, its own writes of before included."""
        while earlier:
            await asyncio.wait(tuple(earlier))
        if revision > self._store.revision:
            self._welcome(self._store.revision, is_whole=False)
            return
        missed: list[Event] = []
        is_whole = True
        if revision >= 0:
            try:
                past = await self._store.watch("", revision + 1, missed.extend)
                past.cancel()
            except Compacted:
                is_whole = False
            except StoreError as error:
                logger.warning("the store cannot tell a client what it has missed: %s", error)
                self._pipe.abort()
                return
        # Nothing runs between the last of the past and the first of what is live.
        for data in encoded_pieces(missed):
            self._pipe.notify(EVENTS, data, self._store.compacted_revision)
        self._welcome(self._store.revision, is_whole=is_whole)

    def _welcome(self, revision: int, *, is_whole: bool) -> None:
        self._pipe.notify(WELCOME, revision, self._store.compacted_revision, is_whole)
        self.is_live = True

    def write(self, number: int, key: str, value: bytes | None, guard: int | None, ttl: float | None) -> None:
        """Submit a write. Its event tells the client that it is committed."""
        store, origin = self._store, Origin(self.client, number)
        committed: asyncio.Future[int]
        try:
            if guard is not None and ttl is None:
                committed = store.submit(key, value, guard=guard, attachment=origin).committed
            elif value is None:
                committed = asyncio.ensure_future(store.delete(key, guard=guard, attachment=origin))
            else:
                committed = asyncio.ensure_future(store.put(key, value, guard=guard, ttl=ttl, attachment=origin))
        except StoreError as error:
            self._pipe.notify(FAILED, number, *encode_error(error))
            return
        if not committed.done():
            self._server.running(self.client, committed)
            committed.add_done_callback(partial(self._written, number))

    def _written(self, number: int, committed: asyncio.Future[int]) -> None:
        self._server.ended(self.client, committed)
        if committed.cancelled():
            return
        error = committed.exception()
        if error is not None:
            self._pipe.notify(FAILED, number, *encode_error(error))

    async def range(self, start: str, end: str, limit: int, revision: int) -> tuple[Any, ...]:
        """A page: its items, revision and count; or an error."""
        page = await _answer(lambda: self._store.range(start, end, limit=limit, revision=revision))
        if isinstance(page, StoreError):
            return encode_error(page)
        return "", encode_items(page.items), page.revision, page.count

    async def past(self, number: int, prefix: str, start_revision: int, until: int) -> tuple[Any, ...]:
        """Send the events of a watch from its start to a revision, which the client has come to; an error, if there is one."""
        found: list[Event] = []
        watch = await _answer(lambda: self._store.watch(prefix, start_revision, found.extend))
        if isinstance(watch, StoreError):
            return encode_error(watch)
        watch.cancel()
        for data in encoded_pieces([event for event in found if event.revision <= until]):
            self._pipe.notify(PAST_EVENTS, number, data)
            if self._pipe.is_full:
                await self._pipe.drained()
        return ("",)

    async def compact(self, revision: int) -> tuple[Any, ...]:
        """Forget history: the compacted revision then; or an error."""
        error = await _answer(lambda: self._store.compact(revision))
        return encode_error(error) if isinstance(error, StoreError) else ("", self._store.compacted_revision)


async def _answer(ask: Callable[[], Awaitable[Any]]) -> Any:
    """What the store answers, or raises."""
    try:
        return await ask()
    except StoreError as error:
        return error


def revision_path(path: Path) -> Path:
    """Where the revision of the store lies whose socket this is."""
    return path.with_name(f"{path.name}.revision")
