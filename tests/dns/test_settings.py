"""What the texts of the command line mean, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.dns.errors import SettingsError
from bayplan.dns.settings import Server, name_servers, parse_domain, parse_forward, parse_listen


@pytest.mark.parametrize(
    ("text", "domain"), [("cluster.local", "cluster.local"), ("Cluster.LOCAL.", "cluster.local"), ("k8s", "k8s")]
)
def test_a_domain_is(text: str, domain: str) -> None:
    assert parse_domain(text) == domain


@pytest.mark.parametrize("text", ["", ".", "a..b", "-a.b", "a_b", "a b", "ä.local", "a" * 64, "cluster.local..", "*.x"])
def test_no_domain_is(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--domain: .* is no domain: .* such as cluster.local"):
        parse_domain(text)


def test_a_domain_leaves_room_for_names() -> None:
    assert parse_domain("a" * 55 + ".b")
    with pytest.raises(SettingsError, match="58 characters, at most 57"):
        parse_domain("a" * 56 + ".b")


def test_addresses_to_listen_on_come_once() -> None:
    assert parse_listen(["127.0.0.1", "::", "0:0:0:0:0:0:0:0"]) == ("127.0.0.1", "::")
    with pytest.raises(SettingsError, match="--listen: 'localhost' is no IP address"):
        parse_listen(["localhost"])


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("192.0.2.1", Server("192.0.2.1", 53)),
        ("192.0.2.1:5353", Server("192.0.2.1", 5353)),
        ("2001:db8::1", Server("2001:db8::1", 53)),
        ("[2001:db8::1]:5353", Server("2001:db8::1", 5353)),
    ],
)
def test_a_server_is(text: str, server: Server) -> None:
    assert parse_forward([text]) == (server,)
    assert parse_forward([str(server), text]) == (server,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dns.test", "neither ADDRESS"),
        ("192.0.2.1:", "a port is a number"),
        ("192.0.2.1:0", "a port is a number"),
        ("192.0.2.1:65536", "a port is a number"),
        ("[192.0.2.1]:53", "neither ADDRESS"),
        ("./missing/resolv.conf", "cannot be read: No such file"),
    ],
)
def test_no_server_is(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"--forward: .*{message}"):
        parse_forward([text])


def test_none_stands_for_no_server() -> None:
    assert parse_forward(["none"]) == ()


def test_a_file_names_servers(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("# nameserver 192.0.2.9\nsearch x\nnameserver 192.0.2.1\nnameserver 2001:db8::1 \nnameserver x\n")
    expected = (Server("192.0.2.1", 53), Server("2001:db8::1", 53))
    assert parse_forward([str(path), "192.0.2.1"]) == expected
    assert name_servers(path.read_text()) == expected
    path.write_text("search x\n")
    with pytest.raises(SettingsError, match="names no server; name servers, or none with --forward none"):
        parse_forward([str(path)])


def test_the_number_of_servers_is_bounded() -> None:
    servers = [f"192.0.2.{number}" for number in range(1, 17)]
    assert len(parse_forward(servers[:15])) == 15
    with pytest.raises(SettingsError, match="16 servers, at most 15"):
        parse_forward(servers)
