"""What a SQLite store knows of its keys without looking into the file: which there are, their revisions, and recently used values.

Lives on the event loop and follows the file: a write is here once its batch is committed.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.store.sorted_keys import SortedKeys
from bayplan.store.sqlite.load import Current
from bayplan.store.sqlite.write import SqliteWrite
from bayplan.support.memory.memo import Memo


class CommittedIndex:
    """The keys of the newest committed revision."""

    __slots__ = ("entries", "keeps_written", "keys", "revision", "values")

    def __init__(self, value_cache_bytes: int, *, keeps_written: bool) -> None:
        self.revision = 0
        self.entries: dict[str, tuple[int, int]] = {}
        """(mod revision, create revision) of every key that exists, as of `revision`."""
        self.keys = SortedKeys()
        """The keys of `entries`."""
        self.values: Memo[str, bytes] = Memo("store_values", most_bytes=value_cache_bytes)
        self.keeps_written = keeps_written
        """Whether values are kept when they are written; otherwise only when they are read."""

    def load(self, revision: int, current: Mapping[str, Current]) -> None:
        """Begin with what the file holds."""
        self.revision = revision
        self.entries = {key: (change.revision, change.create_revision) for key, change in current.items()}
        self.keys = SortedKeys(self.entries)

    def value(self, key: str, revision: int) -> bytes | None:
        """The value of a key that has this mod revision, if it is at hand."""
        entry = self.entries.get(key)
        return self.values.get(key) if entry is not None and entry[0] == revision else None

    def read(self, key: str, revision: int, value: bytes) -> None:
        """Keep a value that was read from the file, if it is the current one."""
        if self.is_current(key, revision):
            self.values.put(key, value, len(key) + len(value))

    def is_current(self, key: str, revision: int) -> bool:
        """Whether the newest change of a key is that of a revision."""
        return self.entries.get(key, (0, 0))[0] == revision

    def commit(self, write: SqliteWrite) -> None:
        """Follow a write that is in the file."""
        key, value = write.key, write.value
        if value is None:
            del self.entries[key]
            self.keys.remove(key)
            self.values.drop(key)
            return
        if write.previous_revision == 0:
            self.keys.add(key)
        self.entries[key] = (write.revision, write.create_revision)
        if self.keeps_written:
            self.values.put(key, value, len(key) + len(value))
        else:
            self.values.drop(key)
