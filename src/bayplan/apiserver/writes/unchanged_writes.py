"""The fast path for writes that have been found to change nothing, and come again: who keeps objects as a repository says applies them every few minutes.

    same request, object of the same revision, admission lets it pass without a look at the object  ->  the object as it is

It serves all kinds, and all ways to change an object but those that wait for somebody else. What comes of a write depends on nothing but the request, the
object and admission, except for the few kinds in whose objects the server itself sets times.
"""

from __future__ import annotations

import hashlib
import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.kinds import Kind
from bayplan.api.strategies.base import Strategy
from bayplan.apiserver.admission.chain import UPDATE
from bayplan.apiserver.reads.watching import Entry
from bayplan.support.memory.memo import Memo

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

_MOST_BYTES: Final = 16 << 20
"""Room for some 35,000 objects: a memo that is too small for all that is applied in turn would know none of them."""
_KNOWN_BYTES: Final = 250
"""What is kept of one write."""


class _Known(NamedTuple):
    """A write that changed nothing."""

    kind: weakref.ref[Kind]
    """The version in which it came: definitions of custom resources change."""
    revision: int
    """Of the object."""


class UnchangedWrite:
    """A write that may be known to change nothing."""

    __slots__ = ("_call", "_known", "_request", "_subresource")

    def __init__(self, known: Memo[bytes, _Known], call: Call) -> None:
        self._known, self._call = known, call
        self._subresource = call.path.subresource.name if call.path.subresource is not None else ""
        self._request = _digest(call)

    def entry(self) -> Entry | None:
        """The object, if the write changes nothing of it; None if that is not known. Raises ApiError (400, 500)."""
        call = self._call
        known = self._known.get(self._request)
        if known is None or known.kind() is not call.kind:
            return None
        objects, entry = call.context.objects, call.entry(call.path.namespace, call.path.name)
        if (
            entry is None
            or entry.revision != known.revision
            or objects.is_outdated(call.stored, entry)
            or not call.context.idle_admission.lets_pass(call, UPDATE, self._subresource)
        ):
            return None
        call.changed = entry
        return entry

    def learn(self, written: Entry) -> None:
        """Note what the slow path has made of it."""
        call = self._call
        if written is call.changed and not call.warnings and b'"deletionTimestamp"' not in written.body:
            self._known.put(self._request, _Known(weakref.ref(call.kind), written.revision), _KNOWN_BYTES)


class UnchangedWrites:
    """The writes of one API server that changed nothing."""

    def __init__(self) -> None:
        self._known: Memo[bytes, _Known] = Memo("unchanged_writes", most_bytes=_MOST_BYTES)

    def find(self, call: Call) -> UnchangedWrite | None:
        """A write of an object; None if it can only take the slow path."""
        if (
            call.kind.asks_webhook
            or "dryRun" in call.request.query
            or _sets_times(call.strategy)
            or call.context.allocators.serves(call.stored)
        ):
            return None
        return UnchangedWrite(self._known, call)


def _digest(call: Call) -> bytes:
    """What stands for a request on an object: all of it that decides, but who makes it, which is for admission to say."""
    request, path = call.request, call.path
    parts = (
        request.method,
        call.kind.api_version,
        path.kind.plural,
        path.namespace,
        path.name,
        path.subresource.name if path.subresource is not None else "",
        request.content_type,
        request.user_agent,
        str(request.reads_warnings),
        *(f"{key}={request.query[key]}" for key in sorted(request.query)),
    )
    hashed = hashlib.blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16)
    hashed.update(b"\0\0" + request.body)
    return hashed.digest()


def _sets_times(strategy: Strategy) -> bool:
    """Whether the server sets times in objects of a kind when they are written."""
    cls = type(strategy)
    return cls.default_times is not Strategy.default_times or cls.renew_times is not Strategy.renew_times
