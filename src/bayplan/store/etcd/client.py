"""A client of etcd's v3 API: keys, transactions, leases, watches, maintenance.

    client = EtcdClient(EtcdSettings(endpoints=("127.0.0.1:2379",)), clock=SystemClock())
    await client.put(b"/a", b"1")
    page = await client.range(b"/a", limit=10)
    watch = client.watch(b"/", b"0", start_revision=page.revision + 1, on_events=print, on_lost=print)
    await client.close()

Reads are linearizable unless `serializable` is set, and tried at other members when one does not answer; a change is tried again only if it was not sent.
Every method raises EtcdError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bayplan.store.etcd.connection import Connection, Dial
from bayplan.store.etcd.errors import EtcdCompacted, EtcdError, EtcdUnavailable, error_of
from bayplan.store.etcd.messages import (
    ALARM_DEACTIVATE,
    ALARM_GET,
    ALARM_NAMES,
    CLUSTER,
    COMPARE_EQUAL,
    KV,
    LEASE,
    MAINTENANCE,
    MESSAGES,
    TARGET_MOD,
    TARGET_VERSION,
)
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.store.etcd.watches import BeforeEvents, EtcdWatch, OnEvents, OnLost, OnProgress, WatchStream
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError
from bayplan.support.grpc_client.channel import GrpcChannel


@dataclass(frozen=True, slots=True)
class Page:
    """Keys in order, as of `revision` of the store (not of the request)."""

    kvs: Sequence[Any]
    """mvccpb.KeyValue: key, value, create_revision, mod_revision, version, lease."""
    revision: int
    count: int
    """Keys of the whole range."""


@dataclass(frozen=True, slots=True)
class TxnResult:
    """What a transaction did."""

    succeeded: bool
    """Whether all comparisons held."""
    revision: int
    """That of the change; of the store, if there was none."""
    responses: Sequence[Any]
    """One ResponseOp for each operation of the branch that was taken."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What a member says of itself."""

    version: str
    db_size: int
    """Bytes."""
    leader: int
    """Id of the leader; 0 if there is none."""
    member_id: int
    revision: int
    errors: tuple[str, ...]


def mod_revision_is(key: bytes, revision: int) -> Any:
    """The comparison that a key was last changed at a revision; 0: it does not exist."""
    return MESSAGES["Compare"](result=COMPARE_EQUAL, target=TARGET_MOD, key=key, mod_revision=revision)


def version_is(key: bytes, version: int) -> Any:
    """The comparison that a key was written so many times since it was created; 0: it does not exist."""
    return MESSAGES["Compare"](result=COMPARE_EQUAL, target=TARGET_VERSION, key=key, version=version)


def put_op(key: bytes, value: bytes, lease: int = 0) -> Any:
    """Write a key, as part of a transaction."""
    return MESSAGES["RequestOp"](request_put=MESSAGES["PutRequest"](key=key, value=value, lease=lease))


def delete_op(key: bytes, end: bytes = b"") -> Any:
    """Delete a key or a range, as part of a transaction."""
    return MESSAGES["RequestOp"](request_delete_range=MESSAGES["DeleteRangeRequest"](key=key, range_end=end))


def get_op(key: bytes) -> Any:
    """Read a key, as part of a transaction."""
    return MESSAGES["RequestOp"](request_range=MESSAGES["RangeRequest"](key=key))


class EtcdClient:
    """One client of one cluster. It connects at the first call; `close` ends everything."""

    def __init__(self, settings: EtcdSettings, *, clock: Clock, dial: Dial | None = None) -> None:
        """dial: makes the connections; None for those of gRPC over TCP."""
        self.settings = settings
        self._connection = Connection(settings, clock, dial or partial(GrpcChannel, clock=clock))
        self._stream = WatchStream(self._connection, clock)

    @property
    def before_events(self) -> BeforeEvents | None:
        """What events of watches wait for before they are delivered."""
        return self._stream.before_events

    @before_events.setter
    def before_events(self, wait: BeforeEvents) -> None:
        self._stream.before_events = wait

    @property
    def endpoint(self) -> str:
        """The member that is in use."""
        return self._connection.endpoint

    async def close(self) -> None:
        """End watches and connections."""
        await self._stream.close()
        await self._connection.close()

    async def range(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
        serializable: bool = False,
    ) -> Page:
        """The key, or the keys k with key <= k < end in order. revision: as of which; 0 for now."""
        request = MESSAGES["RangeRequest"](
            key=key,
            range_end=end,
            limit=limit,
            revision=revision,
            keys_only=keys_only,
            count_only=count_only,
            serializable=serializable,
        )
        response = await self._connection.call(KV + "Range", request, "RangeResponse")
        return Page(response.kvs, response.header.revision, response.count)

    async def put(self, key: bytes, value: bytes, *, lease: int = 0) -> int:
        """Write a key; returns the revision."""
        request = MESSAGES["PutRequest"](key=key, value=value, lease=lease)
        response = await self._connection.call(KV + "Put", request, "PutResponse", changes=True)
        return int(response.header.revision)

    async def delete(self, key: bytes, end: bytes = b"") -> tuple[int, int]:
        """Delete a key or a range; returns how many there were, and the revision."""
        request = MESSAGES["DeleteRangeRequest"](key=key, range_end=end)
        response = await self._connection.call(KV + "DeleteRange", request, "DeleteRangeResponse", changes=True)
        return int(response.deleted), int(response.header.revision)

    async def transaction(
        self, compare: Sequence[Any], success: Sequence[Any], failure: Sequence[Any] = ()
    ) -> TxnResult:
        """Do what `success` says if all comparisons hold, what `failure` says otherwise, as one change."""
        request = MESSAGES["TxnRequest"](compare=compare, success=success, failure=failure)
        response = await self._connection.call(KV + "Txn", request, "TxnResponse", changes=True)
        return TxnResult(response.succeeded, response.header.revision, response.responses)

    async def compact(self, revision: int) -> None:
        """Forget what is needed only for reads before `revision`. Raises EtcdCompacted if that is done already."""
        request = MESSAGES["CompactionRequest"](revision=revision)
        await self._connection.call(KV + "Compact", request, "CompactionResponse")

    async def compacted_revision(self) -> int:
        """The revision at which the store was compacted last; 0 if it never was. There is no call for that: a read and a watch of the past tell it."""
        probe = b"\0"
        try:
            await self.range(probe, revision=1, count_only=True)
        except EtcdCompacted:
            return await self._stream.compacted_revision(probe)
        return 0

    async def grant(self, seconds: int) -> int:
        """A new lease; returns its id. The server may give it a longer life."""
        request = MESSAGES["LeaseGrantRequest"](ttl=seconds)
        response = await self._connection.call(LEASE + "LeaseGrant", request, "LeaseGrantResponse", changes=True)
        return int(response.id)

    async def revoke(self, lease: int) -> None:
        """End a lease; its keys are deleted, at one revision. Raises EtcdLeaseNotFound."""
        request = MESSAGES["LeaseRevokeRequest"](id=lease)
        await self._connection.call(LEASE + "LeaseRevoke", request, "LeaseRevokeResponse")

    async def keep_alive(self, lease: int) -> int:
        """Let the life of a lease start anew; returns its seconds. Raises EtcdLeaseNotFound."""
        connection = self._connection
        try:
            metadata = await connection.metadata()
            stream = connection.channel().duplex(
                LEASE + "LeaseKeepAlive",
                MESSAGES["LeaseKeepAliveRequest"],
                MESSAGES["LeaseKeepAliveResponse"],
                metadata=metadata,
            )
            try:
                await stream.send(MESSAGES["LeaseKeepAliveRequest"](id=lease))
                response = await stream.receive()
            finally:
                stream.cancel()
        except RpcError as error:
            connection.next_endpoint()
            raise error_of(error) from error
        if response is None:
            raise EtcdUnavailable(f"etcd at {self.endpoint} ended the stream")
        if response.ttl <= 0:
            raise error_of(RpcError("NOT_FOUND", "etcdserver: requested lease not found"))
        return int(response.ttl)

    async def time_to_live(self, lease: int) -> int:
        """Seconds that a lease has left. Raises EtcdLeaseNotFound."""
        request = MESSAGES["LeaseTimeToLiveRequest"](id=lease)
        response = await self._connection.call(LEASE + "LeaseTimeToLive", request, "LeaseTimeToLiveResponse")
        if response.ttl < 0:
            raise error_of(RpcError("NOT_FOUND", "etcdserver: requested lease not found"))
        return int(response.ttl)

    def watch(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        start_revision: int,
        on_events: OnEvents,
        on_lost: OnLost,
        on_progress: OnProgress | None = None,
        previous: bool = False,
    ) -> EtcdWatch:
        """Follow a key or a range from a revision on, over failures of members; see `watches`."""
        return self._stream.watch(EtcdWatch(key, end, start_revision, on_events, on_lost, on_progress, previous))

    def request_progress(self) -> None:
        """Ask the server how far all watches are; their `on_progress` hears of it. Only after all of them have caught up, and reliably from 3.4.31 and 3.5.13 on."""
        self._stream.request_progress()

    async def status(self) -> MemberStatus:
        """What the member in use says of itself."""
        response = await self._connection.call(MAINTENANCE + "Status", MESSAGES["StatusRequest"](), "StatusResponse")
        header = response.header
        return MemberStatus(
            response.version,
            response.db_size,
            response.leader,
            header.member_id,
            header.revision,
            tuple(response.errors),
        )

    async def members(self) -> Sequence[Any]:
        """The members: id, name, peer_urls, client_urls, is_learner."""
        request = MESSAGES["MemberListRequest"](linearizable=True)
        found: Sequence[Any] = (
            await self._connection.call(CLUSTER + "MemberList", request, "MemberListResponse")
        ).members
        return found

    async def alarms(self) -> list[tuple[int, str]]:
        """Alarms that are raised: member and NOSPACE or CORRUPT."""
        return await self._alarm(MESSAGES["AlarmRequest"](action=ALARM_GET))

    async def disarm(self, member_id: int, name: str) -> list[tuple[int, str]]:
        """Take an alarm back; returns those that were."""
        number = next((number for number, known in ALARM_NAMES.items() if known == name), 0)
        if not number:
            raise EtcdError(f"unknown alarm {name}, known are NOSPACE and CORRUPT", "INVALID_ARGUMENT")
        return await self._alarm(MESSAGES["AlarmRequest"](action=ALARM_DEACTIVATE, member_id=member_id, alarm=number))

    async def _alarm(self, request: Any) -> list[tuple[int, str]]:
        response = await self._connection.call(MAINTENANCE + "Alarm", request, "AlarmResponse")
        return [(one.member_id, ALARM_NAMES.get(one.alarm, str(one.alarm))) for one in response.alarms]

    async def defragment(self) -> None:
        """Let the member in use write its database anew, without the space that is free in it; it answers nobody meanwhile."""
        await self._connection.call(MAINTENANCE + "Defragment", MESSAGES["DefragmentRequest"](), "DefragmentResponse")

    async def snapshot(self) -> AsyncIterator[bytes]:
        """The database of the member in use, in pieces: the file that `etcdctl snapshot restore` takes."""
        connection = self._connection
        try:
            metadata = await connection.metadata()
            stream = connection.channel().stream(
                MAINTENANCE + "Snapshot",
                MESSAGES["SnapshotRequest"](),
                MESSAGES["SnapshotResponse"],
                metadata=metadata,
            )
            try:
                while (piece := await stream.receive()) is not None:
                    yield piece.blob
            finally:
                stream.cancel()
        except RpcError as error:
            raise error_of(error) from error
