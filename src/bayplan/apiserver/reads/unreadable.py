"""Stored objects that cannot be read: their encryption key is unknown, or what is stored is no object of their kind.

As in Kubernetes, they fail the requests about them, and lists and watches that would have to show them; everything else is served. Nobody is told that they are
gone: watches of clients end instead, and the server's own go on with what was read last.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from bayplan.api.errors import ApiError, internal_error
from bayplan.api.protobuf import MAGIC, MEDIA_TYPE
from bayplan.apiserver.encryption.prefixes import ENCRYPTED, encryption_prefix
from bayplan.store.interface import UnreadableValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bayplan.apiserver.reads.watching import Entry

logger = logging.getLogger(__name__)


class NotReadable(Exception):
    """A stored value cannot be turned into what it stands for; the message says which and why."""


NOT_READABLE: Final = (NotReadable, msgspec.DecodeError, ValueError, RecursionError)
"""What making an object of a stored value raises if it is none."""


def check_readable(value: bytes) -> None:
    """Raises NotReadable for a value that its store could not read."""
    if type(value) is UnreadableValue:
        raise NotReadable(value.reason)


def reason(key: str, value: bytes, error: Exception) -> str:
    """Why an object cannot be read, of one of `NOT_READABLE`."""
    if isinstance(error, NotReadable):
        return str(error)
    if value.startswith(ENCRYPTED):
        what = "start with the configuration that has its key and names its resource (--encryption-provider-config)"
        return f'{key} is encrypted, as "{encryption_prefix(value)}": {what}'
    if value.startswith(MAGIC):
        return f"{key} is kept in protobuf: start with --storage-media-type={MEDIA_TYPE}, which reads JSON as well"
    return f"unable to decode key {key!r}: {error}"


class Unreadable:
    """One of them, as of its latest revision."""

    __slots__ = ("is_protobuf", "last", "name", "namespace", "reason", "revision")

    def __init__(
        self, key: str, place: tuple[str, str], revision: int, value: bytes, error: Exception, last: Entry | None
    ) -> None:
        """place: namespace and name. error: one of `NOT_READABLE`."""
        self.namespace, self.name = place
        self.revision = revision
        self.reason = reason(key, value, error)
        self.is_protobuf = value.startswith(MAGIC)
        self.last = last
        """What was read of it last; None if nothing was."""


class UnreadableObjects:
    """Those of one kind, by storage key."""

    __slots__ = ("_found", "total", "when_found")

    def __init__(self) -> None:
        self._found: dict[str, Unreadable] = {}
        self.total = 0
        """How many there have been."""
        self.when_found: Callable[[], None] | None = None
        """Called when there is one more."""

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[tuple[str, Unreadable]]:
        return iter(tuple(self._found.items()))

    def get(self, key: str) -> Unreadable | None:
        """One of them by its storage key, or None."""
        return self._found.get(key)

    def add(self, key: str, found: Unreadable) -> None:
        """One more, or the same at a later revision. It is logged."""
        logger.error("an object cannot be read, and is not served: %s", found.reason)
        self._found[key] = found
        self.total += 1
        if self.when_found is not None:
            self.when_found()

    def pop(self, key: str) -> Unreadable | None:
        """Forget one: it can be read, or is gone."""
        return self._found.pop(key, None)

    def check(self, key: str) -> None:
        """Raises ApiError (500) if that object is one of them."""
        found = self._found.get(key)
        if found is not None:
            raise _error(found)

    def check_all(self, namespace: str) -> None:
        """Raises ApiError (500) if one is in a namespace ("": anywhere)."""
        for found in self._found.values():
            if namespace in {"", found.namespace}:
                raise _error(found)


def _error(found: Unreadable) -> ApiError:
    return internal_error(found.reason)
