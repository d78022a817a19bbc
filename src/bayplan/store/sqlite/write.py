"""A write on its way into a SQLite store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bayplan.store.interface import Event


class SqliteWrite:
    """A write between its guard check and its commit, as a `PendingWrite`."""

    __slots__ = (
        "attachment",
        "committed",
        "create_revision",
        "deadline",
        "is_expiry",
        "key",
        "previous",
        "previous_revision",
        "revision",
        "value",
    )

    def __init__(
        self,
        key: str,
        value: bytes | None,
        revision: int,
        create_revision: int,
        previous: bytes | None,
        previous_revision: int,
        deadline: float | None,
        attachment: object,
        committed: asyncio.Future[int],
        *,
        is_expiry: bool,
    ) -> None:
        self.key = key
        self.value = value
        self.revision = revision
        self.create_revision = create_revision
        self.previous = previous
        """The value replaced; None if there was none, it must be read from the file, or it is not to be told."""
        self.previous_revision = previous_revision
        self.deadline = deadline
        """Unix seconds; None without a time to live."""
        self.attachment = attachment
        self.committed = committed
        self.is_expiry = is_expiry
        """Whether its time to live is why the key goes: nobody waits then."""

    def event(self, found: Mapping[int, bytes] | None) -> Event:
        """What the watches get; `found` has the previous value if it is not here; None if it is not to be told."""
        previous = self.previous
        if previous is None and self.previous_revision and found is not None:
            previous = found[self.previous_revision]
        return Event(
            self.key,
            self.revision,
            self.value,
            self.create_revision,
            previous,
            self.previous_revision,
            self.attachment,
        )
