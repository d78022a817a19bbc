from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bayplan.support.system.machine import default_address, has_ipv6, has_net_admin, hostname, machine_addresses


def test_names_of_nodes_are_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: " Box ")
    assert hostname() == "box"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name:\tx\nCapEff:\t0000000000001000\nCapBnd:\t0000000000000000\n", True),
        ("Name:\tx\nCapEff:\tffffffffffffefff\nCapBnd:\tffffffffffffffff\n", False),
        ("Name:\tx\n", False),
    ],
)
def test_the_right_to_change_the_network_is_a_capability(tmp_path: Path, text: str, *, expected: bool) -> None:
    (tmp_path / "status").write_text(text)
    assert has_net_admin(tmp_path / "status") is expected


@pytest.mark.parametrize(
    ("is_known", "disabled", "expected"),
    [(True, "0\n", True), (True, "1\n", False), (True, None, True), (False, "0\n", False), (False, None, False)],
)
def test_ipv6_may_be_missing_or_off(tmp_path: Path, disabled: str | None, *, is_known: bool, expected: bool) -> None:
    for directory in ("net", "sys/net/ipv6/conf/all"):
        (tmp_path / directory).mkdir(parents=True)
    if is_known:
        (tmp_path / "net/if_inet6").touch()
    if disabled is not None:
        (tmp_path / "sys/net/ipv6/conf/all/disable_ipv6").write_text(disabled)
    assert has_ipv6(tmp_path) is expected


def test_addresses_of_the_machine_are_those_that_others_may_reach(tmp_path: Path) -> None:
    assert machine_addresses(tmp_path) == (), "a system that is not Linux"
    tree = "Main:\n  +-- 10.0.0.0/8 2 0 2\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.7\n        /32 host LOCAL\n"
    loop = "     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n"
    (tmp_path / "fib_trie").write_text(tree + loop + "Local:\n" + tree)
    (tmp_path / "if_inet6").write_text(
        "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n"
        "fd000000000000000000000000000002 04 40 00 82     eth0\n"
        "00000000000000000000000000000001 01 80 10 80       lo\n"
    )
    assert machine_addresses(tmp_path) == ("10.0.0.7", "fd00::2")


def test_a_machine_without_a_route_is_reached_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(self: socket.socket, address: object) -> None:
        raise OSError("Network is unreachable")

    found = default_address()
    assert found == "127.0.0.1" or found in machine_addresses()
    monkeypatch.setattr("socket.socket.connect", connect)
    assert default_address() == "127.0.0.1"
    assert default_address(socket.AF_INET6) == "::1"
