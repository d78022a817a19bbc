"""Everything that can go wrong in a store."""

from __future__ import annotations


class StoreError(Exception):
    """Base of all store errors."""


class Conflict(StoreError):
    """The guard of a write did not hold; nothing was changed."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(f"{key}: expected mod revision {expected}, found {actual}")
        self.key = key
        self.expected = expected
        self.actual = actual
        """Mod revision found, 0 if the key does not exist; it may belong to a write that is not committed yet."""


class Compacted(StoreError):
    """The revision asked for is no longer kept."""

    def __init__(self, revision: int, compacted_revision: int) -> None:
        super().__init__(f"revision {revision} has been compacted, the oldest kept is {compacted_revision}")
        self.revision = revision
        self.compacted_revision = compacted_revision


class FutureRevision(StoreError):
    """The revision asked for does not exist yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future, the current one is {current}")
        self.revision = revision
        self.current = current


class StoreClosed(StoreError):
    """The store was closed."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, opened or written to."""


class StoreLocked(StoreUnavailable):
    """Another process has the store open."""


class StoreCorrupt(StoreUnavailable):
    """What is stored is damaged; nothing was changed in it."""

    def __init__(self, message: str, lost: tuple[tuple[str, int], ...] = ()) -> None:
        super().__init__(message)
        self.lost = lost
        """Keys and revisions of the damaged records, as far as they are known."""


class Untransformable(StoreUnavailable):
    """A stored value cannot be turned into what it stands for, as none of the keys that are known decrypts it; or there is no key to encrypt one with."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"unable to transform key {key!r}: {reason}")
        self.key, self.reason = key, reason


class ValueTooLarge(StoreError):
    """The store does not take a value of that size; nothing was changed."""


class SharedStore(StoreError):
    """The store has other writers: it cannot tell the revision of a write before it is committed."""
