"""Stores by URL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bayplan.store.interface import Store
from bayplan.store.settings import SqliteSettings
from bayplan.support.clock import Clock

if TYPE_CHECKING:
    from bayplan.store.etcd.client import EtcdClient
    from bayplan.store.etcd.options import EtcdOptions
    from bayplan.store.transforming import Readiness

_KNOWN = "known are memory:, sqlite:PATH, etcd://HOST:PORT,... and unix:PATH"


def open_store(
    url: str,
    *,
    clock: Clock,
    tells_previous: bool = True,
    etcd: EtcdOptions | None = None,
    readiness: Readiness | None = None,
) -> Store:
    """The store that `url` names, not yet opened (`await store.open()` does the input and output).

    tells_previous: whether live events are to carry the value before; they may anyway. etcd: what else an etcd store needs to know. readiness: what
    values that other processes have written wait for before they are delivered.
    Known are `memory:`, `sqlite:PATH`, `unix:PATH` (the socket of another process that owns the store),
    and `etcd://HOST:PORT,...` (or `etcd://https://HOST:PORT,...` for TLS without own files). Raises `ValueError` for any other.
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
        from bayplan.store.sqlite.store import SqliteStore

        return SqliteStore(rest, clock=clock, settings=SqliteSettings(tells_previous=tells_previous))
    if colon and scheme == "unix":
        from bayplan.store.remote.client import RemoteStore

        return RemoteStore(Path(rest), clock=clock, readiness=readiness)
    if colon and scheme == "etcd":
        return _etcd_store(url, clock, tells_previous, etcd, readiness)
    raise ValueError(f"store {url!r}: unknown kind of store, {_KNOWN}")


def _etcd_store(
    url: str, clock: Clock, tells_previous: bool, options: EtcdOptions | None, readiness: Readiness | None
) -> Store:
    """Raises ValueError."""
    from bayplan.store.etcd.layout import KeyLayout
    from bayplan.store.etcd.options import EtcdOptions

    options = options or EtcdOptions()
    client = etcd_client(url, clock=clock, options=options)
    from bayplan.store.etcd.store import EtcdStore

    return EtcdStore(
        client,
        clock=clock,
        layout=KeyLayout(options.prefix, options.folders, root=options.root),
        tells_previous=tells_previous,
        compaction_interval=options.compaction_interval,
        readiness=readiness,
    )


def etcd_client(url: str, *, clock: Clock, options: EtcdOptions, seconds: float = 0.0) -> EtcdClient:
    """A client of the etcd that the URL of a store names. seconds: after which a request fails; 0 for the usual time. Raises ValueError."""
    from bayplan.store.etcd.settings import EtcdSettings, endpoints_of
    from bayplan.support.web.tls_files import TlsFiles

    rest = url.partition(":")[2]
    if not rest.startswith("//"):
        raise ValueError(f"store {url!r}: etcd needs its servers, such as etcd://127.0.0.1:2379")
    try:
        endpoints, secure = endpoints_of(rest[2:])
    except ValueError as error:
        raise ValueError(f"store {url!r}: {error}") from None
    try:
        from bayplan.store.etcd.client import EtcdClient
    except ImportError as error:
        raise ValueError(f"store {url!r}: {error.name} is missing: pip install 'bayplan[etcd]'") from error
    settings = EtcdSettings(
        endpoints=endpoints,
        tls=options.tls or (TlsFiles() if secure else None),
        user=options.user,
        password=options.password,
    )
    return EtcdClient(replace(settings, request_timeout=seconds) if seconds else settings, clock=clock)
