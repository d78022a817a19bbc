"""What describes a forward, and which forward a call follows."""

from __future__ import annotations

import pytest

from bayplan.apiserver.routing.forwards import (
    ForwardedService,
    ForwardError,
    Forwards,
    is_loopback,
    parse_forward,
    parse_service,
)


@pytest.mark.parametrize(
    ("text", "service", "host", "port", "scheme"),
    [
        ("service/a/b=localhost:9443", ForwardedService("a", "b"), "localhost", 9443, ""),
        ("svc/a/b:443=127.0.0.1:9443", ForwardedService("a", "b", 443), "127.0.0.1", 9443, ""),
        ("services/a/b=http://[::1]:80", ForwardedService("a", "b"), "::1", 80, "http"),
        ("service/a/b=https://dev.example.com:9443", ForwardedService("a", "b"), "dev.example.com", 9443, "https"),
    ],
)
def test_forwards_are_read(text: str, service: ForwardedService, host: str, port: int, scheme: str) -> None:
    found = parse_forward(text)
    assert (found.service, found.host, found.port, found.scheme) == (service, host, port, scheme)
    assert parse_forward(str(found)) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("service/a/b", "expected service/NAMESPACE/NAME"),
        ("pod/a/b=localhost:1", "expected service/NAMESPACE/NAME"),
        ("service/b=localhost:1", "expected service/NAMESPACE/NAME"),
        ("service/a/b/c=localhost:1", "expected service/NAMESPACE/NAME"),
        ("service/a/B=localhost:1", "expected service/NAMESPACE/NAME"),
        ("service/a/b:x=localhost:1", "'x' is no port"),
        ("service/a/b:0=localhost:1", "'0' is no port"),
        ("service/a/b:65536=localhost:1", "'65536' is no port"),
        ("service/a/b=localhost", "expected HOST:PORT"),
        ("service/a/b=:9443", "expected HOST:PORT"),
        ("service/a/b=localhost:0", "expected HOST:PORT"),
        ("service/a/b=localhost:70000", "Port out of range"),
        ("service/a/b=localhost:9443/path", "expected HOST:PORT"),
        ("service/a/b=me@localhost:9443", "expected HOST:PORT"),
        ("service/a/b=exa mple:9443", "expected HOST:PORT"),
        ("service/a/b=ftp://localhost:9443", "the scheme is none of http, https"),
        ("service/a/b=http://dev.example.com:80", "without TLS only this machine may be named"),
        ("service/a/b=http://localhost.example.com:80", "without TLS only this machine may be named"),
        ("service/a/b=http://10.0.0.1:80", "without TLS only this machine may be named"),
    ],
)
def test_what_is_no_forward_is_refused_with_what_was_expected(text: str, why: str) -> None:
    with pytest.raises(ForwardError, match=why.replace("[", r"\[")):
        parse_forward(text)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_only_this_machine_is_a_loopback(host: str, *, is_local: bool) -> None:
    assert is_loopback(host) is is_local


def test_the_forward_of_a_port_wins_over_that_of_its_service() -> None:
    whole, own = parse_forward("service/a/b=localhost:1"), parse_forward("service/a/b:443=localhost:2")
    forwards = Forwards([whole, own])
    assert forwards.find("a", "b", 443) == own
    assert forwards.find("a", "b", 8443) == whole
    assert forwards.find("a", "b", 0) == whole
    assert forwards.find("x", "b", 443) is None
    assert forwards.all() == [whole, own]


def test_changes_are_told_and_a_forward_may_be_changed_and_removed() -> None:
    forwards = Forwards()
    told: list[list[str]] = []
    forwards.on_change(lambda: told.append([str(one) for one in forwards.all()]))
    forwards.set(parse_forward("service/a/b=localhost:1"))
    forwards.set(parse_forward("service/a/b=localhost:2"))
    assert forwards.remove(parse_service("service/a/b"))
    assert not forwards.remove(parse_service("service/a/b"))
    assert told == [["service/a/b=localhost:1"], ["service/a/b=localhost:2"], []]
