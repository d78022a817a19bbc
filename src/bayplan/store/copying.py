"""Copying everything that a store has at one moment into another, empty one, and the proof that it has arrived.

Keys, values and times to live are copied, values in another form if the target wants it; revisions are given out anew by the other store. Its contents are read
again at the end: number of keys and a checksum over all of them must be those of what was copied. A copy that fails leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from bayplan.store.errors import StoreError, StoreUnavailable

_MODULUS: Final = 1 << 256


class StoredEntry(NamedTuple):
    """A key as it is kept."""

    key: str
    value: bytes
    seconds: float | None
    """Time that it has left to live; None if it stays."""


class Contents(Protocol):
    """All that a store has at one moment, whoever writes to it meanwhile."""

    @property
    def revision(self) -> int:
        """The revision of that moment."""

    def pages(self) -> AsyncIterator[Sequence[StoredEntry]]:
        """Everything, in some order. Raises StoreError."""


class Target(Protocol):
    """An empty store that is being filled."""

    async def begin(self) -> None:
        """Make sure that it is empty. Raises StoreUnavailable if it is not, or cannot be reached."""

    async def write(self, entries: Sequence[StoredEntry]) -> None:
        """Write further entries. Raises StoreError."""

    async def finish(self) -> None:
        """Everything was written. Raises StoreError."""

    async def abandon(self) -> None:
        """Take back what was written."""

    def contents(self) -> AbstractAsyncContextManager[Contents]:
        """What it has, after `finish`."""


@dataclass(slots=True)
class Tally:
    """What was read: numbers, and a checksum that does not depend on the order. Keys that do not stay are counted, and left out of the checksum."""

    entries: int = 0
    expiring: int = 0
    """Those of them that do not stay."""
    _sum: int = 0

    def add(self, entries: Sequence[StoredEntry]) -> None:
        """Take in further entries."""
        self.entries += len(entries)
        for entry in entries:
            if entry.seconds is not None:
                self.expiring += 1
                continue
            key = entry.key.encode()
            digest = hashlib.sha256(b"%d %b%b" % (len(key), key, entry.value)).digest()
            self._sum = (self._sum + int.from_bytes(digest, "big")) % _MODULUS

    @property
    def checksum(self) -> str:
        """In hexadecimal digits."""
        return f"{self._sum:064x}"


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy did."""

    revision: int
    """The revision of the source as of which it is."""
    copied: Tally
    new_revision: int
    """The revision of the target now."""


Form = Callable[[str, bytes], bytes | None]
"""The value of a key in the form in which the target is to keep it; None leaves it out. Raises StoreError for what cannot be copied."""


async def copy(
    source: Contents,
    target: Target,
    *,
    leaves_out: Callable[[str], bool] = lambda _: False,
    form: Form = lambda _key, value: value,
    step: Callable[[int], None] = lambda _: None,
) -> CopyReport:
    """Fill an empty store. leaves_out: which keys stay behind. step: called with the number of keys copied so far. Raises StoreError."""
    await target.begin()
    copied = Tally()
    try:
        async for page in source.pages():
            entries = [
                entry if value is entry.value else entry._replace(value=value)
                for entry in page
                if not leaves_out(entry.key) and (value := form(entry.key, entry.value)) is not None
            ]
            await target.write(entries)
            copied.add(entries)
            step(copied.entries)
        await target.finish()
        found, revision = await _read_again(target)
        if (found.entries - found.expiring, found.checksum) != (copied.entries - copied.expiring, copied.checksum):
            raise StoreUnavailable(
                f"the copy has {found.entries - found.expiring} lasting keys with the checksum {found.checksum}, and of "
                f"{copied.entries - copied.expiring} with {copied.checksum} it was made: another process has written to it, or the disk fails"
            )
    except BaseException:
        with contextlib.suppress(StoreError):
            await target.abandon()
        raise
    return CopyReport(source.revision, copied, revision)


async def _read_again(target: Target) -> tuple[Tally, int]:
    """What arrived, and the revision now. Raises StoreError."""
    found = Tally()
    async with target.contents() as contents:
        async for page in contents.pages():
            found.add(page)
        return found, contents.revision
