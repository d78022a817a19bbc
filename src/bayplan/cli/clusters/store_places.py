"""Where `bayplan store` reads and writes: files of SQLite and prefixes of etcd, by their URLs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bayplan.cli.flags.etcd_flags import EtcdFlags
from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.store.copying import Contents, Target
    from bayplan.store.etcd.client import EtcdClient
    from bayplan.store.etcd.contents import MemberContents
    from bayplan.store.etcd.layout import KeyLayout

_MAINTENANCE_SECONDS: Final = 600.0
"""For requests that may take long, such as defragmentation."""


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Errors of the store are answers of the command."""
    from bayplan.store.errors import StoreError, StoreLocked

    try:
        yield
    except StoreLocked as error:
        raise Failure(
            f"{error}; a cluster compacts its store by itself, and is stopped before a store is restored or repaired"
        ) from error
    except StoreError as error:
        raise Failure(str(error)) from error


def is_etcd(url: str | None) -> bool:
    """Whether a URL names an etcd."""
    return url is not None and url.partition(":")[0] == "etcd"


def file_of(url: str) -> Path:
    """The file that a URL names. Raises UsageError."""
    scheme, _, path = url.partition(":")
    if scheme != "sqlite" or not path.strip("/"):
        raise click.UsageError(f"{url}: expected sqlite:PATH or etcd://HOST:PORT,...")
    return Path(path)


def key_layout(etcd: EtcdFlags) -> KeyLayout:
    """Where API servers keep objects in etcd."""
    from bayplan.api.kinds import DEFAULT_KINDS
    from bayplan.apiserver.etcd_layout import etcd_folders
    from bayplan.apiserver.store_partition import PREFIX
    from bayplan.store.etcd.layout import KeyLayout

    return KeyLayout(etcd.options.prefix, etcd_folders(DEFAULT_KINDS), root=PREFIX)


@contextlib.asynccontextmanager
async def connected(url: str, etcd: EtcdFlags, seconds: float = 0.0) -> AsyncIterator[EtcdClient]:
    """A client of the etcd that a URL names. Raises UsageError."""
    from bayplan.store.url import etcd_client
    from bayplan.support.clock import SystemClock

    try:
        client = etcd_client(url, clock=SystemClock(), options=etcd.options, seconds=seconds)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def opened_source(url: str, etcd: EtcdFlags) -> AsyncIterator[Contents]:
    """What is there at one moment. Raises StoreError, UsageError."""
    from bayplan.support.clock import SystemClock

    if is_etcd(url):
        from bayplan.store.etcd.contents import present_contents

        async with connected(url, etcd) as client:
            yield await present_contents(client, key_layout(etcd))
        return
    from bayplan.store.sqlite.contents import opened_contents

    with opened_contents(file_of(url), SystemClock().now()) as contents:
        yield contents


@contextlib.asynccontextmanager
async def opened_target(url: str, etcd: EtcdFlags) -> AsyncIterator[Target]:
    """What is to be filled. Raises UsageError."""
    from bayplan.support.clock import SystemClock

    if is_etcd(url):
        from bayplan.store.etcd.contents import EtcdTarget

        async with connected(url, etcd) as client:
            yield EtcdTarget(client, key_layout(etcd), SystemClock())
        return
    from bayplan.store.sqlite.contents import SqliteTarget

    yield SqliteTarget(file_of(url), SystemClock())


async def members_of(url: str, etcd: EtcdFlags) -> list[MemberContents]:
    """What each of the members that a URL names has, as of one revision. Raises StoreError, UsageError."""
    from bayplan.store.copying import Tally
    from bayplan.store.etcd.contents import EtcdContents, MemberContents, of_etcd, present_contents, reached

    layout = key_layout(etcd)
    found = []
    async with connected(url, etcd) as client:
        revision = (await present_contents(client, layout)).revision
        endpoints, secure = client.settings.endpoints, client.settings.tls is not None
    for endpoint in endpoints:
        async with connected(_url_of(endpoint, secure), etcd) as client:
            with of_etcd():
                status = await client.status()
            await reached(client, revision)
            tally = Tally()
            async for page in EtcdContents(client, layout, revision, serializable=True).pages():
                tally.add(page)
        found.append(
            MemberContents(endpoint, status.version, status.db_size, tally.entries - tally.expiring, tally.checksum)
        )
    return found


async def compact_etcd(url: str, etcd: EtcdFlags) -> tuple[int, list[tuple[str, int, int]]]:
    """Forget all past states, and let each member that a URL names give back the free space.

    Returns the revision, and of each member its endpoint and the size of its database before and after. Raises StoreError, UsageError.
    """
    from bayplan.store.etcd.contents import compacted_now, of_etcd

    async with connected(url, etcd) as client:
        with of_etcd():
            revision = await compacted_now(client)
        endpoints, secure = client.settings.endpoints, client.settings.tls is not None
    sizes = []
    for endpoint in endpoints:  # one after the other: a member answers nobody while it does this
        async with connected(_url_of(endpoint, secure), etcd, _MAINTENANCE_SECONDS) as client:
            with of_etcd():
                before = (await client.status()).db_size
                await client.defragment()
                sizes.append((endpoint, before, (await client.status()).db_size))
    return revision, sizes


def _url_of(endpoint: str, secure: bool) -> str:
    """The URL of one member."""
    return f"etcd://{'https' if secure else 'http'}://{endpoint}"
