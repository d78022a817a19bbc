"""What is known of a write to etcd whose answer was lost: whether the request left at all, and what the key holds since; and of a past that is gone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

from bayplan.store.errors import Compacted
from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.connection import _is_unsent
from bayplan.store.etcd.errors import EtcdCompacted, EtcdUnavailable, is_stale_token
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.store.etcd.store import EtcdStore, _made
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.testing.clock import ManualClock


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnsentError("UNAVAILABLE", "no connection"), True),
        (RpcError("UNAVAILABLE", "etcdserver: no leader"), True),
        (RpcError("UNAVAILABLE", "etcdserver: request timed out"), False),
        (RpcError("UNKNOWN", "etcdserver: no leader"), False),
        (RpcError("DEADLINE_EXCEEDED", "no answer"), False),
    ],
)
def test_which_requests_were_not_taken(error: RpcError, expected: bool) -> None:
    assert _is_unsent(error) is expected


@dataclass(frozen=True, slots=True)
class Kv:
    mod_revision: int
    value: bytes


@pytest.mark.parametrize(
    ("found", "value", "made"),
    [
        pytest.param([Kv(6, b"new")], b"new", 6, id="it was made"),
        pytest.param([Kv(5, b"old")], b"new", 0, id="it was not"),
        pytest.param([Kv(5, b"new")], b"new", 0, id="the key holds the same since before"),
        pytest.param([Kv(6, b"other")], b"new", None, id="others have written"),
        pytest.param([], b"new", None, id="others have deleted it"),
        pytest.param([Kv(6, b"new")], None, None, id="a deletion, and others have written"),
    ],
)
def test_what_came_of_a_write_to_a_key_of_revision_5(found: list[Kv], value: bytes | None, made: int | None) -> None:
    if made is None:
        with pytest.raises(EtcdUnavailable, match="written by others since"):
            _made(found, value, 5)
    else:
        result = _made(found, value, 5)
        assert (result.revision if result else 0) == made


def test_a_new_key_that_is_not_there_was_not_made() -> None:
    assert _made([], b"new", 0) is None


class Compactions:
    """A client that knows how far etcd was compacted."""

    settings = EtcdSettings(endpoints=("127.0.0.1:2379",))

    async def compacted_revision(self) -> int:
        return 7


@pytest.mark.parametrize(("told", "expected"), [(5, 5), (0, 7)])
def test_a_past_that_is_gone_names_where_it_begins(told: int, expected: int) -> None:
    async def run() -> None:
        client = cast(EtcdClient, Compactions())
        store = EtcdStore(client, clock=ManualClock(), layout=KeyLayout("/registry"), compaction_interval=0)
        with pytest.raises(Compacted):
            await store._raise(EtcdCompacted("compacted", told), 3)
        assert store.compacted_revision == expected

    asyncio.run(run())


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("UNAUTHENTICATED", "etcdserver: invalid auth token", True),
        ("INVALID_ARGUMENT", "etcdserver: revision of auth store is old", True),
        ("PERMISSION_DENIED", "etcdserver: permission denied", False),
    ],
)
def test_which_tokens_are_renewed(code: str, message: str, expected: bool) -> None:
    assert is_stale_token(RpcError(code, message)) is expected
