"""What headers say about who asks."""

from __future__ import annotations

import pytest

from bayplan.apiserver.authentication.request_headers import RequestHeaders
from bayplan.apiserver.requests import User

USUAL = RequestHeaders()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([("X-Remote-Group", "g")], None),
        ([("X-Remote-User", "")], None),
        ([("x-REMOTE-user", "a")], User("a", ("system:authenticated",))),
        ([("X-Remote-User", "a"), ("X-Remote-User", "b")], User("a", ("system:authenticated",))),
        ([("X-Remote-User", ""), ("X-Remote-User", "b")], None),
        (
            [("X-Remote-User", "a"), ("X-Remote-Group", "g"), ("X-Remote-Group", ""), ("x-remote-group", "h")],
            User("a", ("g", "h", "system:authenticated")),
        ),
        ([("X-Remote-User", "a"), ("X-Remote-Uid", "7")], User("a", ("system:authenticated",), "7")),
        ([("X-Remote-User", "system:anonymous")], User("system:anonymous")),
        (
            [("X-Remote-User", "a"), ("X-Remote-Group", "system:unauthenticated")],
            User("a", ("system:unauthenticated",)),
        ),
        (
            [("X-Remote-User", "a"), ("X-Remote-Extra-A%2FB", "1"), ("x-remote-extra-a%2fb", "2")],
            User("a", ("system:authenticated",), "", {"a/b": ("1", "2")}),
        ),
    ],
)
def test_who_asks(headers: list[tuple[str, str]], expected: User | None) -> None:
    assert USUAL.user(headers) == expected


def test_the_first_header_that_is_not_empty_counts() -> None:
    headers = RequestHeaders(("X-A", "X-B"), ("X-C", "X-D"), ("X-E", "X-F"), ())
    found = headers.user([("X-B", "b"), ("X-A", ""), ("X-D", "7"), ("X-F", "f"), ("X-E", "e")])
    assert found == User("b", ("e", "f", "system:authenticated"), "7")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("X-Remote-User", True), ("x-remote-extra-foo", True), ("X-Remote-Users", False), ("X-Forwarded-For", False)],
)
def test_which_headers_are_meant(name: str, is_one: bool) -> None:
    assert USUAL.names(name) is is_one
