from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.support.machine import has_ipv6, has_net_admin, hostname


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
