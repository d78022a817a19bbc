"""What the members of an etcd cluster agree about: keys with revisions, history, leases, compaction.

Source of the behaviour: etcd 3.5, `server/storage/mvcc` and `server/lease`; the words of errors are those of `api/v3rpc/rpctypes`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Final

from bayplan.store.etcd.messages import EVENT_DELETE, MESSAGES, TARGET_VERSION
from bayplan.support.grpc.errors import RpcError

_EQUAL, _GREATER, _LESS, _NOT_EQUAL = range(4)
_COMPARISONS: Final[dict[int, Callable[[int, int], bool]]] = {
    _EQUAL: int.__eq__,
    _GREATER: int.__gt__,
    _LESS: int.__lt__,
    _NOT_EQUAL: int.__ne__,
}
_ALL: Final = b"\0"
"""As the end of a range: up to the last key."""


class EtcdState:
    """The keys, and all that ever happened to them; `compacted` says what of it may still be told."""

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0
        """Reads below this revision fail."""
        self.changes: list[tuple[int, list[Any]]] = []
        """(revision, mvccpb.Event messages with `prev_kv`), by revision. All of them, for those who check what clients were told."""
        self._past: dict[bytes, list[tuple[int, Any | None]]] = {}
        """By key, (revision, KeyValue or None where it was deleted)."""
        self._names: list[bytes] = []
        """The keys of `_past`, in order."""
        self.leases: dict[int, int] = {}
        """Seconds by id."""
        self._keys_of_lease: dict[int, set[bytes]] = {}
        self._next_lease = 1
        self.on_change: list[Callable[[int, list[Any]], None]] = []
        """Called with every change when it is made."""

    def header(self) -> Any:
        """The header of a response."""
        return MESSAGES["ResponseHeader"](revision=self.revision)

    # Reading

    def _at(self, key: bytes, revision: int) -> Any | None:
        past = self._past.get(key, ())
        position = bisect_right(past, revision, key=lambda one: one[0])
        return past[position - 1][1] if position else None

    def keys(self, first: bytes, end: bytes, revision: int) -> list[Any]:
        """The KeyValues of a range as of a revision, in order of key."""
        if not end:
            found = self._at(first, revision)
            return [found] if found is not None else []
        names = self._names[bisect_left(self._names, first) : None if end == _ALL else bisect_left(self._names, end)]
        return [found for name in names if (found := self._at(name, revision)) is not None]

    def range(self, request: Any) -> Any:
        """Answer a RangeRequest. Raises RpcError."""
        revision = request.revision or self.revision
        if revision > self.revision:
            raise RpcError("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision")
        if revision < self.compacted:
            raise RpcError("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted")
        found = self.keys(request.key, request.range_end, revision)
        response = MESSAGES["RangeResponse"](header=self.header(), count=len(found))
        if request.count_only:
            return response
        page = found[: request.limit] if request.limit else found
        response.more = len(page) < len(found)
        for one in page:
            kept = response.kvs.add()
            kept.CopyFrom(one)
            if request.keys_only:
                kept.value = b""
        return response

    def changes_from(self, revision: int) -> Iterator[tuple[int, list[Any]]]:
        """What happened at a revision and after it."""
        yield from self.changes[bisect_left(self.changes, revision, key=lambda one: one[0]) :]

    # Writing

    def put(self, request: Any) -> Any:
        """Answer a PutRequest. Raises RpcError."""
        self._check_lease(request.lease)
        events: list[Any] = []
        response = self._put(request, self.revision + 1, events)
        self._commit(events)
        response.header.CopyFrom(self.header())
        return response

    def delete_range(self, request: Any) -> Any:
        """Answer a DeleteRangeRequest."""
        events: list[Any] = []
        response = self._delete(request, self.revision + 1, events)
        self._commit(events)
        response.header.CopyFrom(self.header())
        return response

    def transaction(self, request: Any) -> Any:
        """Answer a TxnRequest: all its writes get one revision. Raises RpcError."""
        holds = all(self._compare(one) for one in request.compare)
        operations = request.success if holds else request.failure
        for operation in operations:
            if operation.WhichOneof("request") == "request_put":
                self._check_lease(operation.request_put.lease)
        response = MESSAGES["TxnResponse"](succeeded=holds)
        events: list[Any] = []
        for operation in operations:
            which = operation.WhichOneof("request")
            done = response.responses.add()
            if which == "request_range":
                done.response_range.CopyFrom(self.range(operation.request_range))
            elif which == "request_put":
                done.response_put.CopyFrom(self._put(operation.request_put, self.revision + 1, events))
            else:
                done.response_delete_range.CopyFrom(
                    self._delete(operation.request_delete_range, self.revision + 1, events)
                )
        self._commit(events)
        response.header.CopyFrom(self.header())
        return response

    def _compare(self, compare: Any) -> bool:
        found = self._at(compare.key, self.revision)
        if compare.target == TARGET_VERSION:
            have, wanted = found.version if found is not None else 0, compare.version
        else:
            have, wanted = found.mod_revision if found is not None else 0, compare.mod_revision
        return _COMPARISONS[compare.result](have, wanted)

    def _put(self, request: Any, revision: int, events: list[Any]) -> Any:
        before = self._at(request.key, revision)
        kept = MESSAGES["KeyValue"](
            key=request.key,
            value=request.value,
            create_revision=before.create_revision if before is not None else revision,
            mod_revision=revision,
            version=before.version + 1 if before is not None else 1,
            lease=request.lease,
        )
        self._attach(request.key, before, request.lease)
        if request.key not in self._past:
            insort(self._names, request.key)
        self._past.setdefault(request.key, []).append((revision, kept))
        events.append(MESSAGES["Event"](kv=kept, prev_kv=before))
        return MESSAGES["PutResponse"]()

    def _delete(self, request: Any, revision: int, events: list[Any]) -> Any:
        found = self.keys(request.key, request.range_end, self.revision)
        for before in found:
            self._attach(before.key, before, 0)
            self._past[before.key].append((revision, None))
            gone = MESSAGES["KeyValue"](key=before.key, mod_revision=revision)
            events.append(MESSAGES["Event"](type=EVENT_DELETE, kv=gone, prev_kv=before))
        return MESSAGES["DeleteRangeResponse"](deleted=len(found))

    def _commit(self, events: list[Any]) -> None:
        if not events:
            return
        self.revision += 1
        self.changes.append((self.revision, events))
        for told in self.on_change:
            told(self.revision, events)

    def compact(self, request: Any) -> Any:
        """Answer a CompactionRequest. Raises RpcError."""
        if request.revision <= self.compacted:
            raise RpcError("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted")
        if request.revision > self.revision:
            raise RpcError("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision")
        self.compacted = request.revision
        return MESSAGES["CompactionResponse"](header=self.header())

    # Leases

    def _check_lease(self, lease: int) -> None:
        if lease and lease not in self.leases:
            raise RpcError("NOT_FOUND", "etcdserver: requested lease not found")

    def _attach(self, key: bytes, before: Any | None, lease: int) -> None:
        if before is not None and before.lease in self._keys_of_lease:
            self._keys_of_lease[before.lease].discard(key)
        if lease:
            self._keys_of_lease[lease].add(key)

    def grant(self, request: Any) -> Any:
        """Answer a LeaseGrantRequest."""
        lease = request.id or self._next_lease
        self._next_lease = max(self._next_lease, lease) + 1
        self.leases[lease], self._keys_of_lease[lease] = request.ttl, set()
        return MESSAGES["LeaseGrantResponse"](header=self.header(), id=lease, ttl=request.ttl)

    def revoke(self, lease: int) -> Any:
        """Answer a LeaseRevokeRequest, or end a lease whose time is up: its keys go at one revision. Raises RpcError."""
        self._check_lease(lease)
        events: list[Any] = []
        for key in sorted(self._keys_of_lease[lease]):
            self._delete(MESSAGES["DeleteRangeRequest"](key=key), self.revision + 1, events)
        del self.leases[lease], self._keys_of_lease[lease]
        self._commit(events)
        return MESSAGES["LeaseRevokeResponse"](header=self.header())
