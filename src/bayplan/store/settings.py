"""Settings of the stores that keep their own history."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """How much of the past stays readable. A revision is forgotten when either bound says so."""

    keep_seconds: float = 300.0
    """Age at which superseded values and past events may go, as kube-apiserver compacts etcd."""
    keep_revisions: int = 100_000
    """Number of the newest revisions that may stay; bounds size when writes come in bursts. At least 1."""
    automatic: bool = True
    """Whether to compact without being asked. If False only `Store.compact` does."""

    def __post_init__(self) -> None:
        if self.keep_revisions < 1:
            raise ValueError(f"keep_revisions must be at least 1, got {self.keep_revisions}")
        if self.keep_seconds < 0:
            raise ValueError(f"keep_seconds must not be negative, got {self.keep_seconds}")


MEMORY_HISTORY = HistorySettings(keep_revisions=20_000)
"""History of the memory store: shorter, since it costs memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSettings:
    """Everything adjustable about a SQLite store."""

    history: HistorySettings = HistorySettings()
    """How much of the past stays readable."""
    compaction_interval: float = 30.0
    """Seconds between two looks at whether there is history to forget."""
    compaction_step: int = 500
    """Revisions forgotten in one transaction (more when larger batches are written). Writes wait for one such step at
    most."""
    max_batch: int = 2048
    """Most writes that share one transaction."""
    value_cache_bytes: int = 16 * 1024 * 1024
    """Size of the cache of current values; what is not in it is read from the file."""
    tells_previous: bool = True
    """Whether live events carry the value before (`Event.previous`). If nobody wants it, writes need not find it, and what
    was written is not put into the cache: only what is read is."""
    max_size_bytes: int = 0
    """Size at which the file stops growing and writes raise `StoreUnavailable`, as etcd's quota; 0 for no limit."""
    checkpoint_pages: int = 4000
    """Pages of the write-ahead log after which SQLite copies it into the file."""
