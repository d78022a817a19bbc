"""What is known of a write to etcd whose answer was lost: whether the request left at all, and what the key holds since."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bayplan.store.etcd.connection import _is_unsent
from bayplan.store.etcd.errors import EtcdUnavailable
from bayplan.store.etcd.store import _made
from bayplan.support.grpc.errors import RpcError, UnsentError


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
