from __future__ import annotations

from typing import Any

import pytest

from bayplan.network.data_plane import Entry, Forwarding, Neighbor, Route, Unreachable, make_tunnel
from bayplan.network.ip_commands import change, is_tunnel, read_forwarding, read_neighbors, read_routes
from tests.network.nodes import UPLINK, A, settings

VXLAN = "bayplan-vxlan"
ROUTE = Route("10.1.2.0/24", "10.1.2.0", VXLAN)
NEIGHBOR = Neighbor("10.1.2.0", "02:00:00:00:00:02")
FORWARDING = Forwarding("02:00:00:00:00:02", "192.0.2.2")
TUNNEL = make_tunnel(A, UPLINK, settings())
LINK: dict[str, Any] = {
    "ifname": VXLAN,
    "flags": ["BROADCAST", "UP"],
    "mtu": 1450,
    "address": TUNNEL.hardware_address,
    "linkinfo": {"info_kind": "vxlan", "info_data": {"id": 1, "link": "eth0", "local": "192.0.2.1", "port": 8472}},
    "addr_info": [
        {"local": "10.1.1.0", "scope": "global"},
        {"local": "fd00:1::", "scope": "global"},
        {"local": "fe80::1", "scope": "link"},
    ],
}


def test_a_node_is_made_reachable_from_the_outer_to_the_inner() -> None:
    commands = change((), (ROUTE, NEIGHBOR, FORWARDING), VXLAN)
    assert commands.bridge == ["fdb replace 02:00:00:00:00:02 dev bayplan-vxlan dst 192.0.2.2 self permanent"]
    assert commands.ip == [
        "neighbor replace 10.1.2.0 lladdr 02:00:00:00:00:02 dev bayplan-vxlan nud permanent",
        "route replace 10.1.2.0/24 via 10.1.2.0 dev bayplan-vxlan onlink proto 145",
    ]


def test_it_is_removed_the_other_way_round() -> None:
    commands = change((FORWARDING, NEIGHBOR, ROUTE), (), VXLAN)
    assert commands.bridge == ["fdb delete 02:00:00:00:00:02 dev bayplan-vxlan self"]
    assert commands.ip == [
        "route delete 10.1.2.0/24 dev bayplan-vxlan proto 145",
        "neighbor delete 10.1.2.0 dev bayplan-vxlan",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ROUTE, ROUTE._replace(via="192.0.2.9", device="eth0")),
        (NEIGHBOR, NEIGHBOR._replace(hardware_address="02:00:00:00:00:03")),
        (FORWARDING, FORWARDING._replace(destination="192.0.2.3")),
    ],
)
def test_what_changes_is_replaced_at_once(old: Entry, new: Entry) -> None:
    commands = change((old,), (new,), VXLAN)
    assert [line.split()[1] for line in commands.ip + commands.bridge] == ["replace"]


def test_a_forwarding_entry_does_not_keep_a_route_of_the_same_name() -> None:
    commands = change((Route("x", "192.0.2.2", "eth0"),), (Neighbor("x", "02:00:00:00:00:02"),), VXLAN)
    assert "route delete x dev eth0 proto 145" in commands.ip


def test_networks_that_lead_nowhere_are_set_before_routes() -> None:
    nowhere = Unreachable("10.1.0.0/16")
    assert change((), (ROUTE, nowhere), VXLAN).ip[0] == "route replace unreachable 10.1.0.0/16 proto 145"
    assert change((nowhere,), (), VXLAN).ip == ["route delete unreachable 10.1.0.0/16 proto 145"]


def test_plain_routes_are_not_taken_as_on_link() -> None:
    assert change((), (Route("10.1.2.0/24", "192.0.2.2", "eth0"),), VXLAN).ip == [
        "route replace 10.1.2.0/24 via 192.0.2.2 dev eth0 proto 145"
    ]


def test_what_the_kernel_has() -> None:
    routes: list[dict[str, Any]] = [
        {"dst": "10.1.2.0/24", "gateway": "10.1.2.0", "dev": VXLAN, "protocol": "145", "flags": ["onlink"]},
        {"dst": "10.1.3.1", "gateway": "192.0.2.3", "dev": "eth0"},
        {"type": "unreachable", "dst": "10.1.0.0/16", "protocol": "145"},
        {"dst": "fd00:2::", "gateway": "2001:db8::2", "dev": "eth0"},
    ]
    assert read_routes(routes) == {
        ROUTE,
        Unreachable("10.1.0.0/16"),
        Route("10.1.3.1/32", "192.0.2.3", "eth0"),
        Route("fd00:2::/128", "2001:db8::2", "eth0"),
    }
    assert read_neighbors([{"dst": "10.1.2.0", "lladdr": "02:00:00:00:00:02"}, {"dst": "ff02::1"}]) == {NEIGHBOR}
    forwarding = [{"mac": "02:00:00:00:00:02", "dst": "192.0.2.2"}, {"mac": "33:33:00:00:00:01"}]
    assert read_forwarding(forwarding) == {FORWARDING}


class TestTunnel:
    def test_the_device_as_it_must_be(self) -> None:
        assert is_tunnel(TUNNEL, [LINK])

    @pytest.mark.parametrize(
        "changes",
        [
            {"mtu": 1400},
            {"address": "02:00:00:00:00:09"},
            {"flags": ["BROADCAST"]},
            {"addr_info": LINK["addr_info"][:1]},
            {"linkinfo": {**LINK["linkinfo"], "info_kind": "dummy"}},
            *(
                {"linkinfo": {"info_kind": "vxlan", "info_data": {**LINK["linkinfo"]["info_data"], name: value}}}
                for name, value in (("id", 2), ("link", "eth1"), ("local", "192.0.2.9"), ("port", 4789))
            ),
        ],
    )
    def test_any_other_device_is_made_anew(self, changes: dict[str, Any]) -> None:
        assert not is_tunnel(TUNNEL, [{**LINK, **changes}])

    def test_no_device(self) -> None:
        assert not is_tunnel(TUNNEL, [])
