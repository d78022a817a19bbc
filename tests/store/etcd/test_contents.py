"""Everything that a prefix of etcd has, read page by page."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from bayplan.store.etcd import contents
from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.contents import EtcdContents
from bayplan.store.etcd.errors import EtcdLeaseNotFound
from bayplan.store.etcd.layout import KeyLayout


@dataclass(frozen=True, slots=True)
class Kv:
    key: bytes
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    kvs: list[Kv]
    count: int


class Client:
    """Has some keys, and notes what it is asked for."""

    def __init__(self, kvs: list[Kv]) -> None:
        self._kvs = kvs
        self.starts: list[bytes] = []
        self.leases: list[int] = []

    async def range(self, start: bytes, _: bytes, *, limit: int, **__: Any) -> Page:
        self.starts.append(start)
        found = [kv for kv in self._kvs if kv.key >= start]
        return Page(found[:limit], len(found))

    async def time_to_live(self, lease: int) -> int:
        self.leases.append(lease)
        if lease == 3:
            raise EtcdLeaseNotFound("gone")
        return {1: 60, 2: 0}[lease]


@pytest.mark.parametrize(("count", "requests"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_pages_are_read_until_there_is_no_more(count: int, requests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_PAGE", 2)
    layout = KeyLayout("/registry")
    client = Client([Kv(layout.start + b"a/%d" % number, b"%d" % number) for number in range(count)])

    async def read() -> list[bytes]:
        pages = EtcdContents(cast(EtcdClient, client), layout, 7).pages()
        return [entry.value async for page in pages for entry in page]

    assert asyncio.run(read()) == [b"%d" % number for number in range(count)]
    assert len(client.starts) == requests


def test_keys_have_the_time_that_their_lease_has_left_and_those_that_have_ended_are_left_out() -> None:
    layout = KeyLayout("/registry")
    kvs = [Kv(layout.start + b"a/%d" % number, b"", lease) for number, lease in enumerate([0, 1, 1, 2, 3, 3])]
    client = Client(kvs)

    async def read() -> list[float | None]:
        pages = EtcdContents(cast(EtcdClient, client), layout, 7).pages()
        return [entry.seconds async for page in pages for entry in page]

    assert asyncio.run(read()) == [None, 60.0, 60.0]
    assert client.leases == [1, 2, 3], "each lease is asked for once"
