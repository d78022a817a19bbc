"""The bitmap of node ports that kube-apiserver has, and servers beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.allocation.port_bitmap import Bitmap
from bayplan.client import Client
from bayplan.store.etcd.client import EtcdClient
from tests.apiserver.etcd_stores import etcd_store, new_prefix
from tests.apiserver.serving import client_of as client_of_server
from tests.apiserver.serving import opened
from tests.store.etcd.clients import client_of
from tests.store.etcd.server import needs_etcd, shared_server

_METADATA = b"\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00"
_EMPTY = (
    b"k8s\x00\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12\x21"
    b"\x0a\x10%b\x12\x0b30000-32767\x1a\x00\x1a\x00\x22\x00" % _METADATA
)
"""As kube-apiserver writes it when there are no services."""
_JSON = b'{"kind":"RangeAllocation","apiVersion":"v1","metadata":{"a":1},"range":"30000-32767","data":"gAE="}'
_FIRST, _LAST = 30000, 32767


def test_what_is_read_is_written_as_it_was() -> None:
    for value, ports in ((_EMPTY, set()), (_JSON, {30000, 30015})):
        bitmap = Bitmap.read(value)
        assert (bitmap.ports(), bitmap.written()) == (ports, value)


@given(st.sets(st.integers(_FIRST, _LAST), max_size=40))
def test_ports_come_back(ports: set[int]) -> None:
    for value in (_EMPTY, _JSON):
        bitmap = Bitmap.read(value)
        changed = bitmap._replace(bits=bitmap.mask({*ports, 1, 40000}))
        assert changed.ports() == ports
        assert Bitmap.read(changed.written()) == changed


@pytest.mark.parametrize("value", [b"", b"{}", b"k8s\x00", _JSON.replace(b"30000-", b""), _JSON.replace(b"gAE=", b"?")])
def test_nonsense_is_no_bitmap(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it is that is wrong
        Bitmap.read(value)


def node_port(name: str, port: int = 0) -> core_v1.Service:
    ports = (core_v1.ServicePort(port=80, node_port=port),)
    spec = core_v1.ServiceSpec(type="NodePort", ports=ports)
    return core_v1.Service(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), spec=spec)


@contextlib.asynccontextmanager
async def beside(bitmap: Bitmap) -> AsyncIterator[tuple[Client, EtcdClient, bytes]]:
    """A client of a server on an etcd with that bitmap, a client of etcd, the bitmap's key."""
    prefix = new_prefix()
    key = f"{prefix}/ranges/servicenodeports".encode()
    async with client_of(shared_server().endpoint) as etcd:
        await etcd.put(key, bitmap.written())
        async with opened(etcd_store(prefix)) as server:
            yield client_of_server(server), etcd, key


async def ports_in(etcd: EtcdClient, key: bytes) -> set[int]:
    return Bitmap.read((await etcd.range(key)).kvs[0].value).ports()


@needs_etcd
@pytest.mark.parametrize("empty", [_EMPTY, _JSON.replace(b"gAE=", b"")])
def test_what_a_service_takes_and_gives_back_stands_in_it(empty: bytes) -> None:
    async def run() -> None:
        async with beside(Bitmap.read(empty)) as (client, etcd, key):
            made = await client.create(node_port("a"))
            other = await client.create(node_port("b", 30123))
            port = made.spec.ports[0].node_port
            assert await ports_in(etcd, key) == {port, 30123}
            await client.delete(core_v1.Service, other.metadata.name, "default")
            assert await ports_in(etcd, key) == {port}

    asyncio.run(run())


@needs_etcd
def test_what_is_marked_in_it_is_not_given_out() -> None:
    async def run() -> None:
        all_but_one = set(range(_FIRST, _LAST + 1)) - {30500}
        empty = Bitmap.read(_EMPTY)
        async with beside(empty._replace(bits=empty.mask(all_but_one))) as (client, etcd, key):
            with pytest.raises(ApiError, match="provided port is already allocated"):
                await client.create(node_port("a", 30123))
            made = await client.create(node_port("b"))
            assert made.spec.ports[0].node_port == 30500
            # kube-apiserver gives a port back, and takes another one that no event has told of yet.
            changed = empty._replace(bits=empty.mask(all_but_one - {30600} | {30500}))
            await etcd.put(key, changed.written())
            assert (await client.create(node_port("c"))).spec.ports[0].node_port == 30600
            assert await ports_in(etcd, key) == {*all_but_one, 30500}

    asyncio.run(run())


@needs_etcd
def test_where_there_is_none_none_is_made() -> None:
    async def run() -> None:
        prefix = new_prefix()
        async with client_of(shared_server().endpoint) as etcd, opened(etcd_store(prefix)) as server:
            await client_of_server(server).create(node_port("a"))
            assert (await etcd.range(f"{prefix}/ranges/servicenodeports".encode())).count == 0

    asyncio.run(run())
