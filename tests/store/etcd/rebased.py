"""An etcd store whose revisions are counted from the one at which it was opened, so that tests can say which ones they expect."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Sequence
from typing import NoReturn, TypeVar

import msgspec

from bayplan.store.errors import Compacted, Conflict, FutureRevision
from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.connection import Dial
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.store.etcd.store import EtcdStore
from bayplan.store.interface import Deliver, Event, KeyValue, Lost, RangeResult, Watch
from bayplan.support.clock import SystemClock

T = TypeVar("T")
_numbers = itertools.count(1)


class RebasedEtcdStore:
    """`EtcdStore` under a prefix of its own, which is emptied on `close`."""

    sole_writer = False
    knows_lag = False
    may_be_behind = True

    def __init__(self, endpoint: str, dial: Dial | None = None) -> None:
        self._settings = EtcdSettings(endpoints=(endpoint,))
        self._dial = dial
        client = EtcdClient(self._settings, clock=SystemClock(), dial=dial)
        self._layout = KeyLayout(f"/test-{next(_numbers)}")
        self._store = EtcdStore(client, clock=SystemClock(), layout=self._layout, compaction_interval=0)
        self._base = 0

    @property
    def revision(self) -> int:
        return max(0, self._store.revision - self._base)

    @property
    def compacted_revision(self) -> int:
        return max(0, self._store.compacted_revision - self._base)

    @property
    def write_error(self) -> str:
        return self._store.write_error

    async def open(self) -> None:
        client = EtcdClient(self._settings, clock=SystemClock(), dial=self._dial)
        await client.put(
            b"/before", b""
        )  # some test may have compacted etcd to its last revision, from which no watch can begin
        await client.close()
        await self._store.open()
        self._base = self._store.revision

    async def close(self) -> None:
        await self._store.close()
        if self._base:
            client = EtcdClient(self._settings, clock=SystemClock(), dial=self._dial)
            await client.delete(self._layout.start, self._layout.end)
            await client.close()

    def _there(self, revision: int) -> int:
        """A revision of the test as etcd counts; 0 stays 0."""
        return revision + self._base if revision else 0

    def _here(self, revision: int) -> int:
        return revision - self._base if revision else 0

    async def _rebased(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except Conflict as error:
            raise Conflict(error.key, self._here(error.expected), self._here(error.actual)) from None
        except Compacted as error:
            compacted = self._here(error.compacted_revision)
            raise Compacted(self._here(error.revision), compacted) from None
        except FutureRevision as error:
            raise FutureRevision(self._here(error.revision), self._here(error.current)) from None

    def _item(self, item: KeyValue) -> KeyValue:
        return KeyValue(item.key, item.value, self._here(item.create_revision), self._here(item.mod_revision))

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        found = await self._rebased(self._store.get(key, revision=self._there(revision)))
        return None if found is None else self._item(found)

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        found = await self._rebased(self._store.range(start, end, limit=limit, revision=self._there(revision)))
        return RangeResult([self._item(one) for one in found.items], self._here(found.revision), found.count)

    def _guard(self, guard: int | None) -> int | None:
        return None if guard is None else self._there(guard)

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        put = self._store.put(key, value, guard=self._guard(guard), ttl=ttl, attachment=attachment)
        return self._here(await self._rebased(put))

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        delete = self._store.delete(key, guard=self._guard(guard), attachment=attachment)
        return self._here(await self._rebased(delete))

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> NoReturn:
        self._store.submit(key, value, guard=guard, attachment=attachment)

    def pending(self, key: str) -> None:
        self._store.pending(key)

    async def catch_up(self) -> None:
        await self._store.catch_up()

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        def rebased(events: Sequence[Event]) -> None:
            deliver([self._event(one) for one in events])

        return await self._rebased(self._store.watch(prefix, start_revision + self._base, rebased, lost))

    def _event(self, event: Event) -> Event:
        return msgspec.structs.replace(
            event,
            revision=self._here(event.revision),
            create_revision=self._here(event.create_revision),
            previous_revision=self._here(event.previous_revision),
        )

    async def compact(self, revision: int) -> None:
        await self._rebased(self._store.compact(revision + self._base))
