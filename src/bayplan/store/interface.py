"""The contract of every store, in etcd's terms: one revision counter, keys with create and mod revisions, guarded
writes, ranges at a revision, watches from a revision, compaction, time to live.

There are two sorts. A *sole writer* keeps other processes away: it knows the revision of a write before that is committed, and whoever reads what it has
delivered reads the present. A *shared* store has writers elsewhere: what it has delivered may be behind, until `catch_up` returns.

A store knows nothing of Kubernetes: keys are strings, values are bytes, and both mean nothing to it. The conformance
suite in `bayplan.testing.store_conformance` states this contract as tests and runs against every implementation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec


class UnreadableValue(bytes):
    """A value as it is stored, which cannot be turned into what it stands for; what is stored beside it is served nevertheless. Stores that keep what they were
    given have none."""

    reason: str
    """Why not, with the key in it."""

    @classmethod
    def of(cls, value: bytes, reason: str) -> UnreadableValue:
        """Mark a value."""
        marked = cls(value)
        marked.reason = reason
        return marked


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One key as of one revision."""

    key: str
    value: bytes
    """An `UnreadableValue` where it is kept in another form that cannot be read."""
    create_revision: int
    """Revision of the write that created this incarnation of the key."""
    mod_revision: int
    """Revision of the last write; the guard of optimistic concurrency."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One committed change. Of a sole writer, exactly one event exists per revision, and revisions have no gaps. Of a shared store, a watch may see gaps
    (writes of others under other keys) and several events of one revision, about different keys; those are delivered together.

    A struct and not a dataclass like `RangeResult`, as `KeyValue`: one of each is made per write, ten times as fast.
    """

    key: str
    revision: int
    value: bytes | None
    """The new value, as in `KeyValue`; None if the key was deleted."""
    create_revision: int
    """Create revision of the key (of the deleted incarnation, if it was deleted)."""
    previous: bytes | None
    """The value before this change; None if the key did not exist, or the store was told not to tell."""
    previous_revision: int
    """Mod revision before this change; 0 if the key did not exist. A shared store that was told not to tell the value may not know this either (0), nor the
    create revision of a deleted key."""
    attachment: object = None
    """What the writer handed to `put`/`delete` along with the bytes (such as the decoded object), if this store runs in
    the writer's process and the event is live; None otherwise, and always None in events of the past. Never stored."""


@dataclass(frozen=True, slots=True)
class RangeResult:
    """An ordered page of keys, all as of one revision."""

    items: list[KeyValue]
    revision: int
    """The revision that the page shows."""
    count: int
    """Number of keys in the whole range at that revision, this page's included."""

    @property
    def more(self) -> bool:
        """Whether keys of the range follow after this page's last one."""
        return self.count > len(self.items)


Deliver = Callable[[Sequence[Event]], None]
"""Called on the event loop with consecutive events, in order of revision. It must not block and must not raise."""


Lost = Callable[[int], None]
"""Called on the event loop when a watch cannot deliver what comes next, because that was compacted while a shared store could not be reached, or cannot be read:
with the oldest revision from which one could go on. The watch has ended."""


class Watch(Protocol):
    """A running subscription."""

    def cancel(self) -> None:
        """Stop: no event is delivered after this returns. Calling it again does nothing."""


class PendingWrite(Protocol):
    """A write that was submitted and is not committed yet. It is certain to be committed unless the store fails; then the writes submitted after it
    fail as well."""

    @property
    def revision(self) -> int:
        """The revision that it gets."""

    @property
    def attachment(self) -> object:
        """What its event carries besides."""

    @property
    def committed(self) -> asyncio.Future[int]:
        """Its revision, once it is committed and the watches have it; or what the store raises. Cancel this future if you wait only for a later write."""


@runtime_checkable
class Store(Protocol):
    """A versioned key-value store.

    Guarantees:
      * an awaited write that returned is durable to the degree the store promises (`memory:` none, `sqlite:` power
        loss);
      * revisions are assigned in the order in which writes become visible; by a sole writer without gaps, starting at 1;
      * watches that run in the writer's process have received the event of a write before that write's `await` returns;
      * a write whose guard fails changes nothing and raises `Conflict`.
    """

    @property
    def sole_writer(self) -> bool:
        """Whether no other process can write to what is stored while it is open."""

    @property
    def revision(self) -> int:
        """The last committed revision that the watches have; 0 for an empty store of a sole writer that never saw a write."""

    @property
    def compacted_revision(self) -> int:
        """Reads and watches at a revision lower than this raise `Compacted`, of a shared store perhaps watches at this revision as well; 0 if nothing was
        compacted."""

    @property
    def write_error(self) -> str:
        """Why the last write was not stored, or that one has been waiting for more than ten seconds; "" if the last write
        was stored. For health checks: a store that cannot be written to can still be read."""

    async def open(self) -> None:
        """Make the store usable. Raises `StoreUnavailable`, `StoreLocked` or `StoreCorrupt`, each with the reason and
        the next step."""

    async def close(self) -> None:
        """Flush what was acknowledged and release everything. Waiting writes finish first; later calls raise
        `StoreClosed`."""

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """The key as of `revision` (0: the last committed one), or None. Raises `Compacted`, `FutureRevision`."""

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        """Keys k with start <= k < end in order, at most `limit` (0: all), as of `revision` (0: the last committed
        one). Raises `Compacted`, `FutureRevision`."""

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        """Write the key and return the new revision.

        guard: the mod revision that the key must have, 0 for "must not exist", None for unconditional.
        ttl: seconds after which the store deletes the key by itself, unless it was written again; a shared store may take a little longer.
        attachment: for the event. It belongs to the store from now on, whatever comes of the write.
        Raises `Conflict`, which carries the mod revision that stood in the way (possibly of a write not yet committed; of a shared store, the watches have it),
        `ValueTooLarge`, and `StoreUnavailable`, which of a shared store can mean that the answer was lost.
        """

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        """Delete the key and return the revision of the deletion. Raises `Conflict` (also if the key does not
        exist)."""

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> PendingWrite:
        """`put`, or (if the value is None) `delete`, without waiting for the commit. Raises `Conflict` at once, and `SharedStore` if this is no sole
        writer."""

    def pending(self, key: str) -> PendingWrite | None:
        """The newest write of the key that is not committed yet; None if there is none. `submit` can build on it."""

    @property
    def knows_lag(self) -> bool:
        """Whether `may_be_behind` is exact. Otherwise it is always true of a shared store, and `catch_up` asks."""

    @property
    def may_be_behind(self) -> bool:
        """Whether something may be committed that the watches do not have yet, so that `catch_up` is worth a call; never so of a sole writer."""

    async def catch_up(self) -> None:
        """Return when the watches have everything that was committed before the call, by whomever; at once for a sole writer. Raises `StoreUnavailable`."""

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        """Deliver every event with revision >= start_revision whose key starts with `prefix`, past ones first, then
        those to come, none twice, none left out. The past has been delivered when this returns; a start_revision in the
        future waits for it. Raises `Compacted` if events from start_revision on are no longer all kept. lost: see there; a sole writer never calls it."""

    async def compact(self, revision: int) -> None:
        """Forget what is needed only for reads before `revision`. The newest value of a key is always kept, so are
        reads at `revision` and the events from it on. Does nothing if that much is forgotten already; raises
        `FutureRevision`."""
