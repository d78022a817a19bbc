"""The fast path for writes that repeat an earlier one of the same object but for times, as leases are renewed: nothing is decoded, compared, checked or encoded.

    object  T0 text T1 text     request  text T2 text     written  T0 text T2 text      seen twice: T1 and T2 may be others from then on
    object  T0 text T2 text     request  text T3 text     written  T0 text T3 text

A write is known by its text and that of the object, both without times and without the object's revision, and by the order of all times, that of the
request among them. It serves kinds whose strategy says that times decide nothing (`times_are_free`), as long as admission lets the write pass without a look
at the object. An outcome is believed when the slow path gave it twice.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.apiserver.admission.chain import UPDATE
from bayplan.apiserver.reads.cache import Prepared
from bayplan.apiserver.reads.watching import Entry
from bayplan.store.errors import Conflict
from bayplan.support.memory.memo import Memo
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call
    from bayplan.apiserver.objects import SubmittedWrite

_QUERY: Final = frozenset(("fieldManager", "fieldValidation"))
_LONGEST: Final = 8192
"""Bytes of a request, and of an object: longer ones take the slow path."""
_MOST_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 300
_TIME: Final = re.compile(rb"\"(20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z)\"")
_REVISION: Final = b'"resourceVersion":"%d"'
_ANY_REVISION: Final = b"\0r"
"""Stands for the revision of the object in a request. JSON has no such bytes in it."""


class _Outcome(NamedTuple):
    """What comes of a write of one object."""

    digest: bytes
    """Of all that decides it."""
    times: tuple[int, ...]
    """The times of the object afterwards, as places among those before, those of the request, and that of the request itself."""
    is_believed: bool


class RepeatedWrite:
    """A write that may have been made before."""

    def __init__(self, memo: RepeatedWrites, call: Call, entry: Entry, content: tuple[object, ...]) -> None:
        """content: what decides the outcome besides the texts."""
        self._memo = memo
        self._call = call
        self._entry = entry
        parts = _TIME.split(_without_revision(entry))
        self._texts = parts[::2]
        asked = _TIME.split(call.request.body.replace(_REVISION % entry.revision, _ANY_REVISION, 1))
        self._asked = asked[1::2]
        self._times = [*parts[1::2], *self._asked, rfc3339(call.context.clock.now()).encode()]
        ranks = {time: rank for rank, time in enumerate(sorted({*self._times}))}
        hashed = hashlib.blake2b(b"\0t".join(self._texts), digest_size=16)
        hashed.update(b"\0t".join(asked[::2]))
        hashed.update(repr((content, [(ranks[time], len(time)) for time in self._times])).encode())
        self._digest = hashed.digest()
        self._key = (call.stored.storage_prefix, entry.namespace, entry.name)
        known = memo.outcomes.get(self._key)
        self._known = known if known is not None and known.digest == self._digest else None

    @property
    def is_known(self) -> bool:
        """Whether the outcome is known."""
        return self._known is not None and self._known.is_believed and all(map(_is_time, self._asked))

    def submit(self) -> SubmittedWrite | None:
        """Submit the write without waiting for its commit; None if the outcome is not known. Raises ApiError, and store.Conflict if another client was faster."""
        if not self.is_known or self._known is None:
            return None
        call, entry = self._call, self._entry
        pieces = [call.stored.type_meta, self._texts[0]]
        for place, text in zip(self._known.times, self._texts[1:], strict=True):
            pieces += (b'"', self._times[place], b'"', text)
        value = b"".join(pieces)
        objects = call.context.objects
        if len(value) > objects.max_object_bytes:
            return None
        call.changed = entry
        return objects.submit(call.stored, entry, value, Prepared(entry.labels, entry.fields, entry.uid))

    async def write(self) -> Entry | None:
        """Write it; None if the outcome is not known, or another client was faster. Raises ApiError."""
        try:
            submitted = self.submit()
        except Conflict as race:
            await self._call.context.objects.settle(race)
            return None
        if submitted is None:
            return None
        await submitted.done()
        return submitted.entry

    def learn(self, after: Entry) -> None:
        """Learn what the slow path, which gave no warning, has made of it."""
        before = self._entry
        if (
            self._call.changed is not before
            or after.revision == before.revision
            or (after.labels, after.fields, after.uid) != (before.labels, before.fields, before.uid)
        ):
            return
        parts = _TIME.split(_without_revision(after))
        if parts[::2] != self._texts or not {*parts[1::2]} <= {*self._times}:
            return
        times = tuple(map(self._times.index, parts[1::2]))
        is_repeated = self._known is not None and self._known.times == times
        self._memo.outcomes.put(self._key, _Outcome(self._digest, times, is_repeated), _ENTRY_BYTES)


class RepeatedWrites:
    """The outcomes of writes, one of each object."""

    def __init__(self) -> None:
        self.outcomes: Memo[tuple[str, str, str], _Outcome] = Memo("repeated_writes", most_bytes=_MOST_BYTES)

    def find(self, call: Call) -> RepeatedWrite | None:
        """A write of an object as pending writes leave it; None if it can only take the slow path."""
        request, path = call.request, call.path
        query = request.query
        if (
            not call.strategy.times_are_free
            or call.kind is not call.stored
            or not _QUERY.issuperset(query)
            or len(request.body) > _LONGEST
            or call.context.objects.is_shared
        ):
            return None
        entry = call.entry(path.namespace, path.name)
        if entry is None:
            return None
        entry = call.context.objects.newest(call.stored, entry)
        if (
            len(entry.body) > _LONGEST
            or b'"deletionTimestamp"' in entry.body
            or not call.context.idle_admission.lets_pass(call, UPDATE)
        ):
            return None
        writer = (request.user_agent, query.get("fieldManager"), query.get("fieldValidation"), request.reads_warnings)
        return RepeatedWrite(self, call, entry, (path.verb, request.content_type, *writer))


def _without_revision(entry: Entry) -> bytes:
    """An object's bytes without the member that its revision makes."""
    return entry.body.replace(b"," + _REVISION % entry.revision, b"", 1)


def _is_time(text: bytes) -> bool:
    """Whether a text in the form of a time is one."""
    try:
        datetime.fromisoformat(text[:19].decode())
    except ValueError:
        return False
    return True
