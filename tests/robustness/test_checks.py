"""The checks find what they are for: each test tells a story in which one thing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bayplan.store.etcd.messages import MESSAGES
from tests.robustness.checks import Truth, problems_of, shared_problems
from tests.robustness.history import (
    DONE,
    KEYS,
    MOST_SECRETS,
    REFUSED,
    SECRET_KEYS,
    SERVICE_KEYS,
    History,
    Read,
    Seen,
    Session,
    Version,
    Write,
    changes_of,
)

Raw = list[tuple[int, list[Any]]]


def put(revision: int, name: str, uid: str, *tokens: str) -> tuple[int, list[Any]]:
    """An object is written."""
    tree = {"metadata": {"uid": uid}, "data": dict.fromkeys(tokens, "1")}
    kv = MESSAGES["KeyValue"](key=(KEYS + name).encode(), value=msgspec.json.encode(tree), mod_revision=revision)
    return revision, [MESSAGES["Event"](kv=kv)]


def gone(revision: int, name: str) -> tuple[int, list[Any]]:
    """An object is deleted."""
    return revision, [
        MESSAGES["Event"](type=1, kv=MESSAGES["KeyValue"](key=(KEYS + name).encode(), mod_revision=revision))
    ]


RAW: Raw = [put(10, "a", "u1", "t1"), put(11, "b", "u2", "t2"), put(12, "a", "u1", "t1", "t3"), gone(13, "b")]
COMMITS = [(0.1, 10), (1.1, 11), (2.1, 12), (3.1, 13)]
A10, A12 = Version(10, "u1", frozenset({"t1"})), Version(12, "u1", frozenset({"t1", "t3"}))
B11 = Version(11, "u2", frozenset({"t2"}))


def sound() -> History:
    """A history without a flaw."""
    return History(
        writes=[
            Write("c1", "create", "a", "t1", 0.0, 0, 0.2, DONE, 201, 10, "u1"),
            Write("c2", "create", "b", "t2", 1.0, 0, 1.2, DONE, 201, 11, "u2"),
            Write("c1", "update", "a", "t3", 2.0, 10, 2.2, DONE, 200, 12, "u1"),
            Write("c2", "update", "a", "t4", 2.3, 10, 2.4, REFUSED, 409),
            Write("c2", "delete", "b", "t5", 3.0, 0, 3.2, DONE, 200, 0, "u2"),
            Write("c2", "patch", "b", "t6", 3.3, 0, 3.4, REFUSED, 404),
            Write("c2", "create", "a", "t7", 3.5, 0, 3.6, REFUSED, 409),
            Write("c1", "patch", "a", "t8", 3.7),
        ],
        reads=[
            Read("c1", "a", 1.3, 0, 1.4, DONE, 200, 10, {"a": A10}),
            Read("c1", "", 2.5, 0, 2.6, DONE, 200, 12, {"a": A12, "b": B11}),
            Read("c1", "", 3.3, 11, 3.4, DONE, 200, 11, {"a": A10, "b": B11}),
            Read("c1", "b", 3.4, 0, 3.5, REFUSED, 404),
        ],
        sessions=[
            Session(
                "i",
                10,
                [
                    Seen(1.3, "ADDED", "b", 11, B11),
                    Seen(2.3, "MODIFIED", "a", 12, A12),
                    Seen(2.4, "BOOKMARK", "", 12, None),
                    Seen(3.3, "DELETED", "b", 13, Version(13, "u2", frozenset({"t2"}))),
                ],
            )
        ],
    )


def problems(history: History, raw: Raw = RAW) -> list[str]:
    """What the checks say."""
    return problems_of(history, Truth(changes_of(raw), COMMITS))


def test_a_sound_history_has_no_problems() -> None:
    assert problems(sound()) == []


def _write(index: int, **fields: Any) -> Callable[[History], None]:
    def change(history: History) -> None:
        for name, value in fields.items():
            setattr(history.writes[index], name, value)

    return change


def _read(index: int, **fields: Any) -> Callable[[History], None]:
    def change(history: History) -> None:
        for name, value in fields.items():
            setattr(history.reads[index], name, value)

    return change


def _events(*kept: int) -> Callable[[History], None]:
    def change(history: History) -> None:
        events = history.sessions[0].events
        history.sessions[0].events = [events[index] for index in kept]

    return change


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (_write(0, revision=9), r"t1.* at 9: in truth at \[10\]"),
        (_write(7, outcome=DONE, revision=14), r"t8.*in truth at \[\]"),
        (_write(3, token="t3"), "t3.*made all the same, at 12"),
        (_write(3, base=12), "a conflict, but nobody has changed it"),
        (_write(5, name="a"), "was not found, but was there all the time"),
        (_write(6, name="b"), "was said to exist, but was not there at any time"),
        (_write(2, base=9), "not of revision 9"),
        (_write(4, uid="u9"), "u9 was never deleted"),
        (_write(1, verb="delete", uid="u2"), "u2 was deleted 2 times"),
        (_write(0, started=1.25, ended=1.3), "had been passed before it began"),
        (_write(2, ended=2.05), "acknowledged before it was made"),
        (_read(0, items={"a": A12}), "a get of a shows"),
        (_read(0, started=2.5, ended=2.6), "a get of a shows"),
        (_read(3, name="a"), "a get of a shows None"),
        (_read(3, code=403), "refused with 403"),
        (_read(1, items={"a": A12}), "not the state at that revision"),
        (_read(1, revision=11, items={"a": A10, "b": B11}), "is older than 12"),
        (_read(2, at_least=12), "is older than 12"),
        (_read(2, revision=99, ended=2.0), "is of the future"),
        (_events(0, 2, 3), "a bookmark at 12 after 11 leaves out"),
        (_events(0, 3), "DELETED b@13 after 11"),
        (_events(0, 0, 1), "ADDED b@11 after 11"),
        (_events(1, 0), "MODIFIED a@12 after 10"),
        (lambda history: history.servers_errors.append("c1: 500"), "500"),
    ],
)
def test_what_is_wrong_is_found(spoil: Callable[[History], None], expected: str) -> None:
    import re

    history = sound()
    spoil(history)
    assert any(re.search(expected, one) for one in problems(history)), problems(history)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([*RAW[:2], put(12, "a", "u1", "t3"), RAW[3]], "a@12 has lost ['t1']"),
        ([*RAW[:2], put(12, "a", "u1", "t1", "t3", "t8"), RAW[3]], "a@12 has 2 writes in one"),
        ([*RAW, gone(14, "a"), put(15, "a", "u9", "t1")], "made 2 times, at [10, 15]"),
    ],
)
def test_what_happened_may_be_wrong_itself(raw: Raw, expected: str) -> None:
    assert any(expected in one for one in problems(sound(), raw)), problems(sound(), raw)


def service(revision: int, name: str, address: str, port: int) -> tuple[int, list[Any]]:
    """A Service is written."""
    tree = {"spec": {"clusterIPs": [address], "ports": [{"nodePort": port}]}}
    kv = MESSAGES["KeyValue"](
        key=f"{SERVICE_KEYS}{name}".encode(), value=msgspec.json.encode(tree), mod_revision=revision
    )
    return revision, [MESSAGES["Event"](kv=kv)]


def deleted(revision: int, name: str) -> tuple[int, list[Any]]:
    """A Service is deleted."""
    return revision, [MESSAGES["Event"](type=1, kv=MESSAGES["KeyValue"](key=f"{SERVICE_KEYS}{name}".encode()))]


def test_nothing_is_given_out_twice() -> None:
    first, free = service(2, "a", "10.0.0.1", 30000), deleted(3, "a")
    assert not list(shared_problems([first, free, service(4, "b", "10.0.0.1", 30000)]))
    assert not list(shared_problems([first, service(3, "a", "10.0.0.1", 30001), service(4, "b", "10.0.0.2", 30000)]))
    assert len(list(shared_problems([first, service(3, "b", "10.0.0.1", 30001)]))) == 1
    assert len(list(shared_problems([first, service(3, "b", "10.0.0.2", 30000)]))) == 1


def test_a_quota_holds() -> None:
    def secret(number: int) -> tuple[int, list[Any]]:
        kv = MESSAGES["KeyValue"](key=f"{SECRET_KEYS}{number}".encode(), create_revision=number, mod_revision=number)
        return number, [MESSAGES["Event"](kv=kv)]

    assert not list(shared_problems([secret(number) for number in range(MOST_SECRETS)]))
    assert len(list(shared_problems([secret(number) for number in range(MOST_SECRETS + 3)]))) == 1
