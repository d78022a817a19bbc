"""Stores by URL."""

from __future__ import annotations

from bayplan.store.interface import Store
from bayplan.store.settings import SqliteSettings
from bayplan.support.clock import Clock


def open_store(url: str, *, clock: Clock, tells_previous: bool = True) -> Store:
    """The store that `url` names, not yet opened (`await store.open()` does the input and output).

    tells_previous: whether live events are to carry the value before; they may anyway.
    Known are `memory:` and `sqlite:PATH`. Raises `ValueError` for any other.
    """
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "memory":
        if rest:
            raise ValueError(f"store {url!r}: nothing may follow memory:, a memory store has no name")
        from bayplan.store.memory import MemoryStore

        return MemoryStore(clock=clock)
    if colon and scheme == "sqlite":
        if not rest.strip("/"):
            raise ValueError(
                f"store {url!r}: sqlite: needs the path of a file, such as sqlite:/var/lib/bayplan/store.db"
            )
        from bayplan.store.sqlite import SqliteStore

        return SqliteStore(rest, clock=clock, settings=SqliteSettings(tells_previous=tells_previous))
    if colon and scheme == "etcd":
        raise ValueError(f"store {url!r}: this build has no etcd client; known are memory: and sqlite:PATH")
    raise ValueError(f"store {url!r}: unknown kind of store, known are memory: and sqlite:PATH")
