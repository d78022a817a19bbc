"""Watches of a simulated cluster: one stream, its watchers, and what a network and a member do to them.

Source of the behaviour: etcd 3.5, `server/etcdserver/api/v3rpc/watch.go` and `server/storage/mvcc/watchable_store.go`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from bayplan.store.etcd.messages import EVENT_DELETE, FILTER_DELETE, FILTER_PUT, MESSAGES
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.testing.etcd.cluster import Member, SimulatedEtcd

_KEEPALIVE_SECONDS: Final = 40.0
"""Seconds after which a client takes a member for dead from which nothing comes."""
_NO_LEADER_SECONDS: Final = 3.0
"""Seconds without a leader after which a member ends streams that want one."""
_PROGRESS_SECONDS: Final = 10.0
_ALL: Final = b"\0"


@dataclass(slots=True)
class _Watcher:
    """One watch as the member sees it."""

    watch_id: int
    key: bytes
    end: bytes
    next_revision: int
    filters: frozenset[int]
    previous: bool
    progress: bool
    is_synced: bool = False
    told: bool = False
    """Whether it got events since the last progress."""

    def shown(self, events: list[Any]) -> list[Any]:
        """The events that it asked for, of those of one revision."""
        found = []
        for event in events:
            key, kind = event.kv.key, FILTER_DELETE if event.type == EVENT_DELETE else FILTER_PUT
            inside = key >= self.key and (self.end == _ALL or key < self.end) if self.end else key == self.key
            if inside and kind not in self.filters:
                shown = MESSAGES["Event"](type=event.type, kv=event.kv)
                if self.previous and event.HasField("prev_kv"):
                    shown.prev_kv.CopyFrom(event.prev_kv)
                found.append(shown)
        return found


class SimulatedStream:
    """A stream of watches between one client and one member. See `bayplan.support.grpc.types.Stream`."""

    def __init__(self, cluster: SimulatedEtcd, client: str, member: Member) -> None:
        self._cluster, self._client, self._member = cluster, client, member
        self._life = member.lives
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._responses: asyncio.Queue[Any] = asyncio.Queue()
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        self._watchers: dict[int, _Watcher] = {}
        self.ended = False
        member.on_applied.append(self._applied)
        member.on_broken.append(self._broken)
        member.on_restored.append(self._restored)
        self._tasks = [
            cluster.spawn(one)
            for one in (self._take_requests(), self._send_responses(), self._watch_leader(), self._tell_progress())
        ]

    # The client's side

    async def send(self, message: Any) -> None:
        if self.ended:
            raise RpcError("UNAVAILABLE", "the stream has ended")
        self._requests.put_nowait((self._cluster.due(0.001), type(message).FromString(message.SerializeToString())))

    async def receive(self) -> Any | None:
        found = await self._inbox.get()
        if isinstance(found, RpcError):
            self._inbox.put_nowait(found)
            raise found
        return found

    def cancel(self) -> None:
        self._end(RpcError("CANCELLED", "Locally cancelled by application!"))

    def _broken(self, error: RpcError) -> None:
        self._end(error)

    def _end(self, error: RpcError) -> None:
        if self.ended:
            return
        self.ended = True
        self._inbox.put_nowait(error)
        member = self._member
        member.on_applied.remove(self._applied)
        member.on_broken.remove(self._broken)
        member.on_restored.remove(self._restored)
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    # The member's side

    async def _take_requests(self) -> None:
        cluster, member = self._cluster, self._member
        if not member.is_up:
            await cluster.pause(0.001)
            self._end(UnsentError("UNAVAILABLE", "connection refused"))
            return
        while True:
            due, request = await self._requests.get()
            try:
                await cluster.travel(self._client, member, self._life, due)
            except RpcError as error:
                self._end(error)
                return
            await cluster.until(lambda: not member.is_frozen)
            which = request.WhichOneof("request_union")
            if which == "create_request":
                self._create(request.create_request)
            elif which == "cancel_request":
                if self._watchers.pop(request.cancel_request.watch_id, None) is not None:
                    self._respond(request.cancel_request.watch_id, canceled=True)
            elif all(one.is_synced for one in self._watchers.values()):
                self._respond(-1)

    def _create(self, request: Any) -> None:
        watcher = _Watcher(
            request.watch_id,
            request.key,
            request.range_end,
            request.start_revision or self._member.applied + 1,
            frozenset(request.filters),
            request.prev_kv,
            request.progress_notify,
        )
        self._watchers[watcher.watch_id] = watcher
        self._respond(watcher.watch_id, created=True)
        if watcher.next_revision > self._member.applied:
            watcher.is_synced = True
        else:
            self._tasks.append(self._cluster.spawn(self._synchronize(watcher)))

    async def _synchronize(self, watcher: _Watcher) -> None:
        """Tell a watcher of the past, in pieces, until it has come to where the member is."""
        cluster, member = self._cluster, self._member
        while self._watchers.get(watcher.watch_id) is watcher and not watcher.is_synced:
            await cluster.pause(0.005)
            await cluster.until(lambda: not member.is_frozen)
            compacted = cluster.state.compacted
            if watcher.next_revision < compacted:
                del self._watchers[watcher.watch_id]
                self._respond(watcher.watch_id, canceled=True, compact_revision=compacted)
                return
            most = cluster.chance.randint(1, 40)
            found: list[Any] = []
            for revision, events in cluster.state.changes_from(watcher.next_revision):
                if revision > member.applied or len(found) >= most:
                    break
                if revision == compacted:  # a deletion at the compacted revision is not kept
                    events = [event for event in events if event.type != EVENT_DELETE]
                found += watcher.shown(events)
                watcher.next_revision = revision + 1
            self._tell(watcher, found)
            watcher.is_synced = watcher.next_revision > member.applied

    def _applied(self, revision: int, events: list[Any]) -> None:
        for watcher in self._watchers.values():
            if watcher.is_synced and revision >= watcher.next_revision:
                self._tell(watcher, watcher.shown(events))
                watcher.next_revision = revision + 1

    def _restored(self) -> None:
        """The member has missed changes: watchers are told of them from the history, as far as that is kept."""
        for watcher in list(self._watchers.values()):
            if watcher.is_synced and watcher.next_revision <= self._member.applied:
                watcher.is_synced = False
                self._tasks.append(self._cluster.spawn(self._synchronize(watcher)))

    def _tell(self, watcher: _Watcher, events: list[Any]) -> None:
        """Send events, now and then in fragments."""
        if not events:
            return
        watcher.told = True
        chance = self._cluster.chance
        while len(events) > 1 and chance.random() < 0.2:
            part = chance.randint(1, len(events) - 1)
            self._respond(watcher.watch_id, events=events[:part], fragment=True)
            events = events[part:]
        self._respond(watcher.watch_id, events=events)

    def _respond(self, watch_id: int, **fields: Any) -> None:
        header = MESSAGES["ResponseHeader"](revision=self._member.applied)
        response = MESSAGES["WatchResponse"](header=header, watch_id=watch_id, **fields)
        self._responses.put_nowait((self._cluster.due(0.001), response.SerializeToString()))

    async def _send_responses(self) -> None:
        cluster, member = self._cluster, self._member
        while True:
            due, data = await self._responses.get()
            await cluster.wait_for(due)
            await cluster.until(lambda: not member.is_frozen)
            if cluster.is_cut(self._client, member.endpoint):
                try:
                    async with asyncio.timeout(_KEEPALIVE_SECONDS):
                        await cluster.until(lambda: not cluster.is_cut(self._client, member.endpoint))
                except TimeoutError:
                    self._end(RpcError("UNAVAILABLE", "keepalive watchdog timeout"))
                    return
            self._inbox.put_nowait(MESSAGES["WatchResponse"].FromString(data))

    async def _watch_leader(self) -> None:
        without = 0.0
        while True:
            await asyncio.sleep(0.5)
            without = 0.0 if self._cluster.has_leader(self._member) else without + 0.5
            if without > _NO_LEADER_SECONDS and not self._member.is_frozen:
                self._end(RpcError("UNAVAILABLE", "etcdserver: no leader"))
                return

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS * self._cluster.chance.uniform(0.5, 1.5))
            if self._member.is_frozen:
                continue
            for watcher in list(self._watchers.values()):
                if watcher.progress and watcher.is_synced and not watcher.told:
                    self._respond(watcher.watch_id)
                watcher.told = False
