"""The head of a volume: it sends each write to all replicas, reads from one, drops replicas that fail and rebuilds those that are missing.

- A write is acknowledged when every member has it, and at least `min_in_sync` members are in sync; a flush when it is on every member's disk.
- A member that fails is struck from the record of replicas in sync (`Record`) before the write that it missed is acknowledged.
- A rebuilt member gets all writes from the beginning and is copied to beside them, block by block, so that it has everything when the copy ends.
- A head that died may have left writes on some members only, none of them acknowledged: the next head makes the members equal before it serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
from collections.abc import Awaitable, Iterable
from typing import Final, Protocol

from .replica import ANSWER, DIGEST, FLUSH, READ, REQUEST, WRITE

logger = logging.getLogger(__name__)

BLOCK: Final = 1 << 20
"""Bytes that are compared and copied at once."""
_ANSWER_SECONDS: Final = 15.0
_CONNECT_SECONDS: Final = 5.0


class Fenced(OSError):
    """Another head has taken the volume."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "another head has taken the volume")


class Record(Protocol):
    """Where it is recorded which replicas are in sync, under the epoch of this head."""

    async def put(self, in_sync: Iterable[str], rebuilding: Iterable[str]) -> None:
        """Return when it is recorded, however long that takes. Raises Fenced if the epoch has passed."""


async def _in_time(answer: asyncio.Future[bytes]) -> bytes:
    async with asyncio.timeout(_ANSWER_SECONDS):
        return await answer


class Member:
    """The connection to one replica. Requests are answered in the order in which they were submitted."""

    def __init__(self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.node = node
        self._reader, self._writer = reader, writer
        self._waiting: list[asyncio.Future[bytes]] = []
        self.is_open = True
        """Whether the connection stands."""
        self._task = asyncio.create_task(self._receive(), name=f"replica on {node}")

    @classmethod
    async def open(
        cls, node: str, address: str, port: int, *, disk: str, volume: str, size: int, epoch: int, create: bool
    ) -> Member:
        """Open a replica. Raises OSError."""
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                wanted = {"disk": disk, "volume": volume, "size": size, "epoch": epoch, "create": create}
                writer.write(json.dumps(wanted).encode() + b"\n")
                line = await reader.readline()
                said = json.loads(line) if line else {"errno": errno.EIO, "error": "the replica's agent hung up"}
                if said:
                    raise OSError(said["errno"], said["error"])
            except BaseException:
                await _close(writer)
                raise
        return cls(node, reader, writer)

    def submit(self, operation: int, offset: int = 0, length: int = 0, data: bytes = b"") -> Awaitable[bytes]:
        """Send a request now; await its answer. The answer raises OSError."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if not self.is_open:
            future.set_exception(OSError(errno.ENOTCONN, f"the replica on {self.node} has gone"))
            return future
        self._waiting.append(future)
        self._writer.write(REQUEST.pack(operation, offset, length) + data)
        return _in_time(future)

    async def _receive(self) -> None:
        try:
            while True:
                code, length = ANSWER.unpack(await self._reader.readexactly(ANSWER.size))
                body = await self._reader.readexactly(length)
                future = self._waiting.pop(0)
                if future.done():
                    continue
                if code:
                    future.set_exception(OSError(code, f"replica on {self.node}"))
                else:
                    future.set_result(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            logger.warning("the replica on %s has gone", self.node)
        finally:
            self.is_open = False
            for future in self._waiting:
                if not future.done():
                    future.set_exception(OSError(errno.ENOTCONN, f"the replica on {self.node} has gone"))
            await _close(self._writer)

    def close(self) -> None:
        """End the connection; requests that wait fail."""
        self.is_open = False
        self._task.cancel()

    async def wait_closed(self) -> None:
        """Return when it has ended."""
        await asyncio.wait({self._task})


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):  # it is closed in any case
        await writer.wait_closed()


class Head:
    """See the module. `local` is the node whose replica is read, if it has one."""

    def __init__(self, size: int, min_in_sync: int, record: Record, local: str = "") -> None:
        self.size = size
        self.in_sync: dict[str, Member] = {}
        self.rebuilding: dict[str, Member] = {}
        self._min_in_sync = min_in_sync
        self._record = record
        self._local = local
        self._order = asyncio.Lock()
        """Held while a write is submitted, and while a block is copied: no write to it comes between its read and its write."""
        self._membership = asyncio.Lock()
        self._enough = asyncio.Condition()

    async def start(self, members: Iterable[Member]) -> None:
        """Begin with the replicas that are in sync. Raises OSError: Fenced, or if none is left."""
        self.in_sync = {one.node: one for one in members}
        if not self.in_sync:
            raise OSError(errno.EIO, "no replica that is in sync can be reached")
        source = self._source()
        for target in [one for one in self.in_sync.values() if one is not source]:
            try:
                await self._copy(target)
            except Fenced:
                raise
            except OSError as error:
                await self._drop({target.node: error})
        await self._put()

    async def close(self) -> None:
        """End all connections."""
        members = (*self.in_sync.values(), *self.rebuilding.values())
        for one in members:
            one.close()
        await asyncio.gather(*(one.wait_closed() for one in members))

    # What the file does (fuse.Content)

    async def read(self, offset: int, length: int) -> bytes:
        """See Content. A replica that cannot be read is dropped, and the next one is read."""
        while True:
            source = self._source()
            try:
                return await source.submit(READ, offset, length)
            except OSError as error:
                await self._drop({source.node: error})

    async def write(self, offset: int, data: bytes) -> None:
        """See Content."""
        await self._everywhere(WRITE, offset, data)

    async def flush(self) -> None:
        """See Content."""
        await self._everywhere(FLUSH, 0, b"")

    async def _everywhere(self, operation: int, offset: int, data: bytes) -> None:
        async with self._order:  # fair, so that writes are submitted in the order in which they came
            members = [*self.in_sync.values(), *self.rebuilding.values()]
            answers = [one.submit(operation, offset, len(data), data) for one in members]
        results = await asyncio.gather(*answers, return_exceptions=True)
        failed = {one.node: found for one, found in zip(members, results, strict=True) if isinstance(found, Exception)}
        if failed:
            await self._drop(failed)
        async with self._enough:
            await self._enough.wait_for(lambda: len(self.in_sync) >= self._min_in_sync)

    # Members

    def _source(self) -> Member:
        return self.in_sync.get(self._local) or next(iter(self.in_sync.values()))

    async def _drop(self, failed: dict[str, Exception]) -> None:
        """Go on without these. Raises OSError: Fenced, or if they are all that there are."""
        async with self._membership:
            if any(isinstance(error, OSError) and error.errno == errno.ESTALE for error in failed.values()):
                raise Fenced
            if not set(self.in_sync) - set(failed):
                raise OSError(errno.EIO, "the last replica has failed")
            gone = set(failed)
            if not gone & {*self.in_sync, *self.rebuilding}:
                return
            for node in sorted(gone):
                logger.warning("the replica on %s is out of sync: %s", node, failed[node])
            # Recorded before they are members no more: a write that does not go to them cannot be acknowledged earlier.
            await self._record.put(set(self.in_sync) - gone, set(self.rebuilding) - gone)
            for members in (self.in_sync, self.rebuilding):
                for node in gone & set(members):
                    members.pop(node).close()

    async def drop_unwanted(self, wanted: Iterable[str]) -> None:
        """Go on without replicas that have no place any more, and without those whose connections have broken."""
        keep = set(wanted)
        gone: dict[str, Exception] = {}
        for one in (*self.in_sync.values(), *self.rebuilding.values()):
            if one.node not in keep or not one.is_open:
                gone[one.node] = OSError(errno.ENOTCONN, "gone" if one.node in keep else "has no place any more")
        if gone:
            await self._drop(gone)

    async def rebuild(self, member: Member) -> None:
        """Copy everything to a new or stale replica while the volume is used. Raises OSError."""
        async with self._order:
            self.rebuilding[member.node] = member
        try:
            await self._put()
            await self._copy(member)
            await member.submit(FLUSH)
            async with self._membership:
                if self.rebuilding.get(member.node) is not member:
                    raise OSError(errno.ENOTCONN, f"the replica on {member.node} has failed again")
                await self._record.put([*self.in_sync, member.node], set(self.rebuilding) - {member.node})
                self.in_sync[member.node] = self.rebuilding.pop(member.node)
            logger.info("the replica on %s is in sync", member.node)
            async with self._enough:
                self._enough.notify_all()
        except BaseException:
            if self.rebuilding.pop(member.node, None) is not None:
                member.close()
                with contextlib.suppress(Fenced):  # what has failed is raised
                    await self._put()
            raise

    async def _copy(self, target: Member) -> None:
        """Make a replica equal to one that is in sync, where it differs. Raises OSError: the target has failed."""
        for offset in range(0, self.size, BLOCK):
            length = min(BLOCK, self.size - offset)
            while not await self._copy_block(target, offset, length):
                logger.info("copying from another replica")

    async def _copy_block(self, target: Member, offset: int, length: int) -> bool:
        """Whether it is done; else the source has failed, and was dropped."""
        async with self._order:
            source = self._source()
            if source is target:
                return True
            digests = [one.submit(DIGEST, offset, length) for one in (source, target)]
            wanted, found = await asyncio.gather(*digests, return_exceptions=True)
            if isinstance(found, BaseException):
                raise found
            if wanted == found:
                return True
            if not isinstance(wanted, BaseException):
                (wanted,) = await asyncio.gather(source.submit(READ, offset, length), return_exceptions=True)
            if isinstance(wanted, bytes):
                await target.submit(WRITE, offset, length, wanted)
                return True
        if not isinstance(wanted, OSError):
            raise wanted
        await self._drop({source.node: wanted})
        return False

    async def _put(self) -> None:
        async with self._membership:  # so that nothing is recorded that was true before something else was
            await self._record.put(tuple(self.in_sync), tuple(self.rebuilding))
