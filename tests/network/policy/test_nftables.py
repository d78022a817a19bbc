"""Tables as nft takes and shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.network.policy import nftables
from bayplan.network.policy.addresses import Family
from bayplan.network.policy.errors import PolicyError, TransactionError
from bayplan.network.policy.table import NAME, Table, whole
from tests.namespaces import Namespace, needs_namespaces
from tests.network.policy import objects as make
from tests.network.policy.objects import apps, block, from_pods, port
from tests.network.policy.world import WORLD, nodes_with

pytestmark = needs_namespaces

POLICIES = [
    make.policy("a", apps("web"), ingress=[([from_pods("api"), block("10.0.0.0/8", "10.1.0.0/16")], [port(80), port(90, end=99)])]),
    make.policy("b", apps("web"), egress=[([from_pods("db")], [port("http"), port(53, "UDP"), port(1, "SCTP"), port(9, "SCTP")])]),
    make.policy("c", ingress=[([block("::/0", "fd00::/8"), block("fd02::3/128")], [])]),
]  # fmt: skip


def tables() -> list[Table]:
    node = nodes_with(*WORLD, make.pod("new"), *POLICIES)[0]
    node.state.set_pod_networks(("10.1.0.0/24", "fd01::/64"))
    node.sync()
    return node.state.tables


def difference(namespace: Namespace, table: Table) -> str:
    return namespace.run(lambda: asyncio.run(nftables.difference(table)))


@pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])
def test_what_nft_shows_is_what_it_was_given(family: int) -> None:
    namespace, table = Namespace(), tables()[family]
    try:
        assert difference(namespace, table) == "the table is gone"
        namespace.nft(whole(table))
        assert difference(namespace, table) == ""
        shown = namespace.command("nft", "list", "table", table.family, NAME)
        namespace.nft(f"delete table {table.family} {NAME}")
        namespace.nft(shown)
        assert difference(namespace, table) == ""
        assert namespace.command("nft", "list", "table", table.family, NAME) == shown
    finally:
        namespace.close()


def fixed_set(table: Table) -> str:
    return next(name for name in table.sets if name.startswith("blocks"))


def pod_chain(table: Table) -> str:
    return next(name for name in table.chains if name.startswith("ingress-"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: f"add set ip {NAME} more {{ type mark; }}", "more should not be there, or is missing"),
        (lambda _: f"add chain ip {NAME} more", "more should not be there, or is missing"),
        (lambda _: f"add element ip {NAME} local {{ 9.9.9.9 }}", "set local has other elements"),
        (lambda _: f"delete element ip {NAME} egress {{ 10.1.0.1 }}", "set egress has other elements"),
        (lambda one: f"add element ip {NAME} {fixed_set(one)} {{ 9.9.9.9 }}", "set {0} has other ranges"),
        (lambda one: f"insert rule ip {NAME} {pod_chain(one)} accept", "chain {1} has other rules"),
        (lambda one: f"flush chain ip {NAME} {pod_chain(one)}", "chain {1} has other rules"),
        (lambda _: f"insert rule ip {NAME} input accept", "chain input has other rules"),
    ],
)
def test_changes_by_others_are_found(change: Callable[[Table], str], expected: str) -> None:
    namespace, table = Namespace(), tables()[0]
    try:
        namespace.nft(whole(table))
        namespace.nft(change(table))
        assert difference(namespace, table) == expected.format(fixed_set(table), pod_chain(table))
    finally:
        namespace.close()


def test_what_the_kernel_refuses_is_told() -> None:
    with pytest.raises(TransactionError, match=r"nft -f - failed: .*syntax error"):
        asyncio.run(nftables.apply("nonsense\n"))


def test_a_machine_with_nftables_is_taken_and_left_as_it_is() -> None:
    namespace = Namespace()
    try:
        namespace.run(lambda: asyncio.run(nftables.check_machine(Family)))
        assert namespace.command("nft", "list", "tables") == ""
    finally:
        namespace.close()


def test_a_machine_where_nft_fails_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "nft"
    broken.write_text("#!/bin/sh\necho Operation not permitted >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        PolicyError,
        match=r"need nftables, and root or the capability CAP_NET_ADMIN: nft .* failed: Operation not permitted",
    ):
        asyncio.run(nftables.check_machine(Family))
