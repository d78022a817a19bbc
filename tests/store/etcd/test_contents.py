"""Everything that a prefix of etcd has, read page by page."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from bayplan.store.copying import StoredEntry
from bayplan.store.errors import StoreUnavailable
from bayplan.store.etcd import contents
from bayplan.store.etcd.client import EtcdClient, TxnResult
from bayplan.store.etcd.contents import EtcdContents, EtcdTarget, reached
from bayplan.store.etcd.errors import EtcdLeaseNotFound
from bayplan.store.etcd.layout import KeyLayout
from bayplan.testing.clock import ManualClock


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


class Writes:
    """Notes how many operations each transaction has."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def transaction(self, compare: list[Any], writes: list[Any]) -> TxnResult:
        assert len(compare) == len(writes)
        self.sizes.append(len(writes))
        return TxnResult(True, 1, ())


@pytest.mark.parametrize(
    ("weights", "sizes"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([1, 1, 1], [3], id="as many as there may be"),
        pytest.param([1, 1, 1, 1], [3, 1], id="one more"),
        pytest.param([5, 5], [2], id="as much as there may be"),
        pytest.param([5, 6, 4], [1, 2], id="more"),
        pytest.param([5, 6, 5], [1, 1, 1], id="more each time"),
        pytest.param([50], [1], id="one that is larger goes alone"),
        pytest.param([50, 1], [1, 1], id="and what follows it"),
    ],
)
def test_transactions_are_neither_too_many_nor_too_large(
    weights: list[int], sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weight is a value's length and twice its key's."""
    monkeypatch.setattr(contents, "_MOST_WRITES", 3)
    monkeypatch.setattr(contents, "_MOST_BYTES", 50)
    client = Writes()
    target = EtcdTarget(cast(EtcdClient, client), KeyLayout("/registry"), ManualClock())
    entries = [StoredEntry("k", b"x" * (weight * 5 - 2), None) for weight in weights]
    asyncio.run(target.write(entries))
    assert client.sizes == sizes


class Member:
    """Comes one revision further each time that it is asked for what the others agree on."""

    endpoint = "127.0.0.1:2379"

    def __init__(self, revision: int) -> None:
        self.revision = revision

    async def range(self, _: bytes, *, count_only: bool, serializable: bool = False) -> Any:
        assert count_only
        if not serializable:
            self.revision += 1
        return self


@pytest.mark.parametrize(("revision", "asked"), [(7, 7), (8, 8), (5, 7)])
def test_a_member_that_is_behind_is_waited_for(revision: int, asked: int) -> None:
    member = Member(revision)
    asyncio.run(reached(cast(EtcdClient, member), 7))
    assert member.revision == asked


def test_a_member_that_stays_behind_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:2379 does not come to revision 99"):
        asyncio.run(reached(cast(EtcdClient, Member(1)), 99))
